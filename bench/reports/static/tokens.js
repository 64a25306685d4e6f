// Where a method recomputes: sets of context positions, strips over the context, text with marks.

/** The context positions of "3-7,12" as a Set. */
function positionsOf(ranges) {
  const found = new Set();
  for (const run of ranges.split(",").filter(Boolean)) {
    const [begin, end] = run.split("-").map(Number);
    for (let at = begin; at <= (end ?? begin); at += 1) found.add(at);
  }
  return found;
}

/** The positions a cell recomputed at a layer; null where the run kept none. */
function selectedAt(cell, layer) {
  if (!cell.layers) return null;
  const stretch = cell.layers.find(([first, last]) => first <= layer && layer <= last);
  return positionsOf(stretch ? stretch[2] : "");
}

/** Neighbouring positions as [begin, end) pairs. */
function runsOf(positions) {
  const found = [];
  for (const at of [...positions].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last && last[1] === at) last[1] = at + 1;
    else found.push([at, at + 1]);
  }
  return found;
}

/** One line of the map: the context from left to right, what is recomputed filled, evidence below. */
function strip(name, colour, positions, prompt, value) {
  const size = Math.max(prompt.context.length, 1);
  const rects = (set, top, height) => runsOf(set).map(([a, b]) => `M${a} ${top}h${b - a}v${height}h${a - b}z`).join("");
  const svg = draw("svg", { viewBox: `0 0 ${size} 20`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${value}` },
    draw("path", { class: "fill", d: rects(positions, 0, 15) }), draw("path", { class: "evbar", d: rects(prompt.evidence, 16, 4) }),
    ...prompt.chunk_starts.slice(1).map((at) => draw("line", { class: "edge", x1: at, x2: at, y1: 0, y2: 20 })));
  return coloured(make("div", { class: "strip" }, make("span", {}, name), svg, make("span", { class: "value" }, value)), colour);
}

/** The context as one box a chunk: recomputed tokens marked, those no `other` recomputes more strongly. */
function contextOf(prompt, positions, other) {
  const evidence = new Set(prompt.evidence);
  return prompt.chunk_starts.map((begin, number) => {
    const end = prompt.chunk_starts[number + 1] ?? prompt.context.length;
    const text = make("p", { class: "text", dir: "auto" });
    let plain = "";
    const flush = () => { if (plain) text.append(plain); plain = ""; };
    let count = 0, held = 0;
    for (let at = begin; at < end; at += 1) {
      const [chosen, proof, token] = [positions.has(at), evidence.has(at), prompt.context[at]];
      count += chosen;
      held += proof;
      if (!chosen && !proof) { plain += token; continue; }
      flush();
      const names = [chosen && other && !other.has(at) ? "own" : "", chosen && !token.trim() ? "blank" : "", proof ? "ev" : ""];
      const title = `token ${at}${chosen ? ", recomputed" : ""}${proof ? ", evidence" : ""}`;
      text.append(make(chosen ? "mark" : "span", { class: names.filter(Boolean).join(" ") || null, title }, token));
    }
    flush();
    const head = make("div", { class: "head" }, make("span", {}, `Chunk ${number + 1}, tokens ${begin}–${end - 1}`), make("span", {}, `${count} of ${end - begin} recomputed${held ? `, holds ${held} evidence tokens` : ""}`));
    return make("div", { class: "chunk" }, head, text);
  });
}
