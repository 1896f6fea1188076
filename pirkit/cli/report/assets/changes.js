// Side by side: two modules of the pipeline, row by row.
let paired = () => []; // set by the view: which removed and added rows stand side by side

function changesView(part, state) {
  const list = new RowList((at) => drawRow(at));
  const from = make("select"), to = make("select"), summary = make("span", { className: "note", id: "summary" });
  part.steps.forEach((step, k) => {
    for (const select of [from, to]) select.append(make("option", { value: k, textContent: `${k}: ${step.name}` }));
  });
  let rows = [], open = new Set();

  paired = (removed, added) => { // rows with the same results are one row that changed
    const result = (row) => typeof row === "string" ? row : part.results(row).join(); // a string is the name of a program
    const byResult = new Map(added.map((row) => [result(row), row]));
    const partner = new Map(), taken = new Set();
    for (const row of removed) {
      const other = byResult.get(result(row));
      if (other !== undefined && result(row)) { partner.set(row, other); taken.add(other); }
    }
    const found = [], rest = added.filter((row) => !taken.has(row));
    for (const row of removed) found.push([row, partner.has(row) ? partner.get(row) : null]);
    return [...found, ...rest.map((row) => [null, row])];
  };

  function compare() {
    const [a, b] = [part.steps[+from.value].module, part.steps[+to.value].module];
    const flat = (number) => part.modules[number].flatMap(([name, held]) => ["@" + name, ...held]);
    const [left, right] = [flat(a), flat(b)];
    const all = aligned(left, right), counts = { removed: 0, added: 0, changed: 0 };
    rows = [];
    let equal = [];
    const flush = (isLast) => {
      const first = rows.length ? 2 : 0, tail = isLast ? 0 : 2;
      if (equal.length <= first + tail + 1 || open.has(rows.length)) rows.push(...equal);
      else {
        const hidden = equal.slice(first, equal.length - tail);
        rows.push(...equal.slice(0, first), { gap: hidden.length, at: rows.length, hidden }, ...equal.slice(equal.length - tail));
      }
      equal = [];
    };
    for (const row of all) {
      if (row[0] === row[1]) { equal.push(row); continue; }
      flush(false);
      counts[row[0] === null ? "added" : row[1] === null ? "removed" : "changed"]++;
      rows.push(row);
    }
    flush(true);
    summary.textContent = `${plural(counts.removed, "row")} removed, ${count(counts.added)} added, ${count(counts.changed)} changed`;
    list.show(rows.length);
  }

  const line = (item) => item === null ? "" : typeof item === "string" ? item : part.text(item);
  function drawRow(k) {
    const row = rows[k];
    if (row.gap) {
      return make("div", { className: "row gap", textContent: `    … ${plural(row.gap, "row")} are equal: click to show them`,
        on: { click: () => { rows.splice(k, 1, ...row.hidden); list.show(rows.length, true); } } });
    }
    const isEqual = row[0] === row[1];
    const half = (item, other, kind) => {
      const cell = make("span", { className: "half " + (isEqual ? "" : item === null ? "none" : kind),
        style: "display:inline-block;width:50%;overflow:hidden;text-overflow:ellipsis;height:18px;padding-right:1em;vertical-align:top", title: line(item) });
      const text = line(item);
      if (isEqual || item === null || other === null) cell.textContent = text;
      else markWords(cell, text, line(other));
      return cell;
    };
    const made = make("div", { className: "row", style: "width:100%;min-width:0", data: { kind: isEqual ? "equal" : row[0] === null ? "added" : row[1] === null ? "removed" : "changed" },
      on: { click: () => { const item = row[1] ?? row[0]; if (typeof item === "number") state.choose(item); } } });
    made.append(half(row[0], row[1], "del"), half(row[1], row[0], "add"));
    return made;
  }

  function markWords(cell, text, other) {
    const words = (line) => line.split(/([^\w%.<>]+)/), known = new Set(words(other));
    for (const word of words(text)) cell.append(known.has(word) ? word : make("mark", { textContent: word }));
  }

  const jumps = make("span", { className: "note" }, "changed by: ");
  part.steps.forEach((step, k) => {
    if (k && step.module !== part.steps[k - 1].module) {
      jumps.append(make("a", { textContent: step.name.replace(/\{.*/, ""), title: step.name, data: { step: k }, on: { click: () => show(k) } }), " ");
    }
  });
  function show(k, before = k - 1) { [from.value, to.value] = [before, k]; open = new Set(); compare(); }
  for (const select of [from, to]) select.addEventListener("change", () => { open = new Set(); compare(); });
  [from.id, to.id] = ["from", "to"];
  const first = part.steps.findIndex((step, k) => k && step.module !== part.steps[k - 1].module);
  const view = make("div", { className: "view split" },
    make("div", { className: "bar" }, "behind", from, "and behind", to, summary), make("div", { className: "bar" }, jumps), list.box);
  return { view, shown: () => { if (!rows.length) show(Math.max(first, 0), Math.max(first - 1, 0)); else list.draw(); }, showStep: show };
}
