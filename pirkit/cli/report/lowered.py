"""The plans of a pipeline's last programs: instructions, their memory, kernels and cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.cli.report.snapshots import Snapshots, programs
from pirkit.diag.errors import PirkitError
from pirkit.dialect.map_expr.cinn_outline import outline
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.profile import Profile, measured
from pirkit.lowering.call_work import Work, work_of
from pirkit.lowering.native_calls import NotingLibrary, layout_of
from pirkit.lowering.native_fused import FusedKernel
from pirkit.lowering.native_text import nests_of
from pirkit.lowering.plan_writer import write_plan
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.engine import assembly
from pirkit.runtime.nodes import Bound, Detour, Dynamic, InArena, InPlace, NewArray, every_node
from pirkit.runtime.plan import Call, Plan, instructions, slots_of
from pirkit.runtime.registry import CPU

_MAX_TEXT: Final = 3_000_000
"""Characters of kernels in one page; the others are named with the command that prints them."""


class _Kernels:
    """The texts of native functions, each once: most layers of a network share theirs."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []
        self.numbers: dict[tuple[str, ...], int] = {}
        self.size = 0

    def number(self, node: Bound, library: NotingLibrary, names: Sequence[str]) -> int:
        """The number of a call's texts; -1 if it runs no native code."""
        functions = library.functions_of(node)
        if not functions:
            return -1
        key = tuple([f.key for f in functions])
        if key not in self.numbers:
            self.numbers[key] = len(self.found)
            self.found.append({"name": node.call.kernel})
            if self.size < _MAX_TEXT:
                drafts = [f.write() for f in functions]
                stages = {
                    "loop IR": "\n".join(nests_of(node, functions)),
                    "LLVM IR": "\n".join(d.text for d in drafts),
                    "asm": "\n".join(assembly(d.text) for d in drafts),
                }
                if isinstance(node.step, FusedKernel):
                    self.found[-1]["name"] = node.step.kernel.name
                    stages["MapExpr"] = outline(node.step.kernel, names)
                self.found[-1] |= stages | {"about": "\n".join(str(d.about) for d in drafts)}
                self.size += sum(map(len, stages.values()))
        return self.numbers[key]


@dataclass(frozen=True)
class Measured:
    """A profile, with the program and the plan that ran."""

    profile: Profile
    symbol: str
    plan: Plan


def lowered_facts(module: ModuleOp, snapshots: Snapshots, run: Measured | None) -> dict[str, Any]:
    """The plan of each program for its declared shapes, and the kernels of all.

    Of a measured run it is the plan that ran, alone. A program that cannot be lowered has the error
    instead, which the page shows.
    """
    kernels, plans = _Kernels(), list[dict[str, Any]]()
    for program in programs(module):
        if run is not None and run.symbol != program.symbol:
            continue
        try:
            plans.append(_plan(program, snapshots, kernels, run))
        except PirkitError as error:
            plans.append({"program": program.symbol, "error": str(error)})
    machine = run.profile.machine if run else measured()
    return {
        "plans": plans,
        "kernels": kernels.found,
        "machine": {"bandwidth": machine.bandwidth, "flops": machine.flops},
        "profiled": run is not None,
    }


def _plan(
    program: ProgramOp, snapshots: Snapshots, kernels: _Kernels, run: Measured | None
) -> dict[str, Any]:
    plan, library = run.plan if run else write_plan(program), NotingLibrary(CPU)
    op_of = _ops_by_slot(plan, program)
    rewritten, layout = layout_of(plan, library, grouped=run is None)
    profiled = run.profile.rows if run else ()
    times = {r.entry.calls[-1].call.outputs: r.seconds * 1e6 for r in profiled if r.entry.calls}
    rows: list[dict[str, Any]] = []
    memory = _Memory()
    for node in every_node(layout.nodes):
        if not isinstance(node, Bound | Dynamic):
            continue
        call = node.call
        ops = dict.fromkeys(op_of[s] for s in slots_of(call.outputs) if s in op_of)
        names = [snapshots.name(v) for op in ops for v in op.operands]
        number = kernels.number(node, library, names) if isinstance(node, Bound) else -1
        work = _work(call, rewritten)
        memory.note(len(rows), node)
        rows.append({
            "what": call.kernel,
            "ops": [snapshots.row_of[op] for op in ops if op in snapshots.row_of],
            "bytes": work.nbytes,
            "flops": work.flops,
            "kernel": number,
            "us": times.get(call.outputs),
        })  # fmt: skip
    return {
        "program": program.symbol,
        "nbytes": layout.nbytes,
        "rows": rows,
        "arena": memory.ranges,
    }


def _ops_by_slot(plan: Plan, program: ProgramOp) -> dict[int, PirOp]:
    """The operation that defines each slot: calls have the order of the operations."""
    found: dict[int, PirOp] = {}
    ops = list(operations(program.block))
    at = 0
    for call in instructions(plan.body):
        if not isinstance(call, Call):
            continue
        place = next((k for k in range(at, len(ops)) if ops[k].name == call.kernel), None)
        if place is not None:
            at = place + 1
        else:  # the backend has no kernel for the op, which is decomposed for it
            whole = (k for k in range(at, len(ops)) if ops[k].name.endswith(f".{call.part_of}"))
            place = next(whole, None) if call.part_of else None
        if place is None:
            continue
        found |= dict.fromkeys(slots_of(call.outputs), ops[place])
    return found


def _work(call: Call, plan: Plan) -> Work:
    """The work for the declared shapes; none where sizes are unknown."""
    sides = ([plan.slots[s] for s in slots_of(side)] for side in (call.inputs, call.outputs))
    inputs, outputs = sides
    if not all(isinstance(m, TensorMeta) and m.is_static for m in (*inputs, *outputs)):
        return Work(0, 0)
    return work_of(call, inputs, outputs)


class _Memory:
    """The ranges of the arena, with the instructions between which each is in use."""

    def __init__(self) -> None:
        self.ranges: list[list[Any]] = []
        self.of_slot: dict[int, set[int]] = {}

    def note(self, at: int, node: Bound | Dynamic) -> None:
        """Note what an instruction allocates, and what it touches."""
        call = node.call
        read = {r for s in slots_of(call.inputs) for r in self.of_slot.get(s, ())}
        targets = list(node.targets) if isinstance(node, Bound) else []
        places = [p for t in targets for p in (t if isinstance(t, tuple) else (t,))]
        for slot, place in zip(slots_of(call.outputs), places, strict=False):
            match place:
                case InArena(meta, offset) | Detour(_, InArena(meta, offset)):
                    self.of_slot[slot] = {len(self.ranges)}
                    size = meta.numel * meta.dtype.itemsize
                    self.ranges.append([offset, size, at, at, "arena"])
                case NewArray(meta):
                    self.of_slot[slot] = {len(self.ranges)}
                    size = meta.numel * meta.dtype.itemsize
                    self.ranges.append([-1, size, at, at, "result"])
                case InPlace(source):
                    self.of_slot[slot] = self.of_slot.get(source, set())
                case _:
                    self.of_slot[slot] = set()
        if not places:  # views, and what kernels return, may be any operand
            self.of_slot |= dict.fromkeys(slots_of(call.outputs), read)
        written = {r for s in slots_of(call.outputs) for r in self.of_slot.get(s, ())}
        for number in read | written:
            self.ranges[number][3] = at
