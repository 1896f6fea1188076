// The graph of a program on a canvas: folded groups are one node, and only what is in sight is drawn.
const FOLDS = [["function", "Python function"], ["kernel", "fused kernel"], ["", "nothing"]];

function graphView(part, state) {
  const fused = part.fusion.length ? part.fusion[part.fusion.length - 1].module : part.last;
  let module = part.module(fused), program = "", fold = "function", open = new Set();
  let nodes = [], edges = [], nodeOf = new Map(), fusion = null, hasPorts = false;
  let hulls = new Map(), view = { x: 0, y: 0, zoom: 1 }, second = null, drawn = false;
  const canvas = make("canvas", { id: "graph", tabIndex: 0 }), side = make("div", { className: "side", id: "details" });
  const modules = make("select"), programs = make("select"), folds = make("select", { id: "fold" });
  const box = make("input", { type: "search", placeholder: "find an op, value, type or place", id: "find-node" });
  const ports = make("input", { type: "checkbox", id: "ports" }), total = make("span", { className: "note", id: "nodes" });
  for (const step of part.changed) modules.append(make("option", { value: step.module, textContent: "behind " + part.stepName(step.module) }));
  for (const [value, text] of FOLDS) folds.append(make("option", { value, textContent: "fold by " + text }));

  const isPort = (k) => !part.operands(module.ops[k]).length || part.name(module.ops[k]) === OUTPUT;
  function groupsOf(ops) { // the key of the group of each operation, and the label of each key
    const keys = new Map(), labels = new Map();
    let run = "", runs = 0, parents = [];
    for (const k of ops) {
      const row = module.ops[k], depth = part.rows[row][ROW.depth];
      parents = parents.slice(0, depth);
      const outer = parents.find((parent) => !open.has("region" + module.ops[parent]));
      parents.push(k);
      if (outer !== undefined) {
        const key = "region" + module.ops[outer];
        keys.set(k, key); keys.set(outer, key);
        labels.set(key, `${part.short(module.ops[outer])}: region`);
      } else if (depth || part.rows[module.ops[k + 1]]?.[ROW.depth] > depth) { // of an open region
        const key = "region" + module.ops[parents[0]];
        keys.set(k, key); labels.set(key, part.short(module.ops[parents[0]]));
      } else if (fold === "kernel" && fusion && fusion.kernelOf.has(row)) {
        const kernel = fusion.kernelOf.get(row), key = "kernel" + kernel;
        keys.set(k, key); labels.set(key, fusion.names[kernel]);
      } else if (fold === "function" && !isPort(k)) {
        const name = part.functionOf(row) || run; // what has no place belongs to what is around it
        if (name !== run) { run = name; runs++; }
        if (!name) continue;
        keys.set(k, `run${runs}`); labels.set(`run${runs}`, name);
      }
    }
    return [keys, labels];
  }

  function build() {
    fusion = part.fusionOf(module.number);
    const ops = module.ops.map((_, k) => k).filter((k) => module.program[k] === program && (hasPorts || !isPort(k)));
    const [keys, labels] = groupsOf(ops);
    nodes = []; nodeOf = new Map();
    const folded = new Map();
    for (const k of ops) {
      const key = keys.get(k);
      if (key === undefined || open.has(key)) {
        nodeOf.set(k, nodes.push({ ops: [k], key, label: part.short(module.ops[k]), group: labels.get(key) }) - 1);
        continue;
      }
      if (!folded.has(key)) folded.set(key, nodes.push({ ops: [], key, label: labels.get(key), isFolded: true }) - 1);
      nodes[folded.get(key)].ops.push(k);
      nodeOf.set(k, folded.get(key));
    }
    const pairs = new Set();
    for (const k of ops) {
      for (const maker of part.makersOf(module, k)) {
        const [a, b] = [nodeOf.get(maker), nodeOf.get(k)];
        if (a !== undefined && a !== b) pairs.add(a * 1e6 + b);
      }
    }
    edges = [...pairs].map((pair) => [Math.floor(pair / 1e6), pair % 1e6]);
    layered(nodes, edges);
    hulls = new Map();
    for (const node of nodes) {
      if (!node.key || node.isFolded) continue;
      const box = hulls.get(node.key) || { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity, label: node.group };
      hulls.set(node.key, { ...box, left: Math.min(box.left, node.x - WIDTH / 2), right: Math.max(box.right, node.x + WIDTH / 2), top: Math.min(box.top, node.y - HEIGHT / 2), bottom: Math.max(box.bottom, node.y + HEIGHT / 2) });
    }
    total.textContent = `${plural(nodes.length, "node")} of ${plural(ops.length, "op")}`;
    draw();
  }

  // --- drawing ---
  const css = (name) => getComputedStyle(document.body).getPropertyValue(name);
  let colors = {};
  function draw() {
    const ratio = devicePixelRatio, [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width) return;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d"), { zoom } = view;
    for (const name of ["back", "text", "line", "soft", "note", "chosen", "makes", "uses", "accent", "bar"]) colors[name] = resolved(css("--" + name));
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colors.back;
    pen.fillRect(0, 0, width, height);
    pen.setTransform(zoom * ratio, 0, 0, zoom * ratio, (width / 2 - view.x * zoom) * ratio, (height / 2 - view.y * zoom) * ratio);
    const [left, right] = [view.x - width / 2 / zoom - WIDTH, view.x + width / 2 / zoom + WIDTH];
    const [top, bottom] = [view.y - height / 2 / zoom - HEIGHT, view.y + height / 2 / zoom + HEIGHT];
    const chosen = chosenNode(), makers = new Set(), users = new Set();
    for (const [a, b] of edges) { if (b === chosen) makers.add(a); if (a === chosen) users.add(b); }
    for (const isMarked of [false, true]) {
      pen.beginPath();
      pen.strokeStyle = isMarked ? colors.accent : colors.line;
      pen.lineWidth = (isMarked ? 2.5 : 1.2) / Math.min(1, zoom * 1.5);
      for (const [a, b] of edges) {
        if ((a === chosen || b === chosen) !== isMarked) continue;
        const [from, to] = [nodes[a], nodes[b]];
        const [y1, y2] = [from.y + HEIGHT / 2, to.y - HEIGHT / 2];
        if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom || Math.max(from.x, to.x) < left || Math.min(from.x, to.x) > right) continue;
        pen.moveTo(from.x, y1);
        if (zoom < 0.2) pen.lineTo(to.x, y2);
        else { const bend = Math.min(60, (y2 - y1) / 2 + 8); pen.bezierCurveTo(from.x, y1 + bend, to.x, y2 - bend, to.x, y2); }
      }
      pen.stroke();
    }
    for (const box of hulls.values()) { // around what is unfolded
      if (box.top > bottom + HEIGHT || box.bottom < top - HEIGHT || zoom < 0.2) continue;
      pen.setLineDash([6, 4]);
      pen.strokeStyle = colors.note;
      pen.lineWidth = 1;
      pen.strokeRect(box.left - 8, box.top - 26, box.right - box.left + 16, box.bottom - box.top + 34);
      pen.setLineDash([]);
      pen.fillStyle = colors.note;
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillText(box.label, box.left, box.top - 14);
    }
    let seen = 0;
    pen.textBaseline = "middle";
    nodes.forEach((node, k) => {
      if (node.x < left || node.x > right || node.y < top || node.y > bottom) return;
      seen++;
      const [x, y] = [node.x - WIDTH / 2, node.y - HEIGHT / 2];
      pen.fillStyle = k === chosen ? colors.chosen : k === second ? colors.chosen : makers.has(k) ? colors.makes : users.has(k) ? colors.uses : colors.soft;
      pen.strokeStyle = k === chosen ? colors.accent : colors.line;
      pen.lineWidth = node.isFolded ? 2 : 1;
      pen.beginPath();
      if (zoom < 0.2) pen.rect(x, y, WIDTH, HEIGHT); else pen.roundRect(x, y, WIDTH, HEIGHT, node.isFolded ? 12 : 4);
      pen.fill();
      pen.stroke();
      pen.fillStyle = kindColor(node);
      pen.fillRect(x + 1, y + 6, 5, HEIGHT - 12);
      if (zoom < 0.35) return;
      pen.fillStyle = colors.text;
      pen.font = `${node.isFolded ? 600 : 400} 13px system-ui, sans-serif`;
      pen.fillText(fit(node.label, node.isFolded ? 21 : 27), x + 14, y + 13);
      pen.fillStyle = colors.note;
      pen.font = "11px system-ui, sans-serif";
      pen.fillText(fit(noteOf(node), 32), x + 14, y + 28);
    });
    canvas.dataset.nodes = nodes.length;
    canvas.dataset.drawn = seen;
  }
  const probe = make("span", { hidden: true });
  function resolved(color) { // canvas knows no light-dark()
    document.body.append(probe);
    probe.style.color = color;
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }
  const fit = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
  function noteOf(node) {
    if (node.isFolded) return `${plural(node.ops.length, "op")}`;
    const row = module.ops[node.ops[0]];
    return part.name(row) === OUTPUT ? part.operands(row).map((v) => "%" + v).join(" ") : part.results(row).map((v) => "%" + v).join(" ") + "  " + part.type(row).replace(/^tensor/, "");
  }
  function kindColor(node) {
    const names = node.ops.map((k) => part.name(module.ops[k]));
    if (names.some((name) => /matmul|conv|einsum/.test(name))) return "#d9822b";
    if (names.some((name) => /map_expr/.test(name)) || node.key?.startsWith("kernel")) return "#7a5af5";
    if (node.ops.every(isPort)) return "#8a94a0";
    return names.some((name) => /sum|mean|max|softmax|norm/.test(name)) ? "#2b9c6f" : "#3b82c4";
  }

  // --- choosing ---
  const chosenNode = () => state.row !== null && module.at.has(state.row) ? nodeOf.get(module.at.get(state.row)) : undefined;
  function nodeAt(event) {
    const { x, y } = toGraph(event);
    return nodes.findIndex((node) => Math.abs(node.x - x) <= WIDTH / 2 && Math.abs(node.y - y) <= HEIGHT / 2);
  }
  function toGraph(event) {
    const frame = canvas.getBoundingClientRect();
    return { x: view.x + (event.clientX - frame.left - frame.width / 2) / view.zoom, y: view.y + (event.clientY - frame.top - frame.height / 2) / view.zoom };
  }
  function center(k) { if (nodes[k]) { [view.x, view.y] = [nodes[k].x, nodes[k].y]; view.zoom = Math.max(view.zoom, 0.8); } }
  function showAll() {
    if (!nodes.length) return;
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
    const [low, high] = [Math.min(...ys), Math.max(...ys)], [left, right] = [Math.min(...xs), Math.max(...xs)];
    const fits = Math.min(canvas.clientWidth / (right - left + 2 * WIDTH), canvas.clientHeight / (high - low + 4 * HEIGHT));
    view.zoom = Math.min(1, Math.max(fits, 0.02));
    [view.x, view.y] = [(left + right) / 2, (low + high) / 2];
    if (view.zoom < 0.5) { view.zoom = 0.75; view.y = low + canvas.clientHeight / 2 / view.zoom - 2 * HEIGHT; view.x = nodes.find((node) => node.y === low).x; }
    draw();
  }
  function toggle(node) {
    const kept = node.ops[0];
    if (!node.key) return;
    if (open.has(node.key)) open.delete(node.key); else open.add(node.key);
    build();
    const chosenOp = state.row !== null && node.ops.includes(module.at.get(state.row)) ? module.at.get(state.row) : kept;
    center(nodeOf.get(chosenOp));
    chosen();
  }

  function chosen() {
    if (state.row === null || !module.at.has(state.row)) { side.replaceChildren(help()); draw(); return; }
    const k = module.at.get(state.row);
    if (module.program[k] !== program) { program = module.program[k]; programs.value = program; build(); }
    describe(k);
    draw();
  }
  function help() {
    return make("div", { className: "note" }, make("p", {}, "Click on a node: what makes its operands is blue, what uses its results green."),
      make("p", {}, "Double-click folds a group and unfolds it. Shift-click on a second node says why the two are not one kernel."),
      make("p", {}, "The wheel zooms, dragging moves; / goes to the search."));
  }
  const link = (k) => make("a", { textContent: part.text(module.ops[k]).trim().slice(0, 90), className: "mono", data: { row: module.ops[k] }, on: { click: () => { reveal(k); } } });
  function describe(k) {
    const row = module.ops[k], node = nodes[nodeOf.get(k)];
    const held = [make("h2", {}, part.name(row)), make("div", { className: "mono" }, part.text(row).trim())];
    const item = part.instructionOf(row);
    held.push(make("p", {}, ...part.places(row).flatMap((place) => [make("a", { textContent: part.place(place), on: { click: () => state.open("Code") } }), " "]),
      `${size(part.rows[row][ROW.bytes])} of results`, item ? `, ${micros(part.cost(item))} ${part.profiled ? "measured" : "at least"}` : ""));
    if (fusion) held.push(make("p", {}, fusion.kernelOf.has(row) ? `becomes a part of the kernel ${fusion.names[fusion.kernelOf.get(row)]}` : "becomes no part of a kernel"));
    if (node && node.key) {
      held.push(make("p", {}, make("a", { textContent: node.isFolded ? `unfold ${node.label} (${plural(node.ops.length, "op")})` : `fold ${node.group}`, on: { click: () => toggle(node) } })));
    }
    for (const [title, others, reason] of [["reads", part.makersOf(module, k), (o) => `${module.ops[o]}-${row}`], ["is read by", part.usersOf(module, k), (o) => `${row}-${module.ops[o]}`]]) {
      if (!others.length) continue;
      const rows = others.slice(0, 60).map((o) => {
        const why = fusion && fusion.why.get(reason(o));
        return make("li", {}, link(o), why ? make("div", { className: "why", textContent: "not in one kernel: " + why }) : null);
      });
      held.push(make("h2", {}, title), make("ul", {}, ...rows));
    }
    side.replaceChildren(...held);
  }
  function reveal(k) {
    if (!hasPorts && isPort(k)) { hasPorts = ports.checked = true; build(); }
    if (module.program[k] !== program) { program = module.program[k]; programs.value = program; build(); }
    center(nodeOf.get(k));
    state.choose(module.ops[k]);
  }

  // Why two operations are not in one kernel: the reasons along the shortest way between them.
  function whyNot(one, other) {
    const [a, b] = [Math.min(one, other), Math.max(one, other)], came = new Map([[a, null]]), queue = [a];
    while (queue.length && !came.has(b)) {
      const at = queue.shift();
      for (const next of [...part.usersOf(module, at), ...part.makersOf(module, at)]) if (!came.has(next)) { came.set(next, at); queue.push(next); }
    }
    const held = [make("h2", {}, "Why not one kernel?"), make("p", {}, link(a)), make("p", {}, link(b))];
    if (!fusion) held.push(make("p", {}, "This program was not fused: choose one behind which `fuse` runs."));
    else if (fusion.kernelOf.has(module.ops[a]) && fusion.kernelOf.get(module.ops[a]) === fusion.kernelOf.get(module.ops[b])) held.push(make("p", {}, `They are in one kernel: ${fusion.names[fusion.kernelOf.get(module.ops[a])]}`));
    else if (!came.has(b)) held.push(make("p", {}, "No values lead from one to the other."));
    else {
      const path = [];
      for (let at = b; at !== null; at = came.get(at)) path.unshift(at);
      const blocks = [];
      for (let k = 1; k < path.length; k++) {
        const [p, q] = [module.ops[path[k - 1]], module.ops[path[k]]];
        const why = fusion.why.get(`${p}-${q}`) || fusion.why.get(`${q}-${p}`);
        if (why) blocks.push(make("li", {}, link(path[k - 1]), make("br"), link(path[k]), make("div", { className: "why", textContent: why })));
      }
      held.push(blocks.length ? make("ul", {}, ...blocks) : make("p", {}, "Each pair of neighbours between them fuses; both ends do not."));
    }
    side.replaceChildren(...held);
  }

  function search() {
    const words = box.value.toLowerCase().split(" ").filter((word) => word);
    if (!words.length) { side.replaceChildren(help()); return; }
    const isFound = (row) => {
      const text = (part.text(row) + " " + part.functionOf(row) + " " + part.places(row).map((p) => part.place(p)).join(" ")).toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const hits = module.ops.map((_, k) => k).filter((k) => isFound(module.ops[k]));
    const elsewhere = hits.length ? [] : part.changed.filter((step) => part.module(step.module).ops.some(isFound)).map((step) =>
      make("li", {}, make("a", { textContent: "behind " + part.stepName(step.module), on: { click: () => { use(step.module); search(); } } })));
    side.replaceChildren(make("h2", {}, plural(hits.length, "operation")), make("ul", {}, ...hits.slice(0, 200).map((k) => make("li", {}, link(k))), ...elsewhere));
    box.onkeydown = (event) => { if (event.key === "Enter" && hits.length) reveal(hits[0]); };
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (Math.abs(dx) + Math.abs(dy) < 4 && !drag.moved) return;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    view.x -= dx / view.zoom; view.y -= dy / view.zoom;
    requestAnimationFrame(draw);
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = drag && drag.moved;
    drag = null;
    if (moved) return;
    const k = nodeAt(event);
    if (k < 0) return;
    const first = nodes[k].ops[0];
    if (event.shiftKey && state.row !== null && module.at.has(state.row)) { second = k; whyNot(module.at.get(state.row), first); draw(); return; }
    second = null;
    state.choose(module.ops[first]);
  });
  canvas.addEventListener("dblclick", (event) => { const k = nodeAt(event); if (k >= 0) toggle(nodes[k]); });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = toGraph(event), zoom = Math.min(3, Math.max(0.02, view.zoom * Math.exp(-event.deltaY / 500)));
    view.x = at.x - (at.x - view.x) * view.zoom / zoom; view.y = at.y - (at.y - view.y) * view.zoom / zoom; view.zoom = zoom;
    requestAnimationFrame(draw);
  }, { passive: false });
  new ResizeObserver(() => draw()).observe(canvas);
  box.addEventListener("input", search);
  ports.addEventListener("change", () => { hasPorts = ports.checked; build(); });
  folds.addEventListener("change", () => { fold = folds.value; open = new Set(); build(); showAll(); });
  programs.addEventListener("change", () => { program = programs.value; open = new Set(); build(); showAll(); });
  modules.addEventListener("change", () => use(+modules.value));

  function use(number) {
    module = part.module(number);
    modules.value = number;
    programs.replaceChildren(...module.names.map((name) => make("option", { value: name, textContent: "@" + name })));
    program = module.names.includes(program) ? program : module.names[0];
    programs.value = program; open = new Set();
    build(); showAll(); chosen();
  }
  const root = make("div", { className: "view split" },
    make("div", { className: "bar" }, modules, programs, folds, make("label", {}, ports, " inputs, constants, outputs"), box, total,
      make("button", { textContent: "show all", on: { click: () => { view.zoom = 1; showAll(); } } }),
      make("button", { textContent: "unfold all", on: { click: () => { for (const node of nodes) if (node.key) open.add(node.key); build(); showAll(); } } })),
    make("div", { className: "columns" }, make("div", { style: "flex:1;min-width:0;position:relative" }, canvas), side));
  canvas.style.position = "absolute";
  return { view: root, chosen, reveal, use, find: () => box.focus(),
    where: (row) => { // the place of an operation on the screen
      const node = nodes[nodeOf.get(module.at.get(row))], frame = canvas.getBoundingClientRect();
      return node && [frame.left + frame.width / 2 + (node.x - view.x) * view.zoom, frame.top + frame.height / 2 + (node.y - view.y) * view.zoom];
    },
    shown: () => { if (!drawn) { drawn = true; use(module.number); if (state.row !== null && module.at.has(state.row)) reveal(module.at.get(state.row)); } else chosen(); } };
}
