"""Diagonals and triangles, in terms of index comparisons."""

from __future__ import annotations

from typing import Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import arange
from pirkit.dialect.rules.movement.size_ops import Size, as_list, in_shape, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

_INT32: Final = 2**31 - 1


@decompose("pd_op.tril", "pd_op.triu")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    row, column = _places(b, x, (x.rank - 2, x.rank - 1), c.diagonal)
    lower = c.definition.name == "pd_op.tril"
    end = row + b.const(c.diagonal, row.dtype)
    in_triangle = b.less_equal(column, end) if lower else b.greater_equal(column, end)
    return b.where(in_triangle, x, b.const(0, x.dtype))


def _places(
    b: Builder, x: Value, axes: tuple[int, int], offset: int
) -> tuple[Value, Value]:  # fmt: skip
    """Row and column of each element of matrices, whose sizes are those of two axes of ``x``; in
    int32 if their sums with the offset are.
    """
    sizes = [x.shape[axis] for axis in axes]
    if UNKNOWN in sizes or max(sizes) + abs(offset) > _INT32:
        row, column = (arange(b, x, axis) for axis in axes)
    else:  # a vector of comparisons is as long as one of floats
        row, column = (b.arange(start=0, end=n, step=1, dtype=dt.int32) for n in sizes)
    return b.unsqueeze(row, axis=(1,)), b.unsqueeze(column, axis=(0,))


@decompose("pd_op.diagonal")
def _(c: OpCall) -> Value:
    """The matrices become rows, of which every (columns + 1)-th element is read."""
    b, x, offset = c.b, c.x, c.offset
    gone = (c.axis1 % x.rank, c.axis2 % x.rank)
    x = b.transpose(x, perm=(*(i for i in range(x.rank) if i not in gone), *gone))
    rows, columns = sizes_of(b, x)[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    length = _least(b, _less(b, rows, down), _less(b, columns, right))
    if isinstance(length, int) and isinstance(columns, int) and length:
        flat = b.flatten(x, start_axis=x.rank - 2, stop_axis=x.rank - 1)
        return _every(b, flat, down * columns + right, columns + 1, length)
    end = length if isinstance(length, int) else b.reshape(length, ())
    at = b.arange(start=0, end=end, step=1, dtype=dt.int64)
    places = (at + b.const(down, dt.int64)) * as_list(b, columns) + at + b.const(right, dt.int64)
    flat = b.flatten(x, start_axis=x.rank - 2, stop_axis=x.rank - 1)
    return b.gather(flat, places, axis=x.rank - 2)


def _every(b: Builder, x: Value, start: int, step: int, count: int) -> Value:
    """Some elements along the last axis, ``step`` apart: a column of a matrix, and the last one."""
    axis, last = x.rank - 1, start + (count - 1) * step
    found = b.slice(x, axes=(axis,), starts=(last,), ends=(last + 1,))
    if count == 1:
        return found
    table = b.slice(x, axes=(axis,), starts=(start,), ends=(last,))
    table = in_shape(b, table, (*sizes_of(b, x)[:-1], count - 1, step))
    column = b.slice(table, axes=(axis + 1,), starts=(0,), ends=(1,))
    return b.concat([b.squeeze(column, axis=(axis + 1,)), found], axis=axis)


def _less(b: Builder, size: Size, by: int) -> Size:
    """``size - by``, at least 0."""
    if isinstance(size, int):
        return max(size - by, 0)
    return b.maximum(size - b.integers((by,)), b.integers((0,)))


def _least(b: Builder, one: Size, other: Size) -> Size:
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other)
    return b.minimum(as_list(b, one), as_list(b, other))


@decompose("pd_op.trace")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    found = b.diagonal(x, offset=c.offset, axis1=c.axis1, axis2=c.axis2)
    return b("pd_op.sum", found, axis=(-1,), dtype=x.dtype, keepdim=False)


@decompose("pd_op.diag")
def _(c: OpCall) -> Value:
    b, x = c.b, c.x
    if x.rank == 2:
        return b.diagonal(x, offset=c.offset, axis1=0, axis2=1)
    return _diagonal_matrix(b, x if x.rank else b.reshape(x, (1,)), c.offset, c.padding_value)


@decompose("pd_op.diag_embed")
def _(c: OpCall) -> Value:
    b, x = c.b, c.operand("input")
    found = _diagonal_matrix(b, x, c.offset, 0)
    first, second = c.dim1 % found.rank, c.dim2 % found.rank
    order = iter(range(found.rank - 2))
    placed = {first: found.rank - 2, second: found.rank - 1}
    perm = tuple(placed[i] if i in placed else next(order) for i in range(found.rank))
    return b.transpose(found, perm=perm)


def _diagonal_matrix(b: Builder, x: Value, offset: int, padding: float) -> Value:
    """Matrices with the last dimension of ``x`` on a diagonal."""
    wide = b.pad(x, paddings=[0] * (2 * x.rank - 1) + [abs(offset)], pad_value=0.0)
    row, column = _places(b, wide, (x.rank - 1, x.rank - 1), offset)
    is_diagonal = b.equal(column - row, b.const(offset, row.dtype))
    as_columns = b.unsqueeze(wide, axis=(-1,) if offset >= 0 else (-2,))
    return b.where(is_diagonal, as_columns, b.const(padding, x.dtype))


@decompose("pd_op.fill_diagonal_tensor")
def _(c: OpCall) -> Value:
    """Each row reads its element of `y`; rows without a diagonal read one that is not used."""
    b, x, offset = c.b, c.x, c.offset
    first, second = c.dim1 % x.rank, c.dim2 % x.rank
    others = [i for i in range(x.rank) if i not in (first, second)]
    perm = (*others, first, second)
    front = b.transpose(x, perm=perm)
    y = c.y if x.rank > 2 else b.reshape(c.y, (-1,))
    if y.shape[-1] == 0:
        return x
    if y.shape[-1] == UNKNOWN:  # perhaps empty: one more element that rows may read
        y = b.pad(y, paddings=[0] * (2 * y.rank - 1) + [1], pad_value=0.0)
    row, column = _places(b, front, (x.rank - 2, x.rank - 1), offset)
    is_diagonal = b.equal(column - row, b.const(offset, row.dtype))
    along = b.cast(row, dt.int64) + b.const(min(offset, 0), dt.int64)
    length = as_list(b, sizes_of(b, y)[-1])
    at = b.minimum(b.maximum(along, b.zeros_like(along)), length - b.integers((1,)))
    as_columns = b.unsqueeze(b.gather(y, b.reshape(at, (-1,)), axis=y.rank - 1), axis=(-1,))
    out = b.where(is_diagonal, as_columns, front)
    return b.transpose(out, perm=tuple(perm.index(i) for i in range(x.rank)))
