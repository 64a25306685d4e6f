// The request browser, and the start of everything.

const FIRST_CHOICE = ["qcfuse", "prophetkv", "epic", "cacheblend"];

function requestBrowser(root, requests, stageColours) {
  if (!requests.length) {
    root.append(make("p", {}, "No request to show."));
    return;
  }
  const state = { run: requests[0].run, model: requests[0].model, dataset: requests[0].dataset, request: requests[0].request, rho: null, bandwidth: null, layer: Infinity, left: null, right: null };
  const off = new Set();
  const LEVELS = ["run", "model", "dataset", "request"];
  const top = make("div", { class: "controls" });
  const methods = make("fieldset");
  const body = make("div");
  root.append(top, methods, body);

  const here = () => requests.find((r) => LEVELS.every((k) => r[k] === state[k]));
  const fixedRho = (cell) => cell.method === "full_prefill" || cell.method === "direct_reuse";
  const cellsHere = () => here().cells.filter((c) => (fixedRho(c) || c.rho === state.rho) && (c.bandwidth === null || c.bandwidth === state.bandwidth));

  function choose(key, value) {
    state[key] = value;
    LEVELS.forEach((name, depth) => {
      const fits = requests.filter((r) => LEVELS.slice(0, depth).every((k) => r[k] === state[k]));
      if (!fits.some((r) => r[name] === state[name])) state[name] = fits[0][name];
    });
    controls();
  }

  function controls() {
    const rhos = unique(here().cells.filter((c) => !fixedRho(c)).map((c) => c.rho)).sort((a, b) => a - b);
    if (!rhos.includes(state.rho)) state.rho = rhos.includes(0.3) ? 0.3 : rhos[0] ?? null;
    const bandwidths = unique(here().cells.map((c) => c.bandwidth).filter((b) => b !== null));
    if (!bandwidths.includes(state.bandwidth)) state.bandwidth = bandwidths[0] ?? null;
    const of = (name) => unique(requests.filter((r) => LEVELS.slice(0, LEVELS.indexOf(name)).every((k) => r[k] === state[k])).map((r) => r[name]));
    const focused = [...top.querySelectorAll("select")].indexOf(document.activeElement);
    top.replaceChildren(
      ...LEVELS.map((name) => selectOf(name[0].toUpperCase() + name.slice(1), of(name), state[name], (v) => choose(name, v))),
      selectOf("ρ", rhos.map(String), String(state.rho), (v) => choose("rho", Number(v))),
      selectOf("Store", bandwidths.map((b) => [b, b === "none" ? "not throttled" : b]), state.bandwidth, (v) => choose("bandwidth", v)),
    );
    if (focused >= 0) top.querySelectorAll("select")[focused].focus();
    const names = unique(cellsHere().map((c) => c.label));
    methods.replaceChildren(make("legend", {}, "Methods"), ...names.map((label) => {
      const one = cellsHere().find((c) => c.label === label);
      return toggleOf(label, !off.has(label), (on) => { on ? off.delete(label) : off.add(label); show(); }, swatch({ ...one, marker: "s" }));
    }));
    show();
  }

  function show() {
    const request = here();
    const cells = cellsHere().filter((c) => !off.has(c.label));
    body.replaceChildren(...question(request), ...tokens(request, cells), ...answers(request, cells), make("h4", {}, "Where the time went"), stagesOf(cells, stageColours));
  }

  function question(request) {
    const prompt = request.prompt;
    const found = [];
    if (request.note) found.push(make("p", { class: "remark note" }, make("b", {}, "Data "), request.note));
    if (request.predicted) found.push(make("p", { class: "remark bad" }, "Predicted, in part: this run holds numbers of a cost model."));
    if (!prompt) return found;
    found.push(
      make("details", {}, make("summary", {}, "Instruction before the context"), make("p", { class: "text", dir: "auto" }, prompt.instruction)),
      make("h4", {}, "Query after the context"), make("div", { class: "chunk" }, make("p", { class: "text said", dir: "auto" }, prompt.query.trim())),
    );
    return found;
  }

  /** The map, and the text under two methods. */
  function tokens(request, cells) {
    const prompt = request.prompt;
    const known = cells.filter((c) => c.layers && c.method !== "full_prefill" && c.method !== "direct_reuse");
    if (!prompt || !known.length) return prompt ? [make("p", {}, "No selection of a chosen method is recorded."), ...contextOf(prompt, new Set(), null)] : [];
    const deepest = Math.max(...known.map((c) => Math.max(...c.layers.map((l) => l[1]))));
    const layer = Math.min(state.layer, deepest);
    const sets = new Map(known.map((c) => [c.label, selectedAt(c, layer)]));
    const labels = known.map((c) => c.label);
    const ranked = [...FIRST_CHOICE.map((m) => known.find((c) => c.method === m)).filter(Boolean), ...known].map((c) => c.label);
    const left = labels.includes(state.left) ? state.left : ranked[0];
    const fallback = unique(ranked).find((label) => label !== left) ?? "";
    const right = state.right === "" || (labels.includes(state.right) && state.right !== left) ? state.right : fallback;
    const evidence = new Set(prompt.evidence);
    const base = sets.get(left);
    const strips = known.map((c) => {
      const set = sets.get(c.label);
      const covered = [...evidence].filter((at) => set.has(at)).length;
      const parts = [`${set.size} tokens`];
      if (evidence.size) parts.push(`${covered}/${evidence.size} evidence`);
      return strip(c.label, c.colour, set, prompt, parts.join(", "));
    });
    const size = prompt.context.length;
    const changes = known.some((c) => c.layers.length > 1);
    const range = make("input", { type: "range", min: 0, max: deepest, value: layer, input: () => { state.layer = Number(range.value); show(); body.querySelector("input[type=range]").focus(); } });
    const picks = make("div", { class: "controls" },
      selectOf("Text under", labels, left, (v) => { state.left = v; show(); }),
      selectOf("beside", [["", "nothing"], ...labels.filter((l) => l !== left)], right, (v) => { state.right = v; show(); }),
      changes ? make("label", { class: "field" }, `Layer ${layer} of 0–${deepest} (some methods narrow with depth)`, range) : null);
    const both = right ? [...base].filter((at) => sets.get(right).has(at)).length : 0;
    const side = (label, other) => {
      const cell = known.find((c) => c.label === label);
      return coloured(make("div", { class: "side" }, make("h4", {}, `${label}: ${sets.get(label).size} of ${size} tokens recomputed (${percent(sets.get(label).size / Math.max(size, 1))})`), ...contextOf(prompt, sets.get(label), other ? sets.get(other) : null)), cell.colour);
    };
    const key = make("ul", { class: "key" }, make("li", {}, make("mark", {}, "recomputed"), right ? " by both" : ""), right ? make("li", {}, make("mark", { class: "own" }, "recomputed"), " by this one alone") : null, make("li", {}, make("span", { class: "ev" }, "evidence"), " (holds the answer)"));
    return [
      make("h4", {}, `Map: the ${size} context tokens from left to right` + (state.rho === null ? "" : `, ρ = ${state.rho}`)),
      make("p", { class: "fine" }, `Filled: recomputed at layer ${layer}. Lines: chunk boundaries. Below: evidence.`),
      make("div", { class: "strips" }, ...strips),
      picks, coloured(key, known.find((c) => c.label === left).colour),
      right ? make("p", { class: "fine" }, `${left} and ${right} share ${both} tokens: ${percent(both / Math.max(base.size, 1))} of ${left}'s. Two sets drawn at random would share ${percent(sets.get(right).size / Math.max(size, 1))}.`) : null,
      make("div", { class: "sides" }, side(left, right), right ? side(right, left) : null),
    ].filter(Boolean);
  }

  function answers(request, cells) {
    const right = make("div", { class: "answer" }, make("div", { class: "head" }, make("b", {}, request.references.length > 1 ? "References" : "Reference"), make("span", { class: "score" }, `score: ${request.metric}`)), make("p", { class: "text said", dir: "auto" }, request.references.join("\n") || "none"));
    const cards = cells.map((c) => {
      const said = c.status === "ok" ? c.prediction ?? "" : `${c.status}: ${c.error}`;
      const at = c.method === "full_prefill" || c.method === "direct_reuse" ? "" : `ρ = ${c.rho}, `;
      return coloured(make("div", { class: "answer" }, make("div", { class: "head" }, make("b", {}, c.label), make("span", { class: "score" }, `${at}score ${fixed(c.score, 2)}, ${seconds(c.times.ttft_s)}`)), make("p", { class: "text said", dir: "auto" }, said.trim() ? said : "(empty answer)")), c.colour);
    });
    return [make("h4", {}, "Answers"), make("div", { class: "answers" }, right, ...cards)];
  }

  choose("run", state.run);
}

(function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  pareto(document.getElementById("pareto"), data.pareto);
  requestBrowser(document.getElementById("browser"), data.requests, data.stages);
  // closed details would be missing on paper
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
