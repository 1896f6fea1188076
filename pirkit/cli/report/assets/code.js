// Three panes with one selection: Python line, operation, kernel.
const LINE = 18;

class RowList { // rows of one height, of which only those in sight are in the document
  constructor(draw) {
    this.drawRow = draw;
    this.space = make("div");
    this.box = make("div", { className: "list" }, this.space);
    this.box.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.length = 0;
  }
  show(length, stays) {
    this.length = length;
    this.space.style.height = `${length * LINE}px`;
    if (!stays) this.box.scrollTop = 0;
    this.draw();
  }
  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 8);
    const last = Math.min(this.length, first + Math.ceil(this.box.clientHeight / LINE) + 16);
    const rows = [];
    for (let k = first; k < last; k++) {
      const row = this.drawRow(k);
      row.style.top = `${k * LINE}px`;
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
  }
  reveal(k) {
    const top = this.box.scrollTop, height = this.box.clientHeight;
    if (k * LINE < top || (k + 2) * LINE > top + height) this.box.scrollTop = k * LINE - height / 3;
    this.draw();
  }
}

function hotLoop(lines) { // of the innermost loops of machine code the one that computes most
  const labels = new Map(), loops = [];
  lines.forEach((line, k) => {
    const label = /^(\.?\w+):/.exec(line);
    if (label) labels.set(label[1], k);
    const jump = /^\s+j\w+\s+(\.L\w+)/.exec(line);
    if (jump && labels.has(jump[1])) loops.push([labels.get(jump[1]), k]);
  });
  const inner = loops.filter(([a, b]) => !loops.some(([c, d]) => a <= c && d <= b && (c > a || d < b)));
  const work = ([a, b]) => lines.slice(a, b).reduce((sum, line) => sum + (/^\s+vf?n?m(add|sub)/.test(line) ? 3 : /^\s+v\w+p[sd]\b/.test(line) ? 1 : 0), 0);
  return inner.sort((one, other) => work(other) - work(one))[0] || null;
}

function codeView(part, state) {
  let module = part.module(part.last), file = 0, stage = "asm", kernel = -1, lines = [], loop = null;
  let marked = { lines: new Set(), rows: new Set() };
  const files = make("select", { id: "file" }), modules = make("select", { id: "module" });
  part.files.forEach((held, k) => files.append(make("option", { value: k, textContent: baseName(held.path), title: held.path })));
  for (const step of part.changed) modules.append(make("option", { value: step.module, textContent: "behind " + part.stepName(step.module) }));
  modules.value = module.number;
  const box = make("input", { type: "search", placeholder: "op, value, type or place", id: "find" });
  const found = make("span", { className: "note" });
  let shown = [];

  const python = new RowList((k) => {
    const held = part.lineCost.get(`${file}:${k + 1}`);
    const share = held && part.total ? held.cost / part.total : 0;
    return make("div", { className: "row" + (marked.lines.has(k + 1) ? " chosen" : ""), data: { line: k + 1 }, on: { click: () => chooseLine(k + 1) },
      title: held ? `${micros(held.cost)}, ${plural(held.items.length, "instruction")}` : "" },
      make("span", { className: "cost", textContent: share ? `${(100 * share).toFixed(1)} %` : "", style: `--share:${100 * share}%` }),
      make("span", { className: "number", textContent: k + 1 }), part.files[file].lines[k]);
  });
  const ir = new RowList((at) => {
    const row = module.ops[shown[at]];
    const makes = state.row !== null && part.operands(state.row).some((value) => part.results(row).includes(value));
    const uses = state.row !== null && part.results(state.row).some((value) => part.operands(row).includes(value));
    const kind = row === state.row ? " chosen" : makes ? " makes" : uses ? " uses" : marked.rows.has(row) ? " same" : "";
    const text = part.text(row), name = part.name(row), place = text.indexOf(name);
    const type = text.lastIndexOf(" : ");
    const end = type > place ? type : text.length;
    return make("div", { className: "row" + kind, data: { row }, on: { click: () => state.choose(row) } },
      text.slice(0, place), make("span", { className: "op", textContent: name }), text.slice(place + name.length, end),
      make("span", { className: "type", textContent: text.slice(end) }));
  });
  const code = new RowList((k) => make("div", { className: "row" + (loop && loop[0] <= k && k <= loop[1] ? " hot" : ""), data: { line: k }, textContent: lines[k] }));
  const title = make("span", { className: "note line", id: "kernel" }), stages = make("span");
  for (const name of ["MapExpr", "loop IR", "LLVM IR", "asm"]) {
    stages.append(make("button", { textContent: name, data: { stage: name }, on: { click: () => { stage = name; showKernel(); } } }), " ");
  }

  function filter() {
    const words = box.value.toLowerCase().split(" ").filter((word) => word);
    shown = [];
    module.ops.forEach((row, k) => {
      const text = words.length ? (part.text(row) + " " + part.places(row).map((p) => part.place(p)).join(" ")).toLowerCase() : "";
      if (words.every((word) => text.includes(word))) shown.push(k);
    });
    found.textContent = `${count(shown.length)} of ${plural(module.ops.length, "op")}`;
    ir.show(shown.length);
  }

  function showKernel() {
    const held = part.kernels && part.kernels[kernel];
    for (const button of stages.children) button.className = button.dataset.stage === stage ? "chosen" : "";
    lines = []; loop = null;
    if (!held) title.textContent = state.row === null ? "choose an operation of the last program" : noKernel();
    else if (held[stage] === undefined) title.textContent = `${held.name}: no ${stage}; \`pirkit-opt -t asm\` prints what the page leaves out`;
    else {
      title.textContent = `${held.name}: ${held.about}`;
      lines = held[stage].split("\n");
      if (stage === "asm") loop = hotLoop(lines);
    }
    title.title = title.textContent;
    code.show(lines.length);
    if (loop) code.reveal(loop[0]);
  }
  function noKernel() {
    const item = part.instructionOf(state.row);
    if (item) return `\`${item.what}\` has no native code of its own: a library or a view`;
    if (part.module(part.last).at.has(state.row)) return `\`${part.name(state.row)}\` has no kernel of its own`;
    return "nothing of the last program computes this: it is folded away, or merged with another";
  }

  function chooseLine(line) {
    const at = (row) => part.places(row).some(([f, l]) => f === file && l === line);
    const rows = module.ops.filter(at);
    const cost = (row) => { const item = part.instructionOf(row); return item ? part.cost(item) + (item.kernel >= 0 ? 1e-9 : 0) : -1; };
    const best = rows.reduce((one, row) => one === null || cost(row) > cost(one) ? row : one, null);
    if (best !== null) state.choose(best);
    marked = { lines: new Set([line]), rows: new Set(rows) };
    python.draw(); ir.draw();
  }

  function chosen() {
    const row = state.row;
    if (row === null) return;
    if (!module.at.has(row)) {
      const number = part.modules.findLastIndex((held) => held.some(([, rows]) => rows.includes(row)));
      module = part.module(number);
      modules.value = number;
      filter();
    }
    if (!shown.includes(module.at.get(row))) { box.value = ""; filter(); }
    const places = part.places(row);
    if (places.length && !places.some(([f]) => f === file)) { file = places[0][0]; files.value = file; python.show(part.files[file].lines.length); }
    marked = { lines: new Set(places.filter(([f]) => f === file).map(([, line]) => line)), rows: new Set([row]) };
    const item = part.instructionOf(row);
    kernel = item ? item.kernel : -1;
    draw();
  }
  function draw() {
    python.draw(); ir.draw(); showKernel();
    if (marked.lines.size) python.reveal(Math.min(...marked.lines) - 1);
    if (state.row !== null && module.at.has(state.row)) ir.reveal(shown.indexOf(module.at.get(state.row)));
  }
  files.addEventListener("change", () => { file = +files.value; python.show(part.files[file].lines.length); });
  modules.addEventListener("change", () => { module = part.module(+modules.value); filter(); });
  box.addEventListener("input", filter);
  const pane = (...head) => (list) => make("div", { className: "pane" }, make("div", { className: "bar" }, ...head), list.box);
  const unit = part.profiled ? "measured" : "least possible";
  const view = make("div", { className: "view split" }, make("div", { className: "columns" },
    pane(files, make("span", { className: "note", textContent: `share of the ${unit} time` }))(python),
    pane(modules, box, found)(ir), pane(stages, title)(code)));
  let isNew = true;
  return { view, chosen, chooseLine, shown: () => {
    if (isNew && part.files.length) { python.show(part.files[file].lines.length); filter(); showKernel(); }
    const costly = [...part.lineCost].sort(([, a], [, b]) => b.cost - a.cost)[0];
    if (isNew && state.row === null && costly) { // something to look at: the line that costs most
      const [of, line] = costly[0].split(":").map(Number);
      if (of !== file) { file = of; files.value = of; python.show(part.files[file].lines.length); }
      chooseLine(line);
    } else if (state.row !== null) chosen();
    isNew = false;
  } };
}
