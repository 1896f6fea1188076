"""Partitions the axes of a program's values into equivalence classes, and finds the batch axes.

Each op relates axes of its operands and its result: corresponding axes of an elementwise op, the
contracted axes of a matmul. A union-find over these pairs gives the classes. A class can be the
batch of the program if every value has it as its leading axis or not at all: then no batch row
reads another one. The class with most elements is chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from pirkit.dialect.kinds import RESHAPE
from pirkit.lowering.whole_program.lane_ops import is_elementwise
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op

Axis = tuple[int, int]
"""A value and the number of one of its axes."""


class AxisClasses:
    """A union-find over the axes of all values. Fills have no axes: they fit any shape."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._above: dict[Axis, Axis] = {}
        for op in graph.ops:
            for a, b in _axis_pairs(graph, op):
                first, second = self.find(a), self.find(b)
                if first != second and not {a[0], b[0]} & graph.fills.keys():
                    self._above[first] = second

    def find(self, axis: Axis) -> Axis:
        """The representative of the class of an axis."""
        above = self._above
        while axis in above:
            nearer = above[axis]
            above[axis] = above.get(nearer, nearer)
            axis = nearer
        return axis

    def batch(self) -> list[Axis]:
        """The batch axes: the class with most elements, and the row axes of other matmul results.

        None of them is an axis of any value but its first. Raises NotNativeError if every class is.
        """
        worth: dict[Axis, int] = defaultdict(int)
        values = {*self.graph.inputs, *self.graph.tables, *(op.out for op in self.graph.ops)}
        for value in sorted(values):
            meta = self.graph.metas[value]
            for k, extent in enumerate(meta.shape):
                if extent > 1:
                    worth[self.find((value, k))] += meta.numel
        behind = {self.find((v, k)) for v in values for k in range(1, self.graph.metas[v].rank)}
        if self.graph.rows is not None:
            known = {self.find((v, 0)): None for v in sorted(self.graph.rows)}
            return [name for name in known if name not in behind]
        if worth and worth.keys() <= behind:
            raise NotNativeError("rows read each other")
        largest = max(worth.keys() - behind, key=lambda a: (worth[a], a), default=None)
        found = {} if largest is None else {largest: None}
        given = {self.find((v, 0)) for v in self.graph.inputs if self.graph.metas[v].rank}
        for op in self.graph.ops:
            if op.name == "matmul" and not op.attrs["transpose_x"]:
                name = self.find((op.out, 0))
                if self.graph.metas[op.out].shape[0] > 1 or name in given:
                    found.setdefault(name)
        return [name for name in found if name not in behind]


def _axis_pairs(graph: Graph, op: Op) -> Iterator[tuple[Axis, Axis]]:
    """The pairs of axes that an op relates. Raises NotNativeError for an op that has no rule."""
    shape = graph.metas[op.out].shape
    if is_elementwise(op):
        for arg in op.args:
            given = graph.metas[arg].shape
            skip = len(shape) - len(given)
            for k, extent in enumerate(given):
                if extent == shape[k + skip]:
                    yield (arg, k), (op.out, k + skip)
    elif op.name == "matmul":
        yield from _of_matmul(graph, op)
    elif op.name == "sum":
        (arg,) = op.args
        gone = summed(graph, op)
        left = [k for k in range(graph.metas[arg].rank) if k not in gone]
        keep = bool(op.attrs["keepdim"])
        for position, k in enumerate(left):
            yield (arg, k), (op.out, k if keep else position)
    elif op.has(RESHAPE):
        (arg, *_) = op.args
        given = graph.metas[arg].shape
        other_axes = [k for k, extent in enumerate(given) if extent > 1]
        own_axes = [k for k, extent in enumerate(shape) if extent > 1]
        if [given[k] for k in other_axes] != [shape[k] for k in own_axes]:
            raise NotNativeError(f"`{op.name}` from {given} to {shape} mixes axes")
        if given[:1] == shape[:1] == (1,):  # a batch of one row
            yield (arg, 0), (op.out, 0)
        for k, j in zip(other_axes, own_axes, strict=True):
            yield (arg, k), (op.out, j)
    elif op.name in ("slice", "pad"):
        (arg, *_) = op.args
        if len(graph.metas[arg].shape) != len(shape):
            raise NotNativeError(f"`{op.name}` that drops axes has no native form yet")
        for k, (own_axes, other_axes) in enumerate(zip(shape, graph.metas[arg].shape, strict=True)):
            if own_axes == other_axes:
                yield (arg, k), (op.out, k)
    elif op.name == "regroup":  # its operand has no batch axis
        pass
    elif op.name == "choose":
        yield from (((arg, 0), (op.out, 0)) for arg in op.args)
    elif op.name == "concat":
        concat_axis = op.attrs["axis"] % len(shape)
        for arg in op.args:
            yield from (((arg, k), (op.out, k)) for k in range(len(shape)) if k != concat_axis)
    elif op.name == "transpose":
        yield from (((op.args[0], j), (op.out, k)) for k, j in enumerate(op.attrs["perm"]))
    else:
        raise NotNativeError(f"`{op.name}` has no native form of its own")


def _of_matmul(graph: Graph, op: Op) -> Iterator[tuple[Axis, Axis]]:
    x, y = op.args
    if graph.metas[x].rank != 2 or graph.metas[y].rank != 2:
        raise NotNativeError("the operands of a matmul are not two matrices")
    row, inner = (1, 0) if op.attrs["transpose_x"] else (0, 1)
    other, column = (1, 0) if op.attrs["transpose_y"] else (0, 1)
    yield (x, row), (op.out, 0)
    yield (y, column), (op.out, 1)
    yield (x, inner), (y, other)


def summed(graph: Graph, op: Op) -> tuple[int, ...]:
    """The axes that a `sum` reduces, sorted and non-negative."""
    rank = graph.metas[op.args[0]].rank
    axes = tuple(op.attrs["axis"] or range(rank))
    return tuple(sorted({a % rank for a in axes})) if rank else ()


def columns(graph: Graph, value: int) -> int:
    """How many elements a row of a value has."""
    return prod(graph.metas[value].shape[1:])
