// Passes, saved values and remarks.
function table(heads, body, text) { // heads from `text` on are of columns of text
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head, k) => make("th", { textContent: head, className: k >= text ? "text" : "" })))), body);
}

function overviewView(part, state) {
  const names = [...new Set(part.steps.flatMap((step) => Object.keys(step.sizes)))];
  const body = make("tbody"), slowest = Math.max(1e-9, ...part.steps.map((step) => step.ms || 0));
  part.steps.forEach((step, k) => {
    const old = k ? part.steps[k - 1] : null, isChanged = old && old.module !== step.module;
    const row = make("tr", { className: isChanged ? "link" : "same", data: { step: k }, on: isChanged ? { click: () => { state.open("Changes"); state.views.Changes.showStep(k); } } : {} },
      make("td", {}, k), make("td", { className: "text" }, step.name));
    for (const name of names) {
      for (const i of [0, 1]) {
        const now = step.sizes[name], before = old && old.sizes[name];
        row.append(make("td", { className: now && before && now[i] !== before[i] ? "changed" : "", textContent: now ? (i ? size(now[i]) : count(now[i])) : "" }));
      }
    }
    row.append(make("td", { textContent: step.ms === undefined ? "" : step.ms.toFixed(2) }),
      make("td", { className: "text" }, make("span", { className: "fill", style: `width:${Math.round(90 * (step.ms || 0) / slowest)}px` })),
      make("td", { textContent: step.rewrites || "" }), make("td", { className: "text", textContent: isChanged ? "what changed" : "" }));
    row.lastChild.className = "text op";
    body.append(row);
  });
  const made = table(["", "pass", ...names.flatMap((name) => [`ops of @${name}`, "bytes"]), "ms", "", "rewrites", ""], body, 99);
  made.querySelector("th:nth-child(2)").className = "text";
  const last = part.steps[part.steps.length - 1], ops = Object.values(last.sizes).reduce((sum, [n]) => sum + n, 0);
  const kernels = part.fusion.reduce((sum, fusion) => sum + fusion.kernels.length, 0), fusedOps = part.fusion.reduce((sum, fusion) => sum + fusion.kernelOf.length, 0);
  const facts = [`${plural(part.steps.length - 1, "pass").replace("passs", "passes")}, ${part.changed.length - 1} of which changed something`, `${plural(ops, "op")} at the end`];
  if (kernels) facts.push(`${plural(fusedOps, "op")} are fused to ${plural(kernels, "kernel")}`);
  if (part.saved.length) facts.push(`${size(part.saved.filter((s) => s.how === "middle").reduce((sum, s) => sum + s.bytes, 0))} are kept for the backward alone`);
  return { view: make("div", { className: "view" }, make("p", {}, facts.join("; ") + "."), made) };
}

const HOWS = {
  middle: "made by the forward, and kept for the backward alone", output: "an output of the forward, which the caller holds anyway",
  input: "an input of the forward, which the caller holds anyway", parameter: "a parameter, which is in memory anyway", shape: "only its shape is read: nothing is kept",
};

function savedView(part, state) {
  const view = make("div", { className: "view", id: "saved" });
  if (!part.saved.length) { view.append(make("p", {}, "No pass split a program into a forward and a backward: `-p split` does.")); return { view }; }
  const split = part.modules.findIndex((held) => held.some(([name]) => /backward$/.test(name)));
  const totals = {};
  for (const saved of part.saved) { const held = totals[saved.how] ||= [0, 0]; held[0]++; held[1] += saved.bytes; }
  view.append(make("ul", {}, ...Object.entries(totals).map(([how, [number, bytes]]) => make("li", {}, `${number} × ${HOWS[how]}: ${size(bytes)}`))));
  const box = make("input", { type: "search", placeholder: "value, line or op" }), body = make("tbody");
  const where = (row) => part.places(row).slice(0, 1).map((place) => part.place(place)).join("");
  const groups = new Map(); // the same value of equal layers is one row
  for (const saved of part.saved) {
    const maker = saved.maker >= 0 ? `${part.short(saved.maker)} ${where(saved.maker)}` : "the caller";
    const [lines, ops] = [where, (row) => part.short(row)].map((of) => [...new Set(saved.readers.map(of))].filter((text) => text).sort().join(", "));
    const why = saved.readers.length ? `the derivative of ${lines || "an op"} reads it: ${ops}` : "the backward returns it";
    const key = [saved.how, saved.type, saved.how === "middle" ? maker : "", why].join("|");
    if (!groups.has(key)) groups.set(key, { ...saved, maker, why, row: saved.maker, names: [], bytes: 0 });
    const group = groups.get(key);
    group.names.push(saved.name);
    group.bytes += saved.bytes;
  }
  function draw() {
    const words = box.value.toLowerCase().split(" ").filter((word) => word);
    const isFound = (group) => { const text = [...group.names, group.how, group.maker, group.why].join(" ").toLowerCase(); return words.every((word) => text.includes(word)); };
    const open = (group) => { state.open("Graph"); state.views.Graph.use(split); state.views.Graph.reveal(part.module(split).at.get(group.row)); };
    body.replaceChildren(...[...groups.values()].filter(isFound).sort((a, b) => b.bytes - a.bytes).map((group) =>
      make("tr", { className: "link", title: HOWS[group.how], data: { how: group.how }, on: { click: () => group.row >= 0 && open(group) } },
        make("td", {}, size(group.bytes)), make("td", {}, group.names.length), make("td", { className: "text mono", title: group.names.join(", ") }, group.names[0] + (group.names.length > 1 ? ", …" : "")),
        make("td", { className: "text" }, group.how), make("td", { className: "text mono" }, group.type), make("td", { className: "text" }, group.maker), make("td", { className: "text wide" }, group.why))));
  }
  box.addEventListener("input", draw);
  draw();
  view.append(make("p", {}, box), table(["bytes", "values", "value", "how", "type", "made by", "why"], body, 2));
  return { view };
}

function remarksView(part) {
  const view = make("div", { className: "view", id: "remarks" });
  const box = make("input", { type: "search", placeholder: "pass, op, value or text" }), held = make("div");
  function draw() {
    const words = box.value.toLowerCase().split(" ").filter((word) => word);
    held.replaceChildren();
    for (const group of part.remarks) {
      const texts = group.texts.filter((text) => words.every((word) => (group.head + " " + text).toLowerCase().includes(word)));
      if (!texts.length) continue;
      if (texts.length === 1) { held.append(make("div", {}, make("b", {}, group.head), ": ", texts[0])); continue; }
      const details = make("details", {}, make("summary", {}, `${texts.length} × `, make("b", {}, group.head), `: ${group.pattern}`));
      details.addEventListener("toggle", () => details.append(...texts.map((text) => make("div", { className: "why", textContent: text }))), { once: true });
      held.append(details);
    }
    if (!held.children.length) held.append(make("p", { className: "note" }, "no remarks"));
  }
  box.addEventListener("input", draw);
  draw();
  view.append(make("p", {}, box), held);
  return { view };
}
