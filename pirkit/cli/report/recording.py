"""A watcher of a pipeline that records what the report shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pirkit.analysis.execution_order import operations
from pirkit.cli.report.lowered import Measured, lowered_facts
from pirkit.cli.report.snapshots import Interned, Snapshots, programs
from pirkit.dialect.kinds import OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.dialect.type_sizes import bytes_of
from pirkit.lowering.fusion.explain import Explainer
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


_MAX_BYTES: Final = 400_000


def source_facts(snapshots: Snapshots) -> list[dict[str, Any]]:
    """Name, text and functions of each file; no text where it cannot be read, or is too long."""
    found: list[dict[str, Any]] = []
    for path in snapshots.files.items:
        lines: list[str] = []
        functions: list[tuple[str, int, int]] = []
        try:
            text = Path(path).read_text(encoding="utf-8")
            lines = text.splitlines() if len(text) <= _MAX_BYTES else []
            if path.endswith(".py"):
                functions = list(_functions(ast.parse(text), ""))
        except (OSError, UnicodeDecodeError, SyntaxError):
            pass  # the page says that there is no text
        found.append({"path": path, "lines": lines, "functions": functions})
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Qualified name, first and last line of each function, an outer one before its inner ones."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child.lineno, child.end_lineno or child.lineno
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


_UNPROFITABLE: Final = "cost: a kernel of the two saves nothing, or has no native code"


def fusion_facts(decision: Decision, snapshots: Snapshots) -> dict[str, Any]:
    """Kernels, the kernel of each row, and the reason at each edge that is not inside of one."""
    found, rows = decision.found, snapshots.row_of
    kernel_of: dict[Operation, int] = {
        unit.op: k for k, kernel in enumerate(found.kernels) for unit in kernel.units
    }
    reasons = Interned()
    return {
        "kernels": [kernel.kernel.name for kernel in found.kernels],
        "kernelOf": [(rows[op], k) for op, k in kernel_of.items() if op in rows],
        "edges": [
            (rows[one], rows[other], reasons(why))
            for one, other, why in _refused(decision, snapshots, kernel_of)
            if one in rows and other in rows
        ],
        "reasons": reasons.items,
    }


def _refused(
    decision: Decision, snapshots: Snapshots, kernel_of: dict[Operation, int]
) -> Iterator[tuple[PirOp, PirOp, str]]:
    """Producer, consumer, and why they are not in one kernel."""
    found = decision.found
    explainer = Explainer(found.equations, found.partition, snapshots.names, decision.policy)
    for reader in found.equations.ops:
        makers = dict.fromkeys(v.owner for v in reader.operands)
        for maker in makers:
            if not isinstance(maker, PirOp) or maker not in explainer.order:
                continue
            kernels = kernel_of.get(maker), kernel_of.get(reader)
            if kernels[0] is not None and kernels[0] == kernels[1]:
                continue
            refusal = explainer.refusal(maker, reader)
            if refusal is not None:
                # the first line of its text names the two, which the page does anyway
                _, _, details = str(refusal).partition("\n")
                yield maker, reader, f"{refusal.kind}: {refusal.reason}\n{details}".strip()
            elif kernels == (None, None) and not found.spare & {maker, reader}:
                yield (maker, reader, _UNPROFITABLE)


def saved_facts(module: ModuleOp, snapshots: Snapshots) -> Iterator[dict[str, Any]]:
    """The arguments of each backward program that its forward program gives, the largest first."""
    made = {
        host_name(op): op
        for program in programs(module)
        if "fo" in program.attributes
        for op in operations(program.block)
        if declares(op, OUTPUT) or declares(op, SOURCE)
    }
    found = [
        fact
        for program in programs(module)
        if "bo_g" in program.attributes
        for fact in _arguments(program, made, snapshots)
    ]
    yield from sorted(found, key=lambda fact: -fact["bytes"])


def _arguments(
    program: ProgramOp, made: dict[str, PirOp], snapshots: Snapshots
) -> Iterator[dict[str, Any]]:
    seeds, shapes = _names(program, "bo_g"), _names(program, "no_need_buffers")
    outputs = _names(program, "bo")
    for name, argument in zip(program.keywords, program.block.args, strict=True):
        maker = made.get(name)
        if name in seeds or maker is None:
            continue
        how = "output" if name in outputs else "middle"
        if declares(maker, OUTPUT):
            owner = maker.operands[0].owner
            maker = owner if isinstance(owner, PirOp) else maker
        else:
            how = "parameter" if declares(maker, PARAMETER) else "input"
        yield {
            "name": name,
            "how": "shape" if name in shapes else how,
            "type": str(argument.type),
            "bytes": 0 if name in shapes else bytes_of(argument.type),
            "maker": snapshots.row_of.get(maker, -1),
            "readers": [
                row
                for use in argument.uses
                if (row := snapshots.row_of.get(use.operation)) is not None
            ],
        }


def _names(program: ProgramOp, key: str) -> set[str]:
    held = cast("mlir.ArrayAttr[Any]", program.attributes.get(key) or mlir.ArrayAttr([]))
    return {name.data for name in held if isinstance(name, mlir.StringAttr)}
