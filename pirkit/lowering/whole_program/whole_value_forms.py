"""Values without a batch axis as matmuls and as copies of blocks of elements.

Sums are products with ones; moves copy blocks. `whole_values.py` emits both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from msgspec import Struct

from pirkit.lowering.whole_program.axis_classes import summed
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op
from pirkit.lowering.whole_program.several_axes import runs

MAX_TERMS: Final = 1 << 20
"""Largest number of multiplications of a product; blocked kernels compute larger ones faster."""


class Matrix(Struct, frozen=True):
    """An operand of a product, by the distances of its axes in elements; ones if it has none."""

    value: int | None
    steps: tuple[int, int] = (0, 0)

    @property
    def transposed(self) -> Matrix:
        return Matrix(self.value, (self.steps[1], self.steps[0]))


class Product(Struct, frozen=True):
    """``rows`` x ``inner`` by ``inner`` x ``columns``."""

    rows: int
    inner: int
    columns: int
    left: Matrix
    right: Matrix

    @property
    def transposed(self) -> Product:
        left, right = self.right.transposed, self.left.transposed
        return Product(self.columns, self.inner, self.rows, left, right)


class Block(Struct, frozen=True):
    """Elements that are copied: first ones, and distances of axes in the source, in elements."""

    source: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    start: int = 0
    out_start: int = 0


def check_whole(graph: Graph, op: Op) -> None:
    """Raise NotNativeError for an op that `emit_whole` does not know."""
    if op.name in ("matmul", "sum"):
        made = product_of(graph, op)
        if made.rows * made.inner * made.columns > MAX_TERMS:
            raise NotNativeError(f"`{op.name}` of a value without a batch axis is too large")
    elif op.name == "choose" and any(arg == -1 for arg, _ in op.attrs["columns"]):
        raise NotNativeError("columns without a batch axis are moved beside constants")
    elif op.name not in BLOCKS:
        raise NotNativeError(f"`{op.name}` of a value without a batch axis has no native form")


def contiguous_steps(shape: Sequence[int]) -> tuple[int, ...]:
    """The distances of the axes of a contiguous tensor."""
    return tuple(accumulate(shape[:0:-1], lambda a, b: a * b, initial=1))[::-1][: len(shape)]


def product_of(graph: Graph, op: Op) -> Product:
    """A matmul, or a sum over the first or the last axes as a product with ones."""
    if op.name == "sum":
        meta, gone = graph.metas[op.args[0]], summed(graph, op)
        count = prod(meta.shape[k] for k in gone)
        left = meta.numel // count
        # the axes that are left, or gone, are one axis in memory: a row, or a column, of ones
        if gone == tuple(range(len(gone))):
            return Product(1, count, left, Matrix(None), Matrix(op.args[0], (left, 1)))
        if gone != tuple(range(meta.rank - len(gone), meta.rank)):
            raise NotNativeError("a value without a batch axis is summed over middle axes")
        return Product(left, count, 1, Matrix(op.args[0], (count, 1)), Matrix(None))
    x, y = (Matrix(a, (graph.metas[a].shape[1], 1)) for a in op.args)
    rows, inner = graph.metas[op.args[0]].shape
    if op.attrs["transpose_x"]:
        x, rows, inner = x.transposed, inner, rows
    y = y.transposed if op.attrs["transpose_y"] else y
    return Product(rows, inner, graph.metas[op.out].numel // rows, x, y)


def _expanded(graph: Graph, op: Op) -> Iterator[Block]:
    given, shape = graph.metas[op.args[0]].shape, graph.metas[op.out].shape
    # distance 0 repeats an element
    steps = [s if n > 1 else 0 for n, s in zip(given, contiguous_steps(given), strict=True)]
    yield Block(op.args[0], shape, (*[0] * (len(shape) - len(given)), *steps))


def _transposed(graph: Graph, op: Op) -> Iterator[Block]:
    steps = contiguous_steps(graph.metas[op.args[0]].shape)
    perm: Sequence[int] = op.attrs["perm"]
    yield Block(op.args[0], graph.metas[op.out].shape, tuple([steps[k] for k in perm]))


def _sliced(graph: Graph, op: Op) -> Iterator[Block]:
    given, start = graph.metas[op.args[0]].shape, 0
    steps = contiguous_steps(given)
    axes: Sequence[int] = op.attrs["axes"]
    for number, first in zip(axes, op.attrs["starts"], strict=True):
        axis = number % len(given)
        # negative starts count from the end
        start += slice(first, None).indices(given[axis])[0] * steps[axis]
    yield Block(op.args[0], graph.metas[op.out].shape, steps, start)


def _padded(graph: Graph, op: Op) -> Iterator[Block]:
    given, own = graph.metas[op.args[0]].shape, contiguous_steps(graph.metas[op.out].shape)
    before: Sequence[int] = op.attrs["paddings"][::2]
    start = sum(n * step for n, step in zip(before, own, strict=False))
    yield Block(op.args[0], given, contiguous_steps(given), 0, start)


def _joined(graph: Graph, op: Op) -> Iterator[Block]:
    own, start = contiguous_steps(graph.metas[op.out].shape), 0
    axis: int = op.attrs["axis"] % len(own)
    for arg in op.args:
        given = graph.metas[arg].shape
        yield Block(arg, given, contiguous_steps(given), 0, start)
        start += given[axis] * own[axis]


def _chosen(graph: Graph, op: Op) -> Iterator[Block]:
    rows = graph.metas[op.out].shape[0]
    for start, arg, first, count in runs(op.attrs["columns"]):
        value = op.args[arg]
        steps = contiguous_steps(graph.metas[value].shape)
        yield Block(value, (rows, count), (steps[0], 1), int(first), start)


BLOCKS: Final[Mapping[str, Callable[[Graph, Op], Iterator[Block]]]] = {
    "expand": _expanded,
    "transpose": _transposed,
    "slice": _sliced,
    "pad": _padded,
    "concat": _joined,
    "choose": _chosen,
}
