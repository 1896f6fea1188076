"""``pirkit-opt --report``: what a pipeline did, as one self-contained page.

The page is ``report_page.html`` with the facts as JSON in it; its script draws them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.dialect.op_form import ARG_ATTRS, OPERAND_SEGMENTS, RESULT_SEGMENTS
from pirkit.dialect.operation import ProgramOp, spans_of
from pirkit.dialect.type_sizes import bytes_of
from pirkit.frontend.program_diff import diff_programs

if TYPE_CHECKING:
    from pirkit.passes import Pass, PipelineResult

MAX_LINES: Final = 2000
"""Lines of the diff of one pass that the page holds."""
_MAX_ATTRIBUTES: Final = 120
_FORM: Final = frozenset({ARG_ATTRS, OPERAND_SEGMENTS, RESULT_SEGMENTS})
_NUMBERS: Final = re.compile(r"%\w+|\d[\d,.]*(?:-\d+)?(?:, \d[\d,.]*(?:-\d+)?)*")


@dataclass(frozen=True)
class _Step:
    """The module after a pass: operations and bytes of each program, and how the text changed."""

    name: str
    sizes: dict[str, tuple[int, int]]
    diff: tuple[str, ...] = ()


@dataclass
class PartReport:
    """A watcher of the pipeline of one part of the input."""

    steps: list[_Step] = field(default_factory=list[_Step])
    module: ModuleOp | None = None
    content: list[Hashable] = field(default_factory=list[Hashable])
    listings: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def begin(self, module: ModuleOp) -> None:
        """Note the module before the first pass."""
        self.module, self.content = module.clone(), list(_content(module))
        self.steps = [_Step("(input)", _sizes(module))]
        self.listings = {f"before, @{p.symbol}": _listing(p) for p in _programs(module)}

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when != "after" or self.module is None:
            return
        content = list(_content(module))
        if content == self.content:  # most passes change nothing, and comparing takes long
            self.steps.append(_Step(str(pass_), self.steps[-1].sizes))
            return
        diff = diff_programs(self.module, module, ("before", "after")).text
        self.module, self.content = module.clone(), content
        self.steps.append(_Step(str(pass_), _sizes(module), tuple(diff.splitlines())))

    def end(self, module: ModuleOp) -> None:
        """Note the module after the last pass."""
        self.listings |= {f"after, @{p.symbol}": _listing(p) for p in _programs(module)}


def page(title: str, parts: Sequence[tuple[PartReport, PipelineResult]]) -> str:
    """The page: passes by programs, remarks, the diff of each pass, and all operations."""
    template = Template(files("pirkit.cli").joinpath("report_page.html").read_text("utf-8"))
    facts = json.dumps([_facts(report, result) for report, result in parts], ensure_ascii=True)
    # `</script>` in a string of the program must not end the script
    return template.substitute(title=escape(title), data=facts.replace("<", "\\u003c"))


def _facts(report: PartReport, result: PipelineResult) -> dict[str, Any]:
    timings = (None, *result.timings)
    return {
        "programs": list(dict.fromkeys(name for step in report.steps for name in step.sizes)),
        "steps": [
            {
                "name": step.name,
                "sizes": step.sizes,
                "ms": t and round(t.seconds * 1e3, 3),
                "rewrites": t and t.rewrites,
                "lines": len(step.diff),
                "diff": step.diff[:MAX_LINES],
            }
            for step, t in zip(report.steps, timings, strict=False)
        ],
        "remarks": list(_grouped(result)),
        "listings": report.listings,
    }


def _grouped(result: PipelineResult) -> Iterator[dict[str, Any]]:
    """Remarks that differ in numbers and values alone are one group; the largest come first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for remark in result.remarks:
        head = f"{remark.kind}: {remark.pass_name}"
        where = f" ({remark.span})" if remark.span else ""
        key = (head, _NUMBERS.sub("…", remark.message))
        groups.setdefault(key, []).append(remark.message + where)
    for (head, pattern), texts in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield {"head": head, "pattern": pattern, "texts": texts}


def _programs(module: ModuleOp) -> Iterator[ProgramOp]:
    return (op for op in module.ops if isinstance(op, ProgramOp))


def _sizes(module: ModuleOp) -> dict[str, tuple[int, int]]:
    """The operations of each program, and the bytes of their results."""
    found: dict[str, tuple[int, int]] = {}
    for program in _programs(module):
        ops = list(operations(program.block))
        found[program.symbol] = len(ops), sum(bytes_of(r.type) for op in ops for r in op.results)
    return found


def _content(module: ModuleOp) -> Iterator[Hashable]:
    """What a pass may change of each operation; it holds the operation, whose id stays its own."""
    for op in module.walk():
        yield op, tuple(op.operands), tuple(op.properties.items()), tuple(op.attributes.items())
        yield tuple(r.type for r in op.results)


def _listing(program: ProgramOp) -> list[tuple[Any, ...]]:
    """Results, name, operands, attributes with types, and place of each operation."""
    names: dict[SSAValue, str] = {}
    taken: set[str] = set()

    def name_of(value: SSAValue) -> str:
        if value not in names:
            hint = value.name_hint or str(len(names))
            names[value] = f"%{hint}" if hint not in taken else f"%{hint}_{len(names)}"
            taken.add(hint)
        return names[value]

    for argument in program.block.args:
        name_of(argument)
    return [
        (
            [name_of(r) for r in op.results],
            op.name,
            [name_of(v) for v in op.operands],
            _described(op),
            ", ".join(f"{s.file.rpartition('/')[2]}:{s.line}" for s in spans_of(op)[:3]),
        )
        for op in operations(program.block)
    ]


def _described(op: Operation) -> str:
    attributes = ", ".join(f"{k} = {v}" for k, v in op.properties.items() if k not in _FORM)
    types = ", ".join(str(r.type) for r in op.results)
    if len(attributes) > _MAX_ATTRIBUTES:
        attributes = attributes[:_MAX_ATTRIBUTES] + "..."
    return f"{{{attributes}}} {types}" if attributes else types
