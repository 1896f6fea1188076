"""The report in a browser: what users want to know, found by clicks and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import pirkit
from pirkit.cli.report.command import PartReport, page
from pirkit.passes import PipelineResult, run_pipeline
from tests.report import encoder
from tests.report.browser import CHROMIUM, DRIVER, Browser

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is missing"
)
PIPELINE = "@simplify,split,@default"
SHIFT = "\ue008"


class Shown(NamedTuple):
    browser: Browser
    path: Path
    result: PipelineResult
    report: PartReport

    def row(self, text: str) -> int:
        """The row of the first operation with this text, in the program that is fused."""
        return self.browser.run(
            "const p = report.part, k = p.fusion[p.fusion.length - 1].module;"
            "return p.module(k).ops.find((row) => p.text(row).includes(arguments[0]))",
            text,
        )

    def open(self, tab: str) -> None:
        self.browser.click(f"button[data-tab={tab}]")
        self.browser.wait("document.body.dataset.tab === arguments[0]", tab)


def line_of(text: str) -> int:
    lines = Path(encoder.__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    program = pirkit.trace(encoder.loss, *encoder.arguments(2))
    report = PartReport()
    report.begin(program.module)
    result = run_pipeline(program.module, PIPELINE, watchers=[report], observers=[report.observe])
    report.end(program.module)
    path = tmp_path_factory.mktemp("report") / "encoder.html"
    path.write_text(page("a </script> title", [(report, result)]), encoding="utf-8")
    with Browser() as browser:
        yield Shown(browser, path, result, report)


@pytest.fixture
def shown(made: Shown) -> Iterator[Shown]:
    made.browser.go(made.path)
    yield made
    assert made.browser.errors() == []


def test_why_two_ops_are_not_fused(shown: Shown) -> None:
    browser = shown.browser
    shown.open("Graph")
    browser.choose("#fold", "")
    browser.type("#find-node", "rsqrt")
    first = shown.row("rsqrt")
    browser.click(f"#details a[data-row='{first}']")
    browser.wait("document.body.dataset.row === arguments[0]", str(first))
    assert "becomes a part of the kernel fn_" in browser.text("#details")
    made_of = browser.run(
        "const p = report.part, m = p.module(p.fusion[0].module);"
        "let k = m.at.get(arguments[0]); while (!p.name(m.ops[k]).includes('matmul'))"
        "  k = p.usersOf(m, k)[0]; return m.ops[k]",
        first,
    )
    x, y = browser.run("return report.views.Graph.where(arguments[0])", made_of)
    browser.pointer(x, y, key=SHIFT)
    browser.wait("document.querySelector('#details').innerText.includes('Why not one kernel?')")
    assert "a library computes it faster than loops" in browser.text("#details .why")


def test_which_line_costs_most(shown: Shown) -> None:
    browser = shown.browser
    shown.open("Cost")
    top = browser.text("#cost tbody tr:first-child")
    costly = {line_of("ops.gelu(x @"), line_of("hidden @ p["), line_of("ops.transpose(ops.reshape")}
    line = int(re.search(r"encoder\.py:(\d+)", top).group(1))  # pyright: ignore
    assert line in costly
    browser.click("#cost tbody tr:first-child")
    browser.wait("document.body.dataset.tab === 'Code'")
    browser.wait(
        "document.querySelector('.pane .row.chosen')?.dataset.line === arguments[0]", f"{line}"
    )
    assert "%" in browser.text(".pane .row.chosen .cost")


def test_what_is_kept_for_the_backward_and_why(shown: Shown) -> None:
    browser = shown.browser
    shown.open("Saved")
    kept = sum(s["bytes"] for s in shown.report.saved if s["how"] == "middle")
    assert kept > 2**20
    assert f"{kept / 2**20:.1f} MiB" in browser.text("#saved li:first-child")
    browser.type("#saved input", "gelu")
    browser.wait("document.querySelectorAll('#saved tbody tr').length === 1")
    row = browser.text("#saved tbody tr")
    assert f"the derivative of encoder.py:{line_of('hidden @ p[')} reads it" in row
    assert f"gelu encoder.py:{line_of('ops.gelu(x @')}" in row
    browser.click("#saved tbody tr")
    browser.wait("document.body.dataset.tab === 'Graph'")
    browser.wait("document.querySelector('#details h2')?.innerText === 'pd_op.gelu'")


def test_what_a_pass_changed(shown: Shown) -> None:
    browser, steps = shown.browser, shown.report.steps
    number = next(k for k, s in enumerate(steps) if s["name"] == "cse" and s["rewrites"] > 0)
    browser.click(f"tr[data-step='{number}']")
    browser.wait("document.body.dataset.tab === 'Changes'")
    before, after = (
        sum(ops for ops, _ in steps[k]["sizes"].values()) for k in (number - 1, number)
    )
    assert browser.text("#summary").startswith(f"{before - after} rows removed, 0 added")
    assert browser.all(".row[data-kind=removed]")
    assert browser.all(".row[data-kind=changed] mark")
    hidden = browser.run("return document.querySelector('.gap').innerText")
    browser.click(".gap")
    browser.wait("document.querySelector('.row:first-child').dataset.kind === 'equal'")
    assert re.search(r"\d+ rows are equal", hidden)
    browser.choose("#from", number)  # nothing changes between a pass and itself
    browser.wait("document.querySelector('#summary').innerText.startsWith('0 rows removed')")


def test_the_machine_code_of_the_hot_loop(shown: Shown) -> None:
    browser = shown.browser
    shown.open("Code")
    line = line_of("ops.rsqrt(variance")
    browser.run("report.views.Code.chooseLine(arguments[0])", line_of("def attention"))
    browser.click(f".row[data-line='{line}']")
    browser.wait("document.querySelectorAll('.hot').length > 2")
    hot = browser.run("return [...document.querySelectorAll('.hot')].map((r) => r.textContent)")
    assert hot[0].endswith(":")
    assert re.match(r"\s+j\w+\s+" + re.escape(hot[0][:-1]), hot[-1])
    assert "emitted by" in browser.text("#kernel")
    chosen = browser.text(".row.chosen[data-row]")
    assert "pir.map_expr" in chosen
    for stage, text in (("loop IR", "for"), ("LLVM IR", "define"), ("MapExpr", "fn_")):
        browser.click(f"button[data-stage='{stage}']")
        shown_text = browser.run(
            "return [...document.querySelectorAll('.pane:last-child .row')]"
            ".map((r) => r.textContent).join('\\n')"
        )
        assert text in shown_text, stage


def test_the_graph_folds_and_highlights(shown: Shown) -> None:
    browser = shown.browser
    shown.open("Graph")
    nodes = "Number(document.querySelector('#graph').dataset.nodes)"
    folded = browser.run(f"return {nodes}")
    first = shown.row("rsqrt")
    browser.type("#find-node", "rsqrt")
    browser.click(f"#details a[data-row='{first}']")
    x, y = browser.run("return report.views.Graph.where(arguments[0])", first)
    browser.pointer(x, y, clicks=2)
    browser.wait(f"{nodes} > arguments[0]", folded)
    unfolded = browser.run(f"return {nodes}")
    browser.click("#details p:last-of-type a")  # folds it again
    browser.wait(f"{nodes} === arguments[0]", folded)
    browser.choose("#fold", "")
    browser.wait(f"{nodes} > arguments[0]", unfolded)
    assert int(browser.run("return document.querySelector('#graph').dataset.drawn")) < 60


@pytest.mark.parametrize("tab", ["Overview", "Memory", "Remarks"])
def test_the_other_views_draw(shown: Shown, tab: str) -> None:
    shown.open(tab)
    assert shown.browser.text("h1") == "a </script> title"
    drawn: dict[str, Any] = {
        "Overview": "tr[data-step]",
        "Memory": "#memory rect.range",
        "Remarks": "#remarks details",
    }
    assert shown.browser.all(drawn[tab])


def test_5000_operations_stay_fluid(made: Shown, tmp_path: Path) -> None:
    kinds = ("exp", "tanh", "sigmoid", "relu")
    lines = [
        f"  %v{k + 1} = pd_op.{kinds[k % 4]}(%v{k}) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
        for k in range(5000)
    ]
    text = 'pir.program @main(%v0 "x" : tensor<8x8xf32>) {\n' + "\n".join(lines)
    text += '\n  pir.shadow_output(%v5000) {output_name = "y"} : (tensor<8x8xf32>) -> ()\n}\n'
    path = tmp_path / "long.html"
    pirkit.loads(text).show(str(path), pipeline="dce")
    assert path.stat().st_size < 5e6
    browser = made.browser
    browser.go(path)
    browser.click("button[data-tab=Graph]")
    browser.choose("#fold", "")
    data = "document.querySelector('#graph').dataset"
    browser.wait(f"{data}.nodes === '5000'")
    assert int(browser.run(f"return {data}.drawn")) < 60
    browser.type("#find-node", "%v4321 =")
    browser.click("#details a")
    browser.wait("document.querySelector('#details h2').innerText === 'pd_op.exp'")
    assert len(browser.all(".row")) == 0
    browser.click("button[data-tab=Code]")
    browser.wait("document.querySelector('.row.chosen[data-row]')?.innerText.includes('%v4321 =')")
    assert len(browser.all(".row")) < 400
    assert browser.errors() == []


def test_a_region_folds(made: Shown, tmp_path: Path) -> None:
    loop = Path(__file__).parents[1] / "corpus" / "paddle" / "while_tanh" / "program.txt"
    path = tmp_path / "loop.html"
    pirkit.load(str(loop)).show(str(path), pipeline="@default")
    browser = made.browser
    browser.go(path)
    browser.click("button[data-tab=Graph]")
    nodes = "Number(document.querySelector('#graph').dataset.nodes)"
    browser.wait(f"{nodes} === 2")
    browser.type("#find-node", "pd_op.while")
    browser.click("#details a")
    browser.click("#details p:last-of-type a")
    browser.wait(f"{nodes} > 4")
    assert browser.text("#details p:last-of-type") == "fold while"
    assert browser.errors() == []
