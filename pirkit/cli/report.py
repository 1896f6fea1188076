"""``pirkit-opt --report``: what a pipeline did, as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from string import Template
from typing import TYPE_CHECKING, Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.dialect.operation import ProgramOp
from pirkit.frontend.program_diff import diff_programs

if TYPE_CHECKING:
    from pirkit.passes import Pass, PipelineResult

_PAGE: Final = Template("""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>$title</title>
<style>
body { font: 15px/1.4 sans-serif; margin: 2em; max-width: 80em }
table { border-collapse: collapse } th, td { padding: .2em .8em; text-align: right }
th:first-child, td:first-child { text-align: left } tr:nth-child(even) { background: #8881 }
pre { overflow: auto; border-left: 3px solid #8888; padding-left: 1em }
.add { color: #080 } .del { color: #b00 } .changed { font-weight: bold }
</style>
<h1>$title</h1>
$parts
</html>
""")


@dataclass(frozen=True)
class _Step:
    """The module after a pass: operations of each program, and how the text changed."""

    name: str
    counts: dict[str, int]
    diff: tuple[str, ...] = ()


@dataclass
class PartReport:
    """A watcher of the pipeline of one part of the input."""

    steps: list[_Step] = field(default_factory=list[_Step])
    module: ModuleOp | None = None

    def begin(self, module: ModuleOp) -> None:
        """Note the module before the first pass."""
        self.module = module.clone()
        self.steps = [_Step("(input)", _counts(module))]

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when != "after" or self.module is None:
            return
        diff = diff_programs(self.module, module, ("before", "after")).text
        self.module = module.clone()
        self.steps.append(_Step(str(pass_), _counts(module), tuple(diff.splitlines())))


def page(title: str, parts: Sequence[tuple[PartReport, PipelineResult]]) -> str:
    """The page: passes by programs, then for each pass its time, rewrites and diff."""
    shown = "".join(line for report, result in parts for line in _part(report, result))
    return _PAGE.substitute(title=escape(title), parts=shown)


def _counts(module: ModuleOp) -> dict[str, int]:
    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return {op.symbol: sum(1 for _ in operations(op.block)) for op in programs}


def _part(report: PartReport, result: PipelineResult) -> Iterator[str]:
    programs = list(dict.fromkeys(name for step in report.steps for name in step.counts))
    heads = "".join(f"<th>@{escape(name)}</th>" for name in programs)
    yield f"<table><tr><th>operations behind</th>{heads}<th>ms</th><th>rewrites</th></tr>"
    before: dict[str, int] = {}
    for index, step in enumerate(report.steps):
        cells = "".join(_cell(step.counts.get(p), before.get(p)) for p in programs)
        timing = result.timings[index - 1] if index else None
        cost = f"{timing.seconds * 1e3:.2f}</td><td>{timing.rewrites}" if timing else "</td><td>"
        yield f"<tr><td>{escape(step.name)}</td>{cells}<td>{cost}</td></tr>"
        before = step.counts
    yield "</table>\n"
    if result.remarks:
        yield "<h2>Remarks</h2><ul>"
        yield from (f"<li>{escape(str(remark))}</li>" for remark in result.remarks)
        yield "</ul>\n"
    yield "<h2>Changes</h2>\n"
    for step in report.steps[1:]:
        if step.diff:
            lines = "\n".join(map(_line, step.diff))
            yield f"<details><summary>{escape(step.name)}</summary><pre>{lines}</pre></details>\n"


def _cell(count: int | None, before: int | None) -> str:
    kind = ' class="changed"' if before is not None and count != before else ""
    return f"<td{kind}>{'' if count is None else count}</td>"


def _line(line: str) -> str:
    kind = {"+": "add", "-": "del"}.get(line[:1])
    text = escape(line)
    return f'<span class="{kind}">{text}</span>' if kind else text
