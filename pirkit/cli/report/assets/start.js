// Tabs; a view is made when it is opened first.
const VIEWS = { Overview: overviewView, Graph: graphView, Code: codeView, Changes: changesView, Memory: memoryView, Saved: savedView, Cost: costView, Remarks: remarksView };

class Report {
  constructor(part) {
    this.part = part;
    this.views = {};
    this.row = null;
    this.tab = "";
  }
  open(tab) {
    this.tab = tab;
    this.views[tab] ||= VIEWS[tab](this.part, this);
    document.getElementById("main").replaceChildren(this.views[tab].view);
    for (const button of document.getElementById("tabs").children) button.className = button.textContent === tab ? "on" : "";
    document.body.dataset.tab = tab;
    history.replaceState(null, "", "#" + tab);
    this.views[tab].shown?.();
  }
  choose(row) { // a row of the table of operations: all views show it
    this.row = row;
    document.body.dataset.row = row;
    this.views[this.tab].chosen?.();
  }
}

const reports = JSON.parse(document.getElementById("data").textContent).map((facts) => new Report(new Part(facts)));
let report = reports[0];
for (const tab of Object.keys(VIEWS)) {
  document.getElementById("tabs").append(make("button", { textContent: tab, data: { tab }, on: { click: () => report.open(tab) } }));
}
const parts = document.getElementById("part");
parts.hidden = reports.length < 2;
reports.forEach((_, k) => parts.append(make("option", { value: k, textContent: `part ${k + 1}` })));
parts.addEventListener("change", () => { report = reports[+parts.value]; report.open(document.body.dataset.tab); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|SELECT/.test(event.target.tagName)) return;
  const box = document.querySelector("main input[type=search]");
  if (box) { event.preventDefault(); box.focus(); }
});
const asked = location.hash.slice(1);
report.open(VIEWS[asked] ? asked : "Overview");
