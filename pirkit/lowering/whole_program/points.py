"""A program with points in lanes: everything that a step of training does, as one function.

Small dense networks, their derivatives, and the update of their weights are rows that do not know
of each other, sums over them, and a few values that are no rows. A vector of points goes through
the whole network with its values in the nearest caches; the weights are read from where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import key_of
from pirkit.lowering.codegen.generate import SYMBOL
from pirkit.lowering.codegen.ir import Builder
from pirkit.lowering.codegen.primitives import is_costly
from pirkit.lowering.whole_program.graph import Graph, Refused
from pirkit.lowering.whole_program.order import Item, Order, order_of
from pirkit.lowering.whole_program.point_groups import Points
from pirkit.lowering.whole_program.shared_loops import SharedLoops
from pirkit.lowering.whole_program.stages import Stages, stages_of
from pirkit.lowering.whole_program.writer import Writer
from pirkit.runtime.dtype import DType, float32, float64
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.program import NativeProgram, ProgramStep
from pirkit.runtime.native.target import Target, host

_VECTORS_PER_NS: Final = 3.0
_FEW: Final = 4096
"""Elements of rows that may be taken apart into columns where no product makes that worth it."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A function in the making: its text, its independent blocks, a guess of its time in ns."""

    text: str
    blocks: int
    work: int


class _Program:
    """The functions of a graph."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.target = target
        self.stages: Stages = stages_of(graph)
        _refuse_columns(self.stages)
        self.dtype = _float_of(self.stages)
        self.lanes = max(2, target.vector_bits // (8 * self.dtype.itemsize))
        self.order: Order = order_of(self.stages, self.lanes)
        self.points = [Points(self.order, g, self.lanes, self.dtype) for g in self.order.groups]
        self.scratch = max((points.scratch for points in self.points), default=0)

    @property
    def is_one(self) -> bool:
        """Whether there is nothing that threads may share."""
        return all(points.parts == 1 for points in self.points)

    def pieces(self) -> list[_Piece]:
        """One function, or where threads may share points one before, one a group, one after.

        The result is the same.
        """
        stages = self.stages_to_run()
        if self.is_one:
            work = sum(w for _, _, w in stages)
            return [_Piece(self.function([f for f, _, _ in stages]), 1, work)]
        return [_Piece(self.function([f]), blocks, work) for f, blocks, work in stages]

    def stages_to_run(self) -> list[tuple[Callable[[Writer], None], int, int]]:
        """What comes before the points, the points, what comes after; blocks; a guess in ns."""
        stages: list[tuple[Callable[[Writer], None], int, int]] = []
        if self.order.before:
            stages.append((self.before, 1, _time(self.order.before, 1)))
        for points in self.points:
            work = _time(points.loops.items(), points.loops.vectors)
            stages.append((points.write, points.parts, work))
        if self.order.after or self.stages.sums:
            stages.append((self.after, 1, _time(self.order.after, 1)))
        return stages

    def function(self, bodies: list[Callable[[Writer], None]]) -> str:
        target, operands = self.target, len(self.graph.inputs) + len(self.graph.outputs) + 1
        b = Builder(scalef=target.x86 and target.has("avx512f"))
        shared = SharedLoops() if self.stages.multiplies else None
        writer = Writer(b, self.order, self.lanes, self.dtype, shared)
        for points in self.points:
            points.place_sums(writer)
        for body in bodies:
            body(writer)
        declared = b.declared | (shared.declared() if shared else {})
        lines = [
            *(shared.lines() if shared else ()),
            f"define void @{SYMBOL}(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {{",
            "entry:",
            f"  %scratch_slot = getelementptr i8, ptr %args, i64 {8 * operands}",
            "  %scratch_base = load ptr, ptr %scratch_slot, align 8",
            f"  %scratch_offset = mul i64 %slot, {self.scratch}",
            "  %scratch = getelementptr i8, ptr %scratch_base, i64 %scratch_offset",
            *b.lines,
            "  ret void",
            "}",
            *declared.values(),
            "!0 = !{i32 1}",
        ]
        return "\n".join(lines) + "\n"

    @property
    def graph(self) -> Graph:
        return self.stages.graph

    # --- what comes before the points, and after them ---

    def before(self, w: Writer) -> None:
        self._whole(w, self.order.before)

    def after(self, w: Writer) -> None:
        for points in self.points:
            points.total(w)
        self._whole(w, self.order.after)

    def _whole(self, w: Writer, items: list[Item]) -> None:
        for item in items:
            if item.first.kind == "map":
                w.in_shared(partial(w.whole, item))
            else:
                w.whole_sum(item.first)


def points_program(graph: Graph, target: Target | None = None) -> NativeProgram:
    """The native program of a graph. Raises Refused for a graph that has none."""
    program = _Program(graph, target or host())
    operands = tuple(range(len(graph.inputs) + len(program.graph.outputs) + 1))
    steps = [
        ProgramStep(_function(piece, program, len(operands)), operands)
        for piece in program.pieces()
    ]
    made = program.graph
    return NativeProgram(
        tuple([made.metas[v] for v in made.inputs]),
        tuple([made.metas[v] for v in made.outputs]),
        tuple(steps),
        (0,),
        program.order.whole_bytes,
        made.names,
        _summary(program, len(steps)),
        _in_place(program),
    )


def described(graph: Graph) -> str:
    """What the native program of a graph would be. Raises Refused for a graph that has none."""
    program = _Program(graph, host())
    return _summary(program, 1 if program.is_one else len(program.stages_to_run()))


def _summary(program: _Program, count: int) -> str:
    stages = program.stages
    whole = len(stages.before) + len(stages.after)
    inside = sum(node.op.name != "load" for node in stages.inside)
    counts = " and ".join(str(g.points) for g in stages.groups)
    points = f"{inside} ops on rows of {counts} points, " if stages.groups else ""
    functions = "one function" if count == 1 else f"{count} functions"
    return (
        f"{functions}: {points}{len(stages.sums)} sums over points, {whole} ops on other values; "
        f"{program.scratch:,} bytes for each thread"
    )


def _in_place(program: _Program) -> frozenset[tuple[int, int]]:
    """Pairs of a result and an input that may be one array.

    Nothing reads the input behind the operation that writes the result, nor another element of it
    in the same loop. What is no row is written after the points, when all rows have been read.
    """
    graph, rows = program.graph, program.stages.rows
    pairs: set[tuple[int, int]] = set()
    for items in (list(program.order.points()), program.order.after):
        written: dict[int, tuple[int, int]] = {}
        last: dict[int, tuple[int, int]] = {}
        for k, item in enumerate(items):
            written |= {n.op.out: (k, j) for j, n in enumerate(item.nodes)}
            last |= {v: (k, item.first_read(v)) for v in item.reads()}
        # what is loaded is read from scratch memory from then on
        last |= {
            n.op.out: (k, j)
            for k, item in enumerate(items)
            for j, n in enumerate(item.nodes)
            if n.op.name == "load"
        }
        for result, value in enumerate(graph.outputs):
            for position, source in enumerate(graph.inputs):
                alike = graph.metas[value] == graph.metas[source]
                if not alike or value not in written or (value in rows) != (source in rows):
                    continue
                if last.get(source, (-1, 0)) <= written[value]:
                    pairs.add((result, position))
    return frozenset(pairs)


def _refuse_columns(stages: Stages) -> None:
    """Refuse what is little more than reading rows of several columns, an element of each at a
    time: kernels read them as they lie.
    """
    graph = stages.graph
    wide = sum(
        graph.metas[v].numel
        for v in (*graph.inputs, *graph.outputs)
        if stages.is_row(v) and stages.columns(v) > 1
    )
    if wide > _FEW and not any(op.name == "matmul" for op in graph.ops):
        raise Refused("rows of several columns, and no product of them")


def _float_of(stages: Stages) -> DType:
    """The float type that a program computes in. Raises Refused where there are several."""
    graph = stages.graph
    used = {*graph.inputs, *(op.out for op in graph.ops), *graph.fills}
    used |= {a for op in graph.ops for a in op.args}
    dtypes = {graph.dtype(v) for v in used}
    floats = {d for d in dtypes if d.is_float}
    if len(floats) != 1 or not floats <= {float32, float64}:
        raise Refused(f"element types {', '.join(sorted(d.name for d in dtypes))}")
    if any(d.kind != "bool" for d in dtypes - floats):
        raise Refused(f"element types {', '.join(sorted(d.name for d in dtypes))}")
    if any(graph.dtype(s.out) not in floats for s in stages.sums):
        raise Refused("a sum of what are no floats")
    (only,) = floats
    return only


def _time(items: list[Item], times: int) -> int:
    """A guess of the time of some loops on one thread, in ns."""
    vectors = 0
    for item in items:
        if item.sum is not None:
            vectors += 400 * len(item.sum.terms)
            continue
        for node in item.nodes:
            (width,) = node.key
            heavy = 20 if is_costly(node.op.name) or node.op.name == "matmul" else 1
            vectors += width * heavy
    return int(vectors * times / _VECTORS_PER_NS)


def _function(piece: _Piece, program: _Program, operands: int) -> NativeFunction:
    def write() -> Draft:
        sizes = (0,) * operands
        return Draft(
            piece.text, Code(b"", SYMBOL, piece.blocks, program.scratch, piece.work, sizes)
        )

    return function_of(key_of((piece, program.scratch), program.target), write)
