"""Operations on values without a batch axis that are not elementwise: products, sums, and moves.

A program with the batch in lanes has a few small ones beside its rows: derivatives along unit
vectors are rows of the weights, and the nodes of a quadrature run through the network without the
points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Final

from pirkit.lowering.codegen.emit.memory_access import Memory, load, store
from pirkit.lowering.codegen.ir.llvm_text import I64, Value
from pirkit.lowering.codegen.math.casts import narrow
from pirkit.lowering.codegen.matmul.microkernel import Computed, microkernel
from pirkit.lowering.whole_program.axis_classes import summed
from pirkit.lowering.whole_program.lane_tiling import even_width, for_tiles, lane_mask
from pirkit.lowering.whole_program.op_graph import Graph, NotNativeError, Op
from pirkit.lowering.whole_program.several_axes import runs

if TYPE_CHECKING:
    from pirkit.lowering.whole_program.loop_emit import LoopEmitter

MAX_TERMS: Final = 1 << 20
"""Largest number of multiplications of a product; blocked kernels compute larger ones faster."""
_ROWS: Final = 4
"""Rows of a register tile, which has one vector of columns."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An operand of a product, by the distances of its axes in elements; ones if it has none."""

    value: int | None
    steps: tuple[int, int] = (0, 0)

    @property
    def transposed(self) -> _Matrix:
        return _Matrix(self.value, (self.steps[1], self.steps[0]))


@dataclass(frozen=True, slots=True)
class _Product:
    """``rows`` x ``inner`` by ``inner`` x ``columns``."""

    rows: int
    inner: int
    columns: int
    left: _Matrix
    right: _Matrix

    @property
    def transposed(self) -> _Product:
        left, right = self.right.transposed, self.left.transposed
        return _Product(self.columns, self.inner, self.rows, left, right)


@dataclass(frozen=True, slots=True)
class _Block:
    """Elements that are copied: first ones, and distances of axes in the source, in elements."""

    source: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    start: int = 0
    out_start: int = 0


def check_whole(graph: Graph, op: Op) -> None:
    """Raise NotNativeError for an op that `emit_whole` does not know."""
    if op.name in ("matmul", "sum"):
        made = _product(graph, op)
        if made.rows * made.inner * made.columns > MAX_TERMS:
            raise NotNativeError(f"a large `{op.name}` of what is no row")
    elif op.name == "choose" and any(arg == -1 for arg, _ in op.attrs["columns"]):
        raise NotNativeError("a choice of constants of what is no row")
    elif op.name not in _BLOCKS:
        raise NotNativeError(f"`{op.name}` of what is no row has no native form")


def emit_whole(w: LoopEmitter, op: Op) -> None:
    """Emit a product, a sum along axes, or copies of elements."""
    if op.name in ("matmul", "sum"):
        made = _product(w.graph, op)
        _emit_product(w, made if made.columns > 1 else made.transposed, op.out)
        return
    shape = w.graph.metas[op.out].shape
    if op.name == "pad":
        number = float(op.attrs["pad_value"])
        _emit_copy(w, op.out, _Block(-1, (prod(shape),), (0,)), (1,), number)
    for block in _BLOCKS[op.name](w.graph, op):
        _emit_copy(w, op.out, block, _steps(shape))


def _steps(shape: Sequence[int]) -> tuple[int, ...]:
    """The distances of the axes of a contiguous tensor."""
    return tuple(accumulate(shape[:0:-1], lambda a, b: a * b, initial=1))[::-1][: len(shape)]


def _product(graph: Graph, op: Op) -> _Product:
    """A matmul, or a sum over the first or the last axes as a product with ones."""
    if op.name == "sum":
        meta, gone = graph.metas[op.args[0]], summed(graph, op)
        count = prod(meta.shape[k] for k in gone)
        left = meta.numel // count
        if gone == tuple(range(len(gone))):
            return _Product(1, count, left, _Matrix(None), _Matrix(op.args[0], (left, 1)))
        if gone != tuple(range(meta.rank - len(gone), meta.rank)):
            raise NotNativeError("a sum over axes in the middle of what is no row")
        return _Product(left, count, 1, _Matrix(op.args[0], (count, 1)), _Matrix(None))
    x, y = (_Matrix(a, (graph.metas[a].shape[1], 1)) for a in op.args)
    rows, inner = graph.metas[op.args[0]].shape
    if op.attrs["transpose_x"]:
        x, rows, inner = x.transposed, inner, rows
    y = y.transposed if op.attrs["transpose_y"] else y
    return _Product(rows, inner, graph.metas[op.out].numel // rows, x, y)


def _emit_product(w: LoopEmitter, product: _Product, out: int) -> None:
    b, dtype = w.b, w.graph.dtype(out)
    size, type_ = dtype.itemsize, w.type_of(dtype, w.lanes)

    def tile(row: Value, rows: int, column: Value, columns: int) -> None:
        mask = None if columns == w.lanes else lane_mask(b, w.lanes, Value(str(columns), I64))

        def scalars(indices: Sequence[Value]) -> Iterator[Value]:
            for k in range(rows):
                at = (b.plus(row, k), indices[0])
                yield _element(w, product.left.value, at, product.left.steps)

        def vectors(indices: Sequence[Value]) -> Iterator[Value]:
            value, steps = product.right.value, product.right.steps
            if value is None or value in w.graph.fills:
                yield _element(w, value, (), ())
                return
            memory = Memory(_address(w, value, (*indices, column), steps), steps[1] * size)
            yield load(b, dtype, memory, w.lanes, mask)

        zeros = [b.const(type_, 0.0)] * rows
        left, right = Computed(scalars), Computed(vectors)
        for k, total in enumerate(microkernel(b, left, right, [product.inner], zeros)):
            at = _address(w, out, (b.plus(row, k), column), (product.columns, 1))
            store(b, narrow(b, total, dtype), dtype, Memory(at, size), mask)

    def line(row: Value, rows: int) -> None:
        for_tiles(b, product.columns, w.lanes, lambda column, n: tile(row, rows, column, n))

    for_tiles(b, product.rows, even_width(product.rows, _ROWS), line)


def _address(w: LoopEmitter, value: int, at: Sequence[Value], steps: Sequence[int]) -> Value:
    size, address = w.graph.dtype(value).itemsize, w.pointer(value)
    for index, step in zip(at, steps, strict=True):
        address = w.b.at(address, w.b.times(index, step * size))
    return address


def _element(
    w: LoopEmitter, value: int | None, at: Sequence[Value], steps: Sequence[int]
) -> Value:  # fmt: skip
    """One element in all lanes; 1 without a value."""
    if value is None:
        return w.b.const(w.type_of(w.dtype, w.lanes), 1.0)
    if value in w.graph.fills:
        return w.fill(value, w.lanes)
    memory = Memory(_address(w, value, at, steps), 0)
    return w.b.splat(load(w.b, w.graph.dtype(value), memory, 1, None), w.lanes)


# --- copies ---


def _emit_copy(
    w: LoopEmitter, out: int, block: _Block, out_steps: Sequence[int], number: float = 0.0
) -> None:
    """Copy a block, a vector along its last axis at a time, or fill it with a number."""
    b, dtype = w.b, w.graph.dtype(out)
    size = dtype.itemsize
    shape, steps, own = block.shape or (1,), block.steps or (1,), out_steps or (1,)

    def vector(outer: list[Value], column: Value, columns: int) -> None:
        mask = None if columns == w.lanes else lane_mask(b, w.lanes, Value(str(columns), I64))
        at = [*outer, column]
        if block.source == -1:
            made = b.const(w.type_of(dtype, w.lanes), number)
        elif block.source in w.graph.fills:
            made = w.fill(block.source, w.lanes)
        else:
            start = b.at(_address(w, block.source, at, steps), block.start * size)
            made = load(b, dtype, Memory(start, steps[-1] * size), w.lanes, mask)
            made = b.splat(made, w.lanes) if made.type.lanes == 1 else made
        target = b.at(_address(w, out, at, own), block.out_start * size)
        store(b, narrow(b, made, dtype), dtype, Memory(target, own[-1] * size), mask)

    def axis(outer: list[Value]) -> None:
        if len(outer) == len(shape) - 1:
            for_tiles(b, shape[-1], w.lanes, lambda column, n: vector(outer, column, n))
        else:
            w.column_loop(shape[len(outer)], lambda index: axis([*outer, index]))

    axis([])


def _expanded(graph: Graph, op: Op) -> Iterator[_Block]:
    given, shape = graph.metas[op.args[0]].shape, graph.metas[op.out].shape
    steps = [s if n > 1 else 0 for n, s in zip(given, _steps(given), strict=True)]
    yield _Block(op.args[0], shape, (*[0] * (len(shape) - len(given)), *steps))


def _transposed(graph: Graph, op: Op) -> Iterator[_Block]:
    steps = _steps(graph.metas[op.args[0]].shape)
    perm: Sequence[int] = op.attrs["perm"]
    yield _Block(op.args[0], graph.metas[op.out].shape, tuple([steps[k] for k in perm]))


def _sliced(graph: Graph, op: Op) -> Iterator[_Block]:
    given, start = graph.metas[op.args[0]].shape, 0
    steps = _steps(given)
    axes: Sequence[int] = op.attrs["axes"]
    for number, first in zip(axes, op.attrs["starts"], strict=True):
        axis = number % len(given)
        start += slice(first, None).indices(given[axis])[0] * steps[axis]
    yield _Block(op.args[0], graph.metas[op.out].shape, steps, start)


def _padded(graph: Graph, op: Op) -> Iterator[_Block]:
    given, own = graph.metas[op.args[0]].shape, _steps(graph.metas[op.out].shape)
    before: Sequence[int] = op.attrs["paddings"][::2]
    start = sum(n * step for n, step in zip(before, own, strict=False))
    yield _Block(op.args[0], given, _steps(given), 0, start)


def _joined(graph: Graph, op: Op) -> Iterator[_Block]:
    own, start = _steps(graph.metas[op.out].shape), 0
    axis: int = op.attrs["axis"] % len(own)
    for arg in op.args:
        given = graph.metas[arg].shape
        yield _Block(arg, given, _steps(given), 0, start)
        start += given[axis] * own[axis]


def _chosen(graph: Graph, op: Op) -> Iterator[_Block]:
    rows = graph.metas[op.out].shape[0]
    for start, arg, first, count in runs(op.attrs["columns"]):
        value = op.args[arg]
        steps = _steps(graph.metas[value].shape)
        yield _Block(value, (rows, count), (steps[0], 1), int(first), start)


_BLOCKS: Final[Mapping[str, Callable[[Graph, Op], Iterator[_Block]]]] = {
    "expand": _expanded,
    "transpose": _transposed,
    "slice": _sliced,
    "pad": _padded,
    "concat": _joined,
    "choose": _chosen,
}
