// The interactive quality-TTFT plot.

const POLYGONS = { s: [4, 45], D: [4, 0], d: [4, 0], "^": [3, 0], v: [3, 180], "<": [3, -90], ">": [3, 90], p: [5, 0], h: [6, 0], H: [6, 30], 8: [8, 22.5] };

/** A marker named as Matplotlib names it, around 0, 0. */
function markerPath(marker, radius) {
  const point = (angle, r) => `${(r * Math.sin(angle)).toFixed(2)},${(-r * Math.cos(angle)).toFixed(2)}`;
  const turn = (degrees) => (degrees * Math.PI) / 180;
  if (marker === "*") {
    const corners = [...Array(10).keys()].map((i) => point(turn(36 * i), i % 2 ? radius * 0.6 : radius * 1.45));
    return `M${corners.join("L")}Z`;
  }
  if (marker === "X" || marker === "P") {
    const [a, b] = [radius * 0.4, radius * 1.1];
    const corners = [[-a, -b], [a, -b], [a, -a], [b, -a], [b, a], [a, a], [a, b], [-a, b], [-a, a], [-b, a], [-b, -a], [-a, -a]];
    const angle = turn(marker === "X" ? 45 : 0);
    const turned = corners.map(([x, y]) => `${(x * Math.cos(angle) - y * Math.sin(angle)).toFixed(2)},${(x * Math.sin(angle) + y * Math.cos(angle)).toFixed(2)}`);
    return `M${turned.join("L")}Z`;
  }
  if (POLYGONS[marker]) {
    const [count, first] = POLYGONS[marker];
    const corners = [...Array(count).keys()].map((i) => point(turn(first + (360 / count) * i), radius * 1.15));
    return `M${corners.join("L")}Z`;
  }
  return `M${-radius},0a${radius},${radius} 0 1 0 ${2 * radius},0a${radius},${radius} 0 1 0 ${-2 * radius},0Z`;
}

function swatch(point) {
  return coloured(draw("svg", { class: "swatch", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, draw("path", { d: markerPath(point.marker, 6) })), point.colour);
}

/** Round tick values that span low to high. */
function ticksOf(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(6)));
  return found;
}

/** Those no other point beats: quality up, TTFT down. */
function frontOf(points) {
  const sorted = [...points].sort((a, b) => a.ttft_s - b.ttft_s || b.score - a.score);
  const front = [];
  for (const point of sorted) if (!front.length || point.score > front[front.length - 1].score) front.push(point);
  return front;
}

function lines(point) {
  const bracket = (low, high, form) => (low === null || high === null ? "" : ` [${form(low)}, ${form(high)}]`);
  const two = (value) => fixed(value, 2);
  const found = [
    `ρ = ${point.rho}` + (point.rho_effective !== null && Math.abs(point.rho - point.rho_effective) > 0.005 ? ` (effective ${fixed(point.rho_effective, 2)})` : "") + (point.bandwidth && point.bandwidth !== "none" ? `, store at ${point.bandwidth}` : ""),
    `quality ${fixed(point.score, 3)}${bracket(point.score_low, point.score_high, two)}`,
    `TTFT ${seconds(point.ttft_s)}${bracket(point.ttft_low_s, point.ttft_high_s, seconds)}`,
  ];
  if (point.speedup !== null) found.push(`${two(point.speedup)}x full prefill${bracket(point.speedup_low, point.speedup_high, two)}`);
  if (point.at_limit) found.push(`${fixed(100 * point.at_limit, 0)} % of answers cut at the limit`);
  return [...found, `n = ${point.n}`];
}

function pareto(root, panels) {
  if (!panels.length) {
    root.append(make("p", {}, "No measured point to plot."));
    return;
  }
  const state = { run: panels[0].run, model: panels[0].model, dataset: panels[0].dataset, bandwidth: "", bars: true, front: true };
  // parameters beside the paper's rule stand back until they are asked for
  const off = new Set(panels.flatMap((p) => p.points.filter((q) => q.aside).map((q) => q.label)));
  let known = 0, paper = 0;
  const top = make("div", { class: "controls" });
  const methods = make("fieldset");
  const note = make("p", { class: "fine" });
  const plot = make("div", { class: "plot" });
  const tip = make("div", { class: "tip", role: "status" });
  root.append(top, methods, plot, note);

  const panel = () => panels.find((p) => p.run === state.run && p.model === state.model && p.dataset === state.dataset);
  const shown = () => panel().points.filter((p) => p.bandwidth === null || p.bandwidth === state.bandwidth);

  function choose(key, value) {
    state[key] = value;
    for (const [name, above] of [["model", ["run"]], ["dataset", ["run", "model"]]]) {
      const fits = panels.filter((p) => above.every((k) => p[k] === state[k]));
      if (!fits.some((p) => p[name] === state[name])) state[name] = fits[0][name];
    }
    controls();
  }

  function controls() {
    const here = panel();
    if (!here.bandwidths.includes(state.bandwidth)) state.bandwidth = here.bandwidths[0] || "";
    const of = (name, above) => unique(panels.filter((p) => above.every((k) => p[k] === state[k])).map((p) => p[name]));
    const focused = top.contains(document.activeElement) ? [...top.querySelectorAll("select")].indexOf(document.activeElement) : -1;
    top.replaceChildren(
      selectOf("Run", of("run", []), state.run, (v) => choose("run", v)),
      selectOf("Model", of("model", ["run"]), state.model, (v) => choose("model", v)),
      selectOf("Dataset", of("dataset", ["run", "model"]), state.dataset, (v) => choose("dataset", v)),
      selectOf("Store", here.bandwidths.map((b) => [b, b === "none" ? "not throttled" : b]), state.bandwidth, (v) => choose("bandwidth", v)),
      toggleOf("intervals", state.bars, (on) => { state.bars = on; render(); }),
      toggleOf("Pareto front", state.front, (on) => { state.front = on; render(); }),
    );
    if (focused >= 0) top.querySelectorAll("select")[focused].focus();
    const kinds = unique(shown().map((p) => p.label));
    methods.replaceChildren(make("legend", {}, "Methods"), ...kinds.map((label) => {
      const one = shown().find((p) => p.label === label);
      return toggleOf(label, !off.has(label), (on) => { on ? off.delete(label) : off.add(label); render(); }, swatch(one));
    }), make("button", { type: "button", click: () => { off.size ? off.clear() : kinds.forEach((k) => off.add(k)); controls(); } }, "all / none"));
    note.textContent = [
      `${here.model}, ${here.dataset} (${here.metric}).`, here.note ? `Data: ${here.note}.` : "",
      "Marker size grows with ρ. Curves join a method's points over ρ. Broad band: Pareto front of the methods shown.",
    ].filter(Boolean).join(" ");
    render();
  }

  function render() {
    const points = shown().filter((p) => !off.has(p.label));
    tip.remove();
    const width = paper || Math.max(280, plot.clientWidth || 640);
    const height = Math.round(Math.min(480, Math.max(320, width * 0.55)));
    const box = { left: 54, right: 14, top: 14, bottom: 44 };
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Quality against TTFT; arrow keys go from point to point" });
    const parts = [svg];
    if (panel().predicted) parts.push(make("div", { class: "watermark" }, "PREDICTED, in part"));
    plot.replaceChildren(...parts);
    if (!points.length) {
      svg.append(draw("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "No method is chosen."));
      return;
    }
    const all = shown();
    const low = Math.min(...all.map((p) => p.score_low ?? p.score)), high = Math.max(...all.map((p) => p.score_high ?? p.score));
    const span = Math.max(high - low, 0.1);
    const [y0, y1] = [Math.max(0, low - 0.06 * span), Math.min(1.02, Math.max(high, low + 0.1) + 0.06 * span)];
    const x1 = 1.04 * Math.max(...all.map((p) => p.ttft_high_s ?? p.ttft_s));
    const x = (value) => box.left + (value / x1) * (width - box.left - box.right);
    const y = (value) => height - box.bottom - ((value - y0) / (y1 - y0)) * (height - box.top - box.bottom);
    for (const at of ticksOf(y0, y1, 5)) {
      svg.append(draw("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(at), y2: y(at) }), draw("text", { class: "soft", x: box.left - 6, y: y(at) + 4, "text-anchor": "end" }, String(at)));
    }
    for (const at of ticksOf(0, x1, width < 500 ? 4 : 8)) {
      svg.append(draw("line", { class: "grid", x1: x(at), x2: x(at), y1: box.top, y2: height - box.bottom }), draw("text", { class: "soft", x: x(at), y: height - box.bottom + 16, "text-anchor": "middle" }, String(at)));
    }
    svg.append(
      draw("text", { x: (box.left + width - box.right) / 2, y: height - 8, "text-anchor": "middle" }, "TTFT, median (s)"),
      draw("text", { x: 12, y: height / 2 - 12, "text-anchor": "middle", transform: `rotate(-90 12 ${height / 2 - 12})` }, `Quality, mean ${panel().metric}`),
    );
    if (state.front) svg.append(draw("path", { class: "front", d: "M" + frontOf(points.filter((p) => p.method !== "cold_prefill")).map((p) => `${x(p.ttft_s)},${y(p.score)}`).join("L") }));
    for (const label of unique(points.map((p) => p.label))) {
      const curve = points.filter((p) => p.label === label).sort((a, b) => a.rho - b.rho);
      if (curve[0].reference) {
        for (const p of curve) svg.append(coloured(draw("line", { class: "guide", x1: box.left, x2: width - box.right, y1: y(p.score), y2: y(p.score) }), p.colour));
      } else {
        svg.append(coloured(draw("path", { class: "curve", d: "M" + curve.map((p) => `${x(p.ttft_s)},${y(p.score)}`).join("L") }), curve[0].colour));
      }
    }
    const dots = [...points].sort((a, b) => a.ttft_s - b.ttft_s).map((p) => dot(p, x, y));
    dots.forEach((one, at) => {
      one.setAttribute("tabindex", at ? "-1" : "0");
      one.addEventListener("keydown", (event) => step(event, dots, at));
    });
    svg.append(...dots);
    plot.append(tip);
    tip.hidden = true;
  }

  function dot(p, x, y) {
    const [cx, cy] = [x(p.ttft_s), y(p.score)];
    const radius = p.reference ? 6.5 : 3.5 + 6 * Math.min(p.rho, 0.5);
    const show = () => showTip(p, cx, cy);
    const group = draw("g", { class: "dot", role: "img", "aria-label": `${p.label}: ${lines(p).join(", ")}`, pointerenter: show, focus: show, pointerleave: hide, blur: hide });
    if (state.bars) {
      if (p.score_low !== null) group.append(draw("line", { class: "bar", x1: cx, x2: cx, y1: y(p.score_low), y2: y(p.score_high) }));
      if (p.ttft_low_s !== null) group.append(draw("line", { class: "bar", y1: cy, y2: cy, x1: x(p.ttft_low_s), x2: x(p.ttft_high_s) }));
    }
    // the ring is wider than the marker and catches the pointer
    group.append(draw("path", { class: "marker", transform: `translate(${cx} ${cy})`, d: markerPath(p.marker, radius) }), draw("circle", { class: "ring", cx, cy, r: radius + 5 }));
    return coloured(group, p.colour);
  }

  function step(event, dots, at) {
    const moves = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: dots.length - 1 };
    if (event.key === "Escape") return hide();
    if (!(event.key in moves)) return undefined;
    event.preventDefault();
    const next = dots[(moves[event.key] + dots.length) % dots.length];
    dots.forEach((one) => one.setAttribute("tabindex", one === next ? "0" : "-1"));
    next.focus({ preventScroll: true });
    return undefined;
  }

  function showTip(p, cx, cy) {
    tip.replaceChildren(make("b", {}, p.label), ...lines(p).map((line) => make("div", {}, line)));
    tip.hidden = false;
    const room = plot.clientWidth;
    tip.style.left = `${Math.max(0, Math.min(cx + 14, room - tip.offsetWidth))}px`;
    const above = cy - tip.offsetHeight - 12;
    tip.style.top = `${above > 0 ? above : cy + 16}px`;
  }

  function hide() {
    tip.hidden = true;
  }

  new ResizeObserver(() => {
    if (plot.clientWidth !== known && !plot.contains(document.activeElement)) { known = plot.clientWidth; render(); }
  }).observe(plot);
  controls();
  // type would shrink with the page
  window.addEventListener("beforeprint", () => { paper = 640; render(); });
  window.addEventListener("afterprint", () => { paper = 0; render(); });
}
