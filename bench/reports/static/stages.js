// What a request's time went to: its timeline where one was recorded, else the sums of its row.

const STAGE_CLASS = { select: "s-select", load: "s-load", recompute: "s-recompute", "first token": "s-head" };

/** One method's lanes over a time axis of `end` ms: compute above, reads below. */
function lanesOf(cell, end) {
  const width = 1000;
  const at = (ms) => (ms / end) * width;
  const bar = (name, began, ended, top, height, title) => draw("rect", { class: name, x: at(began), width: Math.max(at(ended) - at(began), 0.6), y: top, height }, draw("title", {}, title));
  const found = [];
  const say = (what, began, ended) => `${what}: ${began.toFixed(1)} to ${ended.toFixed(1)} ms`;
  const line = cell.timeline;
  if (line) {
    if (line.selected) found.push(bar("s-select", 0, line.selected, 2, 18, say("select", 0, line.selected)));
    if (!line.layers.length) found.push(bar("s-recompute", line.selected, line.head, 2, 18, say("prefill", line.selected, line.head)));
    line.layers.forEach(([began, wait, waited, ended], layer) => {
      found.push(bar(layer % 2 ? "s-recompute s-even" : "s-recompute", began, ended, 2, 18, say(`layer ${layer}`, began, ended)));
      if (waited - wait > end / 2000) found.push(bar("s-load", wait, waited, 5, 12, say(`layer ${layer} waits for its cache`, wait, waited)));
    });
    found.push(bar("s-head", line.head, line.ended, 2, 18, say("first token", line.head, line.ended)));
    for (const [stage, name] of [["select", "s-select"], ["fuse", "s-load"]]) {
      for (const [began, ended] of line.reads[stage]) found.push(bar(name, began, ended, 23, 7, say(`reading for ${stage === "select" ? "selection" : "fusion"}`, began, ended)));
    }
  } else {
    let began = 0;
    for (const [stage, part] of [["select", "select_s"], ["load", "load_s"], ["recompute", "recompute_s"], ["first token", "first_token_s"]]) {
      const ms = (cell.times[part] || 0) * 1000;
      if (ms > 0) found.push(bar(STAGE_CLASS[stage], began, began + ms, 2, 18, `${stage}: ${ms.toFixed(1)} ms`));
      began += ms;
    }
  }
  const reads = line && line.reads.select.length + line.reads.fuse.length > 0;
  return draw("svg", { class: "lane", viewBox: `0 0 ${width} ${reads ? 32 : 22}`, preserveAspectRatio: "none", height: reads ? 40 : 28, "aria-hidden": "true" }, ...found);
}

function stagesOf(cells, colours) {
  const measured = cells.filter((cell) => cell.times.ttft_s !== null);
  if (!measured.length) return make("p", {}, "No measured time.");
  const end = Math.max(...measured.map((cell) => Math.max(cell.times.ttft_s * 1000, cell.timeline ? cell.timeline.ended : 0)));
  const root = make("div", { class: "lanes" });
  root.style.setProperty("--s-select", colours.select);
  root.style.setProperty("--s-load", colours.load);
  root.style.setProperty("--s-recompute", colours.recompute);
  root.style.setProperty("--s-head", colours["first token"]);
  const box = (name) => draw("svg", { class: "swatch", viewBox: "0 0 16 16", "aria-hidden": "true" }, draw("rect", { class: name, width: 16, height: 16 }));
  root.append(make("ul", { class: "key" }, ...[["s-select", "select, or reading for it"], ["s-load", "waiting for, or reading, caches"], ["s-recompute", "layers recomputed"], ["s-head", "first token"]].map(([name, text]) => make("li", { class: "toggle" }, box(name), text))));
  for (const cell of measured) {
    const t = cell.times;
    const parts = [["select", t.select_s], ["load wait", t.load_s], ["recompute", t.recompute_s], ["first token", t.first_token_s]].filter(([, s]) => s >= 0.0005);
    root.append(make("div", { class: "name" }, make("b", {}, cell.label), make("span", {}, `${seconds(t.ttft_s)} = ${parts.map(([name, s]) => `${name} ${seconds(s)}`).join(" + ")}`)), lanesOf(cell, end));
  }
  root.append(make("p", { class: "fine" }, measured.some((cell) => cell.timeline)
    ? "Upper lane: what is computed when, with layers in two shades in turn; lower lane: when caches are read. All methods on one scale, from the request's arrival to its first token."
    : "The sum of each stage on one scale; this run kept no timeline, so their order inside is not known."));
  return root;
}
