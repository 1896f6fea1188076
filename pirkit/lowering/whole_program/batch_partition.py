"""Cuts a graph into stages, each of which has a form with one batch row in each lane.

A row may depend on a sum over all rows (a root of a mean, a quotient of two integrals), and rows of
one batch may be values of another (the nodes of a quadrature in an integral equation). What is
before such a dependence runs for all rows first, and what is after it in another loop over them;
values that both need are stored in memory between the two loops.

    time 2k: rows of stage k, and what they read        time 2k + 1: sums over rows of stage k

Each op has an earliest time by its operands and runs at the latest one that its readers allow, so
that few values are handed over; reductions over the batch run as early as they can, which hands
over their sum instead of rows, and so do additions of them, which the stage merges.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pirkit.dialect.kinds import RESHAPE
from pirkit.lowering.codegen.math.primitives import is_costly
from pirkit.lowering.whole_program.axis_classes import AxisClasses
from pirkit.lowering.whole_program.lane_ops import is_elementwise
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op

_MAX_REPEATED: Final = 8
"""Largest number of operations by which a later stage computes a row again."""


def stages_of(graph: Graph) -> tuple[list[Graph], dict[int, int]]:
    """The graphs of the stages in order, and the value whose memory each reshaped value has.

    A stage's inputs are those of ``graph`` and values of earlier stages, by the same numbers.
    Raises NotNativeError if there is only one stage, or if an op has no axis rule.
    """
    times = _Times(graph)
    count = times.last // 2 + 1
    if count == 1:
        raise NotNativeError("there is one stage")
    return _cut(graph, times, count), times.aliases


class _Times:
    """When the ops of a graph run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        moved = {op.out: op.args[0] for op in graph.ops if _mixes_rows(op, graph)}
        self.aliases: dict[int, int] = {}
        for out, source in moved.items():
            self.aliases[out] = self.aliases.get(source, source)
        self.ops = [op for op in graph.ops if op.out not in moved]
        classes = AxisClasses(replace(graph, ops=self.ops))
        names = {*classes.batch()}
        ranked = {v for v, meta in graph.metas.items() if meta.rank}
        self.rows = {v for v in ranked - graph.fills.keys() if classes.find((v, 0)) in names}
        self.totals: set[int] = set()
        self.early: dict[int, int] = {}
        self.late: dict[int, int] = {}
        self._earliest()
        self.last = max(self.early.values(), default=0) | 1
        self._latest()

    def read(self, op: Op) -> list[int]:
        return [a for a in op.args if not self.graph.is_constant(a)]

    def is_reduction(self, op: Op) -> bool:
        """Whether it reduces rows, or adds what does."""
        if op.out in self.rows:
            return False
        is_total = op.name == "add" and self.totals.issuperset(op.args)
        return is_total or any(a in self.rows for a in op.args)

    def _earliest(self) -> None:
        known = self.early
        known |= dict.fromkeys(self.graph.inputs, 0)
        for op in self.graph.ops:
            time = max((known[a] for a in self.read(op)), default=0)
            if op.out in self.aliases:
                is_given = self.aliases[op.out] in self.graph.inputs
                known[op.out] = 0 if is_given else (time // 2 + 1) * 2
            elif op.out in self.rows:
                known[op.out] = time + time % 2
            else:
                known[op.out] = time | 1 if self.is_reduction(op) else time
                self.totals |= {op.out} if self.is_reduction(op) else set()

    def _latest(self) -> None:
        last = self.last
        limits: dict[int, int] = {}
        for value in self.graph.outputs:
            limits[value] = self.early.get(value, 0) if value in self.rows else last
        for op in reversed(self.graph.ops):
            limit = min(limits.get(op.out, last), last)
            if op.out in self.aliases:
                limit = (limit // 2) * 2 - 1  # written before the stage that reads it
            elif self.is_reduction(op):
                limit = self.early[op.out]
            elif op.out in self.rows:
                limit -= limit % 2
            if op.out not in self.aliases:
                self.late[op.out] = limit
            for arg in self.read(op):
                limits[arg] = min(limits.get(arg, last), limit)


def _mixes_rows(op: Op, graph: Graph) -> bool:
    """Whether a reshape gives elements other rows: it is free for values that lie in memory."""
    if not op.has(RESHAPE):
        return False
    given, shape = graph.metas[op.args[0]].shape, graph.metas[op.out].shape
    same_axes = [k for k in given if k > 1] == [k for k in shape if k > 1]
    return not same_axes or (len(given) == len(shape) and given != shape)


def _cut(graph: Graph, times: _Times, count: int) -> list[Graph]:
    stage = {value: time // 2 for value, time in times.late.items()}
    ops: list[list[Op]] = [[] for _ in range(count)]
    for op in times.ops:
        ops[stage[op.out]].append(op)
    ops = [_with_repeated(own, graph, times) for own in ops]
    inputs = [list(dict.fromkeys(_outside(own, graph))) for own in ops]
    # The last stage copies outputs that no stage computes: inputs, or other shapes of them.
    inputs[-1] += [
        v for v in dict.fromkeys(graph.outputs)
        if v not in stage and not graph.is_constant(v) and v not in inputs[-1]
    ]  # fmt: skip
    handed = {times.aliases.get(v, v) for given in inputs for v in given} & stage.keys()
    read = {v for given in inputs for v in given}
    blocked = handed & times.rows - times.aliases.keys() - set(times.aliases.values())
    blocked -= {*graph.outputs}
    made: list[Graph] = []
    for k, own in enumerate(ops):
        kept = [o.out for o in own if o.out in handed and o.out not in graph.outputs]
        kept += [v for v in graph.outputs if stage.get(v, count - 1) == k]
        used = {a for op in own for a in op.args}.union(kept)
        made.append(
            Graph(
                graph.metas, tuple(inputs[k]), tuple(kept), ((), ()), own,
                {v: n for v, n in graph.fills.items() if v in used},
                {v: n for v, n in graph.tables.items() if v in used}, set(blocked),
                frozenset(times.rows & {*used, *read, *(op.out for op in own)}),
            )
        )  # fmt: skip
    return [part for part in made if part.ops or part.outputs]


def _with_repeated(own: list[Op], graph: Graph, times: _Times) -> list[Op]:
    """The ops of a stage, and cheap ones of earlier stages on what it reads anyway: to compute a
    row again takes less time than to store and load it.
    """
    made = {op.out: op for op in times.ops}
    given = {*times.aliases, *times.aliases.values(), *graph.outputs}
    needed = set(_outside(own, graph))

    def is_cheap(value: int) -> bool:
        op = made.get(value)
        return (
            op is not None and value in times.rows and value not in given
            and is_elementwise(op) and not is_costly(op.name)
        )  # fmt: skip

    read = {v for v in needed if not is_cheap(v)} | {*graph.inputs}
    again: dict[int, list[Op]] = {}

    def closure(value: int) -> list[Op] | None:
        """The cheap ops that compute a value, if they read nothing else."""
        if value in read or value not in times.rows or graph.is_constant(value):
            return []
        if not is_cheap(value):
            return None
        found = [closure(a) for a in made[value].args]
        if any(part is None for part in found):
            return None
        ops = [op for part in found for op in part or ()]
        return [*dict.fromkeys(ops), made[value]] if len(ops) < _MAX_REPEATED else None

    for value in sorted(needed - read):
        ops = closure(value)
        if ops is None:
            read.add(value)
        else:
            again[value] = ops
    repeated = {op.out for ops in again.values() for op in ops}
    mine = {op.out for op in own} | repeated
    return [op for op in times.ops if op.out in mine] if repeated else own


def _outside(ops: list[Op], graph: Graph) -> list[int]:
    """The values that ops read and do not define."""
    own = {op.out for op in ops}
    return [a for op in ops for a in op.args if a not in own and not graph.is_constant(a)]
