// Memory over the run, and the instructions under the roofline.
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const hue = (text) => { let sum = 0; for (const letter of text) sum = (sum * 31 + letter.charCodeAt(0)) % 360; return sum; };

function memoryView(part, state) {
  const view = make("div", { className: "view", id: "memory" });
  for (const plan of part.plans || []) {
    if (plan.error) { view.append(make("p", {}, `@${plan.program} is not lowered: ${plan.error}`)); continue; }
    const arena = plan.arena.filter((range) => range[4] === "arena");
    const results = plan.arena.filter((range) => range[4] === "result");
    const live = (ranges) => {
      const steps = new Array(plan.rows.length + 1).fill(0);
      for (const [, bytes, first, last] of ranges) { steps[first] += bytes; steps[last + 1] -= bytes; }
      let now = 0;
      return steps.slice(0, -1).map((step) => (now += step));
    };
    const held = live(arena), kept = results.reduce((sum, range) => sum + range[1], 0);
    view.append(make("h2", {}, `@${plan.program}`), make("p", {},
      `The arena has ${size(plan.nbytes)}; ${plural(arena.length, "value")} of ${size(arena.reduce((s, r) => s + r[1], 0))} share it, `
      + `and at most ${size(held.reduce((a, b) => Math.max(a, b), 0))} are in use at once. ${plural(results.length, "result")} of ${size(kept)} are arrays of their own.`));
    const [width, height, left] = [1100, 260, 70], across = (width - left) / Math.max(1, plan.rows.length), top = Math.max(plan.nbytes, 1);
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height + 30}`, width: "100%", style: "max-width:1500px" });
    for (let k = 0; k <= 4; k++) {
      const y = height - height * k / 4;
      chart.append(svg("line", { x1: left, x2: width, y1: y, y2: y, class: "axis" }), svg("text", { x: left - 6, y: y + (k === 4 ? 12 : 4), "text-anchor": "end" }, size(Math.round(top * k / 4))));
    }
    for (const [offset, bytes, first, last] of arena) {
      const item = plan.rows[first], y = (1 - (offset + bytes) / top) * height;
      const range = svg("rect", { x: left + first * across, width: Math.max(1, (last - first + 1) * across), y, height: Math.max(1, bytes / top * height), fill: `hsl(${hue(item.what + bytes)} 55% 60%)`, class: "range" },
        svg("title", {}, `${item.ops.map((row) => part.text(row).trim()).join("\n") || item.what}\n${size(bytes)} at ${offset}, instructions ${first} to ${last}`));
      range.addEventListener("click", () => { if (item.ops.length) { state.choose(item.ops[0]); state.open("Code"); } });
      chart.append(range);
    }
    const peak = Math.max(...held, 1), points = held.map((bytes, k) => `${left + (k + 0.5) * across},${height - bytes / top * height}`).join(" ");
    chart.append(svg("polyline", { points, fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-dasharray": "4 3" }), svg("text", { x: left, y: height + 20 }, `instructions 0 to ${plan.rows.length - 1}; dashed: bytes in use, at most ${size(peak)}`));
    view.append(chart);
  }
  return { view };
}

function costView(part, state) {
  const view = make("div", { className: "view", id: "cost" });
  const items = part.items.filter((item) => part.cost(item) > 0).sort((a, b) => part.cost(b) - part.cost(a));
  if (!items.length) { view.append(make("p", {}, "No instruction of known shapes computes or moves anything.")); return { view }; }
  const { bandwidth, flops } = part.machine;
  view.append(make("p", {}, part.profiled
    ? `Measured: ${micros(part.total)} in ${plural(part.items.length, "instruction")}. Rates of this machine: ${(bandwidth / 1e9).toFixed(1)} GB/s, ${(flops / 1e9).toFixed(1)} GFLOP/s.`
    : `Not measured: the least time for bytes and operations, at ${(bandwidth / 1e9).toFixed(1)} GB/s and ${(flops / 1e9).toFixed(1)} GFLOP/s of this machine. \`pirkit-run PROGRAM --report FILE\` measures.`));
  const lines = [...part.lineCost].map(([key, held]) => ({ file: +key.split(":")[0], line: +key.split(":")[1], ...held })).sort((a, b) => b.cost - a.cost);
  const bar = (share) => make("td", { className: "text" }, make("span", { className: "fill", style: `width:${Math.round(120 * share)}px` }));
  const body = make("tbody");
  for (const { file, line, cost, items: of } of lines.slice(0, 40)) {
    const text = part.files[file].lines[line - 1] || "";
    body.append(make("tr", { className: "link", data: { line }, on: { click: () => { state.open("Code"); state.views.Code.chooseLine(line); } } },
      make("td", {}, micros(cost)), make("td", {}, `${(100 * cost / part.total).toFixed(1)} %`), bar(cost / part.total), make("td", {}, of.length),
      make("td", { className: "text" }, part.place([file, line])), make("td", { className: "text mono" }, text.trim())));
  }
  view.append(make("h2", {}, "Lines"), table(["time", "share", "", "instructions", "line", "source"], body, 4));
  if (part.profiled) view.append(make("h2", {}, "Roofline"),
    make("p", { className: "note" }, "A point is an instruction: its area is its time, its colour its kind, and a click shows its code. The line is what this machine reaches."), roofline(part, items, state));
  const rows = make("tbody");
  for (const item of items.slice(0, 60)) {
    const row = item.ops[item.ops.length - 1];
    rows.append(make("tr", { className: "link", on: { click: () => { if (row !== undefined) { state.choose(row); state.open("Code"); } } } },
      make("td", {}, micros(part.cost(item))), make("td", {}, count(item.bytes)), make("td", {}, count(item.flops)),
      make("td", {}, part.profiled && item.us ? `${Math.round(100 * Math.min(1, part.least(item) / item.us))} %` : ""),
      make("td", { className: "text" }, "@" + item.plan.program), make("td", { className: "text mono" }, row === undefined ? item.what : part.text(row).trim().slice(0, 110)),
      make("td", { className: "text" }, row === undefined ? "" : part.places(row).slice(0, 3).map((p) => part.place(p)).join(" "))));
  }
  view.append(make("h2", {}, "Instructions"), table(["time", "bytes", "operations", "roofline", "program", "operation", "line"], rows, 4));
  return { view };
}

function roofline(part, items, state) {
  const shown = items.filter((item) => item.flops > 0 && item.bytes > 0), { bandwidth, flops } = part.machine;
  if (!shown.length) return make("p", { className: "note" }, "No instruction has both bytes and operations.");
  const intensity = (item) => item.flops / item.bytes, rate = (item) => item.flops / (part.cost(item) * 1e-6);
  const all = shown.map(intensity), [low, high] = [Math.min(0.1, ...all) / 2, Math.max(flops / bandwidth, ...all) * 2];
  const slow = Math.min(flops / 100, ...shown.map(rate)) / 2, fast = Math.max(flops, ...shown.map(rate)) * 1.5;
  const [width, height, left, below] = [760, 340, 70, 40];
  const x = (value) => left + (width - left) * Math.log(value / low) / Math.log(high / low);
  const y = (value) => (height - below) * (1 - Math.log(value / slow) / Math.log(fast / slow));
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, id: "roofline" });
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power++) chart.append(svg("line", { x1: x(10 ** power), x2: x(10 ** power), y1: 0, y2: height - below, class: "axis" }), svg("text", { x: x(10 ** power), y: height - below + 16, "text-anchor": "middle" }, String(+(10 ** power).toPrecision(1))));
  for (let power = Math.ceil(Math.log10(slow)); power <= Math.log10(fast); power++) chart.append(svg("line", { x1: left, x2: width, y1: y(10 ** power), y2: y(10 ** power), class: "axis" }), svg("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `${+(10 ** (power - 9)).toPrecision(1)}`));
  chart.append(svg("text", { x: width / 2, y: height - 4, "text-anchor": "middle" }, "operations for each byte"), svg("text", { x: left, y: 12 }, "GFLOP/s"));
  const ridge = flops / bandwidth;
  chart.append(svg("polyline", { points: [[low, low * bandwidth], [ridge, flops], [high, flops]].map(([a, b]) => `${x(a)},${y(b)}`).join(" "), fill: "none", stroke: "currentColor", "stroke-width": 2 }));
  for (const item of shown) {
    const row = item.ops[item.ops.length - 1];
    const dot = svg("circle", { cx: x(intensity(item)), cy: y(rate(item)), r: 3 + 9 * Math.sqrt(part.cost(item) / part.total), fill: `hsl(${hue(item.what)} 60% 50% / .6)` },
      svg("title", {}, `${row === undefined ? item.what : part.text(row).trim()}\n${micros(part.cost(item))}, ${(rate(item) / 1e9).toFixed(2)} GFLOP/s`));
    dot.addEventListener("click", () => { if (row !== undefined) { state.choose(row); state.open("Code"); } });
    chart.append(dot);
  }
  return chart;
}
