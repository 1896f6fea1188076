"""Tensors made of numbers alone, and of random ones."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.empty_like")
def _(c: OpCall) -> Value:
    return c.b.full_like(c.x, value=0, dtype=c.dtype)


@decompose("pd_op.full_")
def _(c: OpCall) -> Value:
    return c.b.full(shape=c.shape, value=c.value, dtype=c.dtype)


@decompose("pd_op.assign_value_")
def _(c: OpCall) -> Value:
    return c.b.assign_value(shape=c.shape, dtype=c.dtype, values=c.values)


@decompose("pd_op.linspace")
def _(c: OpCall) -> Value:
    """The last value is exact."""
    b = c.b
    number: Any = c.number
    wide = dt.float64 if c.dtype.is_integer or c.dtype is dt.float64 else dt.float32
    start, stop = (b.cast(b.reshape(v, ()), wide) for v in (c.start, c.stop))
    one = b.const(1, dt.int64)
    if isinstance(number, Value):
        number = b.cast(b.reshape(number, ()), dt.int64)
        last = number - one
    else:
        last = b.const(number - 1, dt.int64)
    places = b.arange(start=0, end=number, step=1, dtype=dt.int64)
    step = (stop - start) / b.cast(b.maximum(last, one), wide)
    is_last = b.logical_and(b.equal(places, last), b.greater_equal(places, one))
    return b.cast(b.where(is_last, stop, b.cast(places, wide) * step + start), c.dtype)


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


@decompose("pd_op.truncated_gaussian_random")
def _(c: OpCall) -> Value:
    """The inverse of the distribution function, at a uniform number between its bounds."""
    b, mean, std = c.b, c.mean, c.std
    law = NormalDist(mean, std)
    least, most = c.a, c.op.attribute("b")
    low, high = law.cdf(least), law.cdf(most)
    drawn = b.uniform(
        shape=c.shape, min=low, max=high, dtype=dt.float64, seed=c.seed, place=c.place
    )
    inside = b.clip(drawn, min=float(np.finfo(np.float64).tiny), max=1 - 2.0**-53)
    number = b.erfinv(inside * 2 - 1) * (std * math.sqrt(2)) + mean
    return b.cast(b.clip(number, min=least, max=most), c.dtype)


@decompose("pd_op.exponential_")
def _(c: OpCall) -> Value:
    """The inverse of the distribution function, at a uniform number."""
    b, x = c.b, c.x
    shape = b.shape_of(x) if UNKNOWN in x.shape else x.shape
    drawn = b.uniform(shape=shape, min=0.0, max=1.0, dtype=dt.float64, seed=0)
    return b.cast(b.log1p(-drawn) * (-1 / c.lam), x.dtype)


@decompose("pd_op.dirichlet")
def _(c: OpCall) -> Value:
    drawn: Value = c.b.standard_gamma(c.alpha)
    return drawn / c.b.sum(drawn, (drawn.rank - 1,), keepdim=True)
