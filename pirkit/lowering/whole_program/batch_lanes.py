"""Lowers a program to one function that computes one batch row in each lane.

For small dense networks a whole training step (forward, derivatives, weight update) consists of
independent batch rows, reductions over them, and a few values without a batch axis. A vector of
rows runs through the whole network while its values stay in L1; weights are read in place, as
broadcast scalars.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from pirkit.dialect.map_expr.guarded_nodes import DIVIDES
from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.ir.llvm_text import Builder
from pirkit.lowering.codegen.math.primitives import FLOATS, is_costly
from pirkit.lowering.whole_program.batch_groups import BatchGroupEmitter
from pirkit.lowering.whole_program.batch_partition import stages_of
from pirkit.lowering.whole_program.loop_emit import LoopEmitter
from pirkit.lowering.whole_program.loop_fusion import FusedLoop, FusedProgram, fuse_loops
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op
from pirkit.lowering.whole_program.outlined_loops import OutlinedLoops
from pirkit.lowering.whole_program.scheduling import ProgramSchedule, schedule_of, without_views
from pirkit.lowering.whole_program.several_axes import with_rows_of_one_axis
from pirkit.lowering.whole_program.whole_values import emit_whole
from pirkit.runtime.dtype import DType, bool_, float32, float64, int32, int64
from pirkit.runtime.machine_costs import VECTOR_FMAS_PER_NS
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.program import NativeProgram
from pirkit.runtime.native.program_data import ProgramStep
from pirkit.runtime.native.target import Target, host

_MAX_INPUT_COLUMNS: Final = 4096
"""Largest number of elements of multi-column inputs and results of a program with few others: their
strided column accesses cost more than vectorizing along the columns."""
_MIN_WITHIN: Final = 6
"""Elements that a program with matmuls has to compute in between, for each element of these inputs
and results, to outweigh the strided accesses. A linear layer of 30 to 20 took 2.1 times as long in
lanes as by kernels, two of 30 to 32 to 10 1.5 times (twice their inputs in between), a step of
training of 64-64-64-10 as long (11 times).
"""
_MAX_STAGED_COLUMNS: Final = 64
"""Largest number of columns of a matmul in stages. Rows between stages leave the cache as they do
between kernels; kernels multiply by wide matrices faster (a layer of 128 by 8 %, of 256 by 17 %),
and serve programs without a matmul, vectorized along the columns."""
_COSTLY: Final = 20
"""Vector instructions of a function such as tanh, about."""
_PAGE_BYTES: Final = 4096
"""Alignment of what stages hand over."""
_BESIDE: Final = (bool_, int32, int64, float32, float64)
"""The element types of values of one element."""


class _FunctionText(Struct, frozen=True):
    """The LLVM text of a function, its number of parallel blocks, and its estimated time in ns."""

    text: str
    blocks: int
    work: int


class _ProgramEmitter:
    """Schedules a graph and emits its functions."""

    def __init__(self, graph: Graph, target: Target, fast_math: bool = True) -> None:
        self.target = target
        self.inputs, self.outputs = graph.inputs, graph.outputs
        self.schedule: ProgramSchedule = schedule_of(graph, fast_math)
        self.dtype = _float_of(self.schedule)
        self.lanes = max(2, target.vector_bits // (8 * self.dtype.itemsize))
        self.order: FusedProgram = fuse_loops(self.schedule, self.lanes)
        self.batch = [
            BatchGroupEmitter(self.order, g, self.lanes, self.dtype) for g in self.order.groups
        ]
        self.scratch = max((group.scratch for group in self.batch), default=0)

    @property
    def is_single_function(self) -> bool:
        """Whether no group has parts that threads could share."""
        return all(group.parts == 1 for group in self.batch)

    def functions(self) -> list[_FunctionText]:
        """One function; with parts for threads, one before, one for each group, one after.

        The numerical result is the same.
        """
        steps = self.schedule_to_run()
        if self.is_single_function:
            work = sum(w for _, _, w in steps)
            return [_FunctionText(self.function([f for f, _, _ in steps]), 1, work)]
        return [_FunctionText(self.function([f]), blocks, work) for f, blocks, work in steps]

    def schedule_to_run(self) -> list[tuple[Callable[[LoopEmitter], None], int, int]]:
        """Emitters in execution order, each with its parallel blocks and estimated time in ns."""
        steps: list[tuple[Callable[[LoopEmitter], None], int, int]] = []
        if self.order.before:
            steps.append((self.before, 1, _estimated_time(self.schedule, self.order.before, 1)))
        for group in self.batch:
            work = _estimated_time(self.schedule, group.loops.items(), group.loops.vectors)
            steps.append((group.write, group.parts, work))
        if self.order.after or self.schedule.sums:
            steps.append((self.after, 1, _estimated_time(self.schedule, self.order.after, 1)))
        return steps

    def function(self, bodies: list[Callable[[LoopEmitter], None]]) -> str:
        target, operands = self.target, len(self.graph.inputs) + len(self.graph.outputs) + 1
        b = Builder(scalef=target.x86 and target.has("avx512f"))
        shared = OutlinedLoops() if self.schedule.has_matmul else None
        writer = LoopEmitter(b, self.order, self.lanes, self.dtype, shared)
        for group in self.batch:
            group.place_sums(writer)
        for body in bodies:
            body(writer)
        routines = Routines()
        if shared is not None:
            routines.include(shared.lines())
        return routines.module(b, operands, self.scratch)

    @property
    def graph(self) -> Graph:
        return self.schedule.graph

    def bytes_of(self, value: int) -> int:
        """The memory of an input or a result."""
        meta = self.graph.metas[value]
        # blocked values are stored by whole vectors of rows, the last one too
        missing = -meta.shape[0] % self.lanes if value in self.graph.blocked else 0
        return (meta.numel + missing * self.schedule.columns(value)) * meta.dtype.itemsize

    # --- loops without a batch axis, before and after the batch groups ---

    def before(self, w: LoopEmitter) -> None:
        self._elementwise_loops(w, self.order.before)

    def after(self, w: LoopEmitter) -> None:
        for group in self.batch:
            group.total(w)
        self._elementwise_loops(w, self.order.after)

    def _elementwise_loops(self, w: LoopEmitter, items: list[FusedLoop]) -> None:
        for item in items:
            if item.first.kind == "map":
                w.outlined(partial(w.whole, item))
            elif item.first.kind == "whole":
                w.outlined(partial(emit_whole, w, item.first.op))
            else:
                w.reduce_all(item.first)


def batch_lane_program(
    graph: Graph, target: Target | None = None, *, fast_math: bool = True
) -> NativeProgram:
    """The native program of a graph. Raises NotNativeError if this form does not support it.

    ``fast_math`` takes common factors out of sums (see `factor_common_matmuls.py`).
    """
    graph = without_views(with_rows_of_one_axis(graph))
    stages, aliases = _staged(graph, target or host(), fast_math)
    buffers = _Buffers(graph, stages, aliases)
    steps = [
        ProgramStep(_function(text, stage), buffers.operands(k))
        for k, stage in enumerate(stages)
        for text in stage.functions()
    ]
    return NativeProgram(
        tuple([graph.declared.get(v, graph.metas[v]) for v in graph.inputs]),
        tuple([graph.declared.get(v, graph.metas[v]) for v in graph.outputs]),
        tuple(steps),
        tuple(buffers.offsets),
        buffers.memory,
        graph.names,
        _summary(stages, len(steps)),
        buffers.in_place(),
    )


def describe(graph: Graph) -> str:
    """A one-line summary of the native program. Raises NotNativeError if there is none."""
    stages, _ = _staged(without_views(with_rows_of_one_axis(graph)), host(), fast_math=True)
    return _summary(
        stages, sum(1 if s.is_single_function else len(s.schedule_to_run()) for s in stages)
    )


def _staged(
    graph: Graph, target: Target, fast_math: bool
) -> tuple[list[_ProgramEmitter], dict[int, int]]:
    """The emitters of the stages of a graph, one if it can be, and aliases (see `stages_of`)."""
    # One function keeps a vector of rows in L1 from the first op to the last; stages hand whole
    # batches over in memory, so they come second.
    try:
        only = _ProgramEmitter(graph, target, fast_math)
        _refuse_columns([only.schedule])
        return [only], {}
    except NotNativeError as reason:
        try:
            parts, aliases = stages_of(graph)
            stages = [_ProgramEmitter(part, target, fast_math) for part in parts]
            _refuse_columns([stage.schedule for stage in stages])
        except NotNativeError:
            raise reason from None
        widths = [n.key[0] for s in stages for n in s.schedule.body if n.kind == "matmul"]
        if not 0 < max(widths, default=0) <= _MAX_STAGED_COLUMNS:
            raise
        return stages, aliases


class _Buffers:
    """The numbers of a program's buffers: inputs, results, the workspace, what is handed over."""

    def __init__(
        self, graph: Graph, stages: list[_ProgramEmitter], aliases: dict[int, int]
    ) -> None:
        self.graph, self.stages, self.aliases = graph, stages, aliases
        self.numbers = {v: k for k, v in enumerate(graph.inputs)}
        self.results: dict[int, list[int]] = defaultdict(list)
        """The buffers of a result; several if it is returned more than once."""
        for k, value in enumerate(graph.outputs, len(graph.inputs)):
            self.results[value].append(k)
        self.workspace = len(graph.inputs) + len(graph.outputs)
        self.offsets = [0]
        self.memory = max(stage.order.whole_bytes for stage in stages)
        for stage in stages:
            for value in stage.outputs:
                if value not in self.results:
                    self.numbers[value] = self.workspace + len(self.offsets)
                    self.offsets.append(-(-self.memory // _PAGE_BYTES) * _PAGE_BYTES)
                    self.memory = self.offsets[-1] + stage.bytes_of(value)

    def _read(self, value: int) -> int:
        """The buffer that holds a value for those that read it."""
        value = self.aliases.get(value, value)
        found = self.numbers.get(value)
        return self.results[value][0] if found is None else found

    def _written(self, stage: _ProgramEmitter) -> list[int]:
        """The buffers of a stage's results."""
        left = {v: iter(buffers) for v, buffers in self.results.items()}
        return [next(left[v]) if v in left else self.numbers[v] for v in stage.outputs]

    def operands(self, stage: int) -> tuple[int, ...]:
        """The operands of the functions of a stage."""
        emitter = self.stages[stage]
        return (*map(self._read, emitter.inputs), *self._written(emitter), self.workspace)

    def in_place(self) -> frozenset[tuple[int, int]]:
        """Pairs of a result and an input, by position, that may share one array (`_in_place`)."""
        pairs: set[tuple[int, int]] = set()
        later: set[int] = set()
        count = len(self.graph.inputs)
        # From the last stage on, as an input may be overwritten only by its last reader.
        for stage in reversed(self.stages):
            written = self._written(stage)
            for result, position in _in_place(stage):
                source, target = self._read(stage.inputs[position]), written[result]
                if count <= target < self.workspace and source < count and source not in later:
                    pairs.add((target - count, source))
            later |= set(map(self._read, stage.inputs))
        return frozenset(pairs)


def _summary(stages: list[_ProgramEmitter], count: int) -> str:
    schedules = [stage.schedule for stage in stages]
    whole = sum(len(s.before) + len(s.after) for s in schedules)
    inside = sum(node.op.name != "load" for s in schedules for node in s.body)
    counts = " and ".join(str(g.batch) for s in schedules for g in s.groups if g.body or g.sums)
    group = f"{inside} ops on batches of {counts} rows, " if counts else ""
    functions = "one function" if count == 1 else f"{count} functions"
    staged = f" in {len(stages)} stages" if len(stages) > 1 else ""
    return (
        f"{functions}{staged}: {group}{sum(len(s.sums) for s in schedules)} sums over the batch, "
        f"{whole} ops on other values; {max(s.scratch for s in stages):,} bytes for each thread"
    )


def _in_place(program: _ProgramEmitter) -> frozenset[tuple[int, int]]:
    """Pairs of a result and an input that may share one array.

    Nothing reads the input after the operation that writes the result, nor another element of it
    in the same loop. A value without a batch axis is written after the last batch row was read.
    """
    graph, rows = program.graph, program.schedule.rows
    pairs: set[tuple[int, int]] = set()
    alike: dict[tuple[TensorMeta, bool], list[int]] = defaultdict(list)
    for position, source in enumerate(graph.inputs):
        alike[graph.metas[source], source in rows].append(position)
    for items in (list(program.order.batch()), program.order.after):
        written: dict[int, tuple[int, int]] = {}
        last: dict[int, tuple[int, int]] = {}
        for k, item in enumerate(items):
            written |= {n.op.out: (k, j) for j, n in enumerate(item.nodes)}
            last |= {v: (k, j) for v, j in item.first_reads().items()}
        # loaded rows are read from scratch memory from then on
        last |= {
            n.op.out: (k, j)
            for k, item in enumerate(items)
            for j, n in enumerate(item.nodes)
            if n.op.name == "load"
        }
        for result, value in enumerate(graph.outputs):
            if value not in written:
                continue
            for position in alike.get((graph.metas[value], value in rows), ()):
                if last.get(graph.inputs[position], (-1, 0)) <= written[value]:
                    pairs.add((result, position))
    return frozenset(pairs)


def _refuse_columns(stages: Sequence[ProgramSchedule]) -> None:
    """Refuse programs whose cost is mostly strided access to wide rows: kernels that vectorize
    along the columns read these contiguously.
    """
    wide = within = 0
    for steps in stages:
        graph = steps.graph
        outside = {v for v in (*graph.inputs, *graph.outputs) if steps.is_row(v)} - graph.blocked
        wide += sum(graph.metas[v].numel for v in outside if steps.columns(v) > 1)
        made = {op.out for op in graph.ops if steps.is_row(op.out)} - outside
        within += sum(graph.metas[v].numel for v in made)
    multiplies = any(op.name == "matmul" for steps in stages for op in steps.graph.ops)
    if wide > _MAX_INPUT_COLUMNS and not (multiplies and within >= _MIN_WITHIN * wide):
        raise NotNativeError("rows of several columns, and little arithmetic between them")


def _float_of(steps: ProgramSchedule) -> DType:
    """The one float type of the tensors of a program, float32 or float64.

    Values of one element outside batch groups, as an optimizer's count of steps and what it
    computes in double precision, may have other types. Raises NotNativeError otherwise.
    """
    graph = steps.graph
    used = {*graph.inputs, *graph.outputs, *(op.out for op in graph.ops), *graph.fills}
    used |= {a for op in graph.ops for a in op.args}
    alone = {v for v in used if graph.metas[v].numel == 1 and not steps.is_row(v)}
    dtypes = {graph.dtype(v) for v in used - alone} or {graph.dtype(v) for v in used}
    floats = {d for d in dtypes if d.is_float}
    beside = {graph.dtype(v) for v in alone} - floats
    if len(floats) != 1 or not floats <= {float32, float64}:
        raise NotNativeError(f"element types {', '.join(sorted(d.name for d in dtypes))}")
    if any(d.kind != "bool" for d in dtypes - floats) or not beside <= {*_BESIDE}:
        names = sorted(d.name for d in dtypes | beside)
        raise NotNativeError(f"element types {', '.join(names)}")
    if any(graph.dtype(s.out) not in floats for s in steps.sums):
        raise NotNativeError("a sum of numbers that are no floats")
    for op in graph.ops:
        if op.name == "sum" and graph.dtype(op.out) not in floats:
            raise NotNativeError("a sum of numbers that are no floats")
        if not graph.dtype(op.out).is_float and _takes_floats(op):
            raise NotNativeError(f"`{op.name}` of {graph.dtype(op.out).name}")
        made, given = graph.dtype(op.out), {graph.dtype(a) for a in op.args}
        if made is bool_ or op.name == "where":  # of a mask
            given -= {bool_}
        converts = made is not bool_ and op.name != "cast" and bool(given - {made})
        if len(given) > 1 or converts:
            raise NotNativeError(f"`{op.name}` of several element types")
    (only,) = floats
    return only


def _takes_floats(op: Op) -> bool:
    """Whether lanes compute an op for floats alone; integers are divided with an assertion."""
    return op.name in FLOATS or op.name in ("scale", "pow") or f"pd_op.{op.name}" in DIVIDES


def _estimated_time(schedule: ProgramSchedule, items: list[FusedLoop], times: int) -> int:
    """The estimated time of some loops on one thread, in ns."""
    vectors = 0
    for item in items:
        if item.sum is not None:
            vectors += schedule.graph.metas[item.sum.out].numel * len(item.sum.terms)
            continue
        for node in item.nodes:
            (width,) = node.key
            is_matmul = node.op.name == "matmul"
            inner = schedule.columns(node.op.args[0]) if is_matmul else 1
            vectors += width * (inner if is_matmul else _COSTLY if is_costly(node.op.name) else 1)
    return int(vectors * times / VECTOR_FMAS_PER_NS)


def _function(function_text: _FunctionText, program: _ProgramEmitter) -> NativeFunction:
    def write() -> Draft:
        operands = (*program.graph.inputs, *program.graph.outputs)
        sizes = (*map(program.bytes_of, operands), program.order.whole_bytes)
        return Draft(
            function_text.text,
            Code(b"", SYMBOL, function_text.blocks, program.scratch, function_text.work, sizes),
            about(_ProgramEmitter, "lanes of a batch"),
        )

    return function_of(key_of((function_text, program.scratch), program.target), write)
