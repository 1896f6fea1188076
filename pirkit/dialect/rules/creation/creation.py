"""Tensors that are computed from attributes alone."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.size_ops import Size, as_shape, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType


@decompose("pd_op.empty_like")
def _(c: OpCall) -> Value:
    return c.b.full_like(c.x, value=0, dtype=c.dtype)


@decompose("pd_op.full_")
def _(c: OpCall) -> Value:
    return c.b.full(shape=c.shape, value=c.value, dtype=c.dtype)


@decompose("pd_op.assign_value_")
def _(c: OpCall) -> Value:
    return c.b.assign_value(shape=c.shape, dtype=c.dtype, values=c.values)


@decompose("pd_op.full_batch_size_like")
def _(c: OpCall) -> Value:
    sizes: list[Size] = [*c.shape]
    sizes[c.output_dim_idx] = sizes_of(c.b, c.input)[c.input_dim_idx]
    return c.b.expand(c.b.const(c.value, c.dtype), shape=as_shape(c.b, sizes))


@decompose("pd_op.linspace")
def _(c: OpCall) -> Value:
    wide = _width(c)
    start, stop = (c.b.cast(c.b.reshape(v, ()), wide) for v in (c.start, c.stop))
    return c.b.cast(_spaced(c.b, start, stop, c.number), c.dtype)


@decompose("pd_op.logspace")
def _(c: OpCall) -> Value:
    b, wide = c.b, _width(c)
    start, stop, base = (
        b.cast(b.cast(b.reshape(v, ()), c.dtype), wide) for v in (c.start, c.stop, c.base)
    )
    return b.cast(b.elementwise_pow(base, _spaced(b, start, stop, c.num)), c.dtype)


def _width(c: OpCall) -> DType:
    return dt.float64 if c.dtype.is_integer or c.dtype is dt.float64 else dt.float32


def _spaced(b: Builder, start: Value, stop: Value, number: Any) -> Value:
    """Numbers from ``start`` to ``stop``; the last is exact."""
    wide = start.dtype
    one = b.const(1, dt.int64)
    if isinstance(number, Value):
        number = b.cast(b.reshape(number, ()), dt.int64)
        last = number - one
    else:
        last = b.const(number - 1, dt.int64)
    places = b.arange(start=0, end=number, step=1, dtype=dt.int64)
    step = (stop - start) / b.cast(b.maximum(last, one), wide)
    is_last = b.logical_and(b.equal(places, last), b.greater_equal(places, one))
    return b.where(is_last, stop, b.cast(places, wide) * step + start)


@decompose("pd_op.tril_indices")
def _(c: OpCall) -> Value:
    return _indices(c, c.rows, c.cols, "pd_op.less_equal")


@decompose("pd_op.triu_indices")
def _(c: OpCall) -> Value:
    return _indices(c, c.row, c.col, "pd_op.greater_equal")


def _indices(c: OpCall, rows: int, columns: int, compare: str) -> Value:
    """Where in a matrix the columns compare with the rows and the offset."""
    b = c.b
    row, column = (b.arange(start=0, end=n, step=1, dtype=dt.int64) for n in (rows, columns))
    end = b.unsqueeze(row + b.const(c.offset, dt.int64), axis=(1,))
    places = b.nonzero(b(compare, b.unsqueeze(column, axis=(0,)), end))
    return b.cast(b.reshape(b.transpose(places, perm=(1, 0)), c.out.shape), c.dtype)


@decompose("pd_op.is_empty")
def _(c: OpCall) -> Value:
    return c.b.equal(c.b.numel(c.x), c.b.const(0, dt.int64))
