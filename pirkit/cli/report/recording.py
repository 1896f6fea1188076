"""A watcher of a pipeline that records what the report shows."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.cli.report.fusion_groups import fusion_facts
from pirkit.cli.report.lowered import Measured, lowered_facts
from pirkit.cli.report.saved_values import saved_facts
from pirkit.cli.report.snapshots import Snapshots, programs
from pirkit.cli.report.source_lines import source_facts
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.type_sizes import bytes_of
from pirkit.lowering.fusion.fuse_pass import Decision

if TYPE_CHECKING:
    from pirkit.passes import Pass, PipelineResult

_NUMBERS: Final = re.compile(r"%\w+|\d[\d,.]*(?:-\d+)?(?:, \d[\d,.]*(?:-\d+)?)*")


@dataclass
class PartReport:
    """Watches the pipeline of one part of the input, and observes the decisions of its passes."""

    snapshots: Snapshots = field(default_factory=Snapshots)
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    content: list[Hashable] = field(default_factory=list[Hashable])
    fusion: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    saved: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lowered: dict[str, Any] = field(default_factory=dict[str, Any])

    def begin(self, module: ModuleOp) -> None:
        """Note the module before the first pass."""
        self.content = list(_content(module))
        self.step("(input)", module)

    def __call__(self, when: str, pass_: Pass, module: ModuleOp) -> None:
        if when != "after":
            return
        content = list(_content(module))
        if content == self.content:  # most passes change nothing
            self.steps.append({**self.steps[-1], "name": str(pass_)})
            return
        self.content = content
        self.step(str(pass_), module)

    def observe(self, decision: object) -> None:
        """Note which operations a pass has chosen for one kernel, and why not for others."""
        if isinstance(decision, Decision):
            step = len(self.snapshots.modules) - 1
            self.fusion.append({"module": step, **fusion_facts(decision, self.snapshots)})

    def end(self, module: ModuleOp, run: Measured | None = None) -> None:
        """Note the kernels and the memory of the module after the last pass."""
        self.lowered = lowered_facts(module, self.snapshots, run)

    def facts(self, result: PipelineResult) -> dict[str, Any]:
        """All that the page shows, as data for JSON."""
        for step, timing in zip(self.steps[1:], result.timings, strict=False):
            step |= {"ms": round(timing.seconds * 1e3, 3), "rewrites": timing.rewrites}
        held = self.snapshots
        return {
            "steps": self.steps,
            "strings": held.strings.items,
            "rows": held.rows.items,
            "modules": held.modules,
            "files": source_facts(held),
            "fusion": self.fusion,
            "saved": self.saved,
            "remarks": list(_grouped(result)),
            **self.lowered,
        }

    def step(self, name: str, module: ModuleOp) -> None:
        """Note the module after a pass that changed it."""
        ops = {p.symbol: list(operations(p.block)) for p in programs(module)}
        sizes = {
            symbol: (len(held), sum(bytes_of(r.type) for op in held for r in op.results))
            for symbol, held in ops.items()
        }
        self.steps.append({"name": name, "sizes": sizes, "module": self.snapshots.add(module)})
        self.saved = self.saved or list(saved_facts(module, self.snapshots))


def _content(module: ModuleOp) -> Iterator[Hashable]:
    """The parts of each operation that a pass may change; keeps operations, and so ids, alive."""
    for program in programs(module):
        yield program, tuple(program.attributes)
        for op in operations(program.block):
            yield op, tuple(op.operands), tuple(op.properties.items()), tuple(op.attributes.items())
            yield tuple(r.type for r in op.results)
            yield op.kernel if isinstance(op, KernelOp) else None


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
