"""Norms of vectors, and logarithms of sums. At the zero vector a norm has the derivative zero."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.reduction.reduction import axes_of, unreduced
from pirkit.runtime import dtype as dt


@decompose("pd_op.p_norm")
def _(c: OpCall) -> Value:
    b, order = c.b, c.porder
    x = b.wide(c.x)
    axes = axes_of(x, () if c.asvector else (c.axis,))
    found = _norm(b, x, order, axes, c.keepdim)
    return b.cast(found, c.x.dtype)


def _norm(b: Builder, x: Value, order: float, axes: Sequence[int], keepdim: bool) -> Value:
    if 0 in [x.shape[a] for a in axes]:
        return b.sum(x, axes, keepdim=keepdim)
    if order == 2:
        return euclidean(b, x, axes, keepdim)
    if order == 0:
        return b.sum(b.cast(b.not_equal(x, b.zeros_like(x)), x.dtype), axes, keepdim=keepdim)
    size = b.abs(x)
    if math.isinf(order):
        name = "pd_op.max" if order > 0 else "pd_op.min"
        return b(name, size, axis=tuple(axes), keepdim=keepdim) if axes else size
    if order == 1:
        return b.sum(size, axes, keepdim=keepdim)
    is_zero = b.equal(size, b.zeros_like(size))
    powers = b.where(is_zero, _power_of_zero(b, size, order), b.where(is_zero, 1.0, size) ** order)
    return _root(b, b.sum(powers, axes, keepdim=keepdim), 1 / order)


def _power_of_zero(b: Builder, like: Value, order: float) -> Value:
    return b.like(0.0 if order > 0 else math.inf, like)


def euclidean(b: Builder, x: Value, axes: Sequence[int], keepdim: bool = False) -> Value:
    """The root of the sum of squares."""
    return _root(b, b.sum(x * x, axes, keepdim=keepdim), 0.5)


def _root(b: Builder, total: Value, exponent: float) -> Value:
    """A power of a sum, constant where the sum is zero."""
    zero = b.zeros_like(total)
    is_zero = b.equal(total, zero)
    safe = b.where(is_zero, b.ones_like(total), total)
    root = b.sqrt(safe) if exponent == 0.5 else safe**exponent
    return b.where(is_zero, zero if exponent > 0 else math.inf, root)


@decompose("pd_op.frobenius_norm")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.wide(c.x)
    axes = axes_of(x, () if c.reduce_all else c.axis)
    return b.cast(euclidean(b, x, axes, c.keep_dim), c.x.dtype)


@decompose("pd_op.norm")
def _(c: OpCall) -> tuple[Value, Value]:
    b, x = c.b, c.b.wide(c.x)
    squares = b.sum(x * x, axes_of(x, (c.axis,)), keepdim=True)
    length = b.sqrt(squares + c.epsilon)
    return b.cast(x / length, c.x.dtype), b.cast(length, c.x.dtype)


@decompose("pd_op.logsumexp")
def _(c: OpCall) -> Value:
    """The greatest element is subtracted first, where it is finite."""
    b = c.b
    given = c.x if c.x.dtype in dt.FLOATS else b.cast(c.x, dt.float32)
    x = b.wide(given)
    axes = axes_of(x, () if c.reduce_all else c.axis)
    if not axes:
        return given
    if 0 in [x.shape[a] for a in axes]:
        return b.cast(b.log(b.sum(b.exp(x), axes, keepdim=c.keepdim)), given.dtype)
    top = b("pd_op.max", x, axis=axes, keepdim=True)
    top = b.where(b.isfinite(top), top, b.zeros_like(top))
    total = b.log(b.sum(b.exp(x - top), axes, keepdim=True)) + top
    return b.cast(total if c.keepdim else b.squeeze(total, axis=axes), given.dtype)


@vjp("pd_op.logsumexp")
def _(c: OpCall, g: Value) -> Value:
    b, x = c.b, c.x
    axes = axes_of(x, () if c.reduce_all else c.axis)
    out = unreduced(b, c.out, x, axes, c.keepdim)
    return unreduced(b, g, x, axes, c.keepdim) * b.exp(x - out)


@decompose("pd_op.clip_by_norm")
def _(c: OpCall) -> Value:
    """``x * (max_norm / max(norm, max_norm))``: the factor of a short vector is exactly 1."""
    b, x = c.b, c.b.wide(c.x)
    norm = euclidean(b, x, tuple(range(x.rank)))
    most = b.const(c.max_norm, x.dtype)
    longer = b.where(b.greater_than(norm, most), norm, most)
    return b.cast(x * (most / longer), c.x.dtype)


@decompose("pd_op.renorm")
def _(c: OpCall) -> Value:
    b, x = c.b, c.b.wide(c.x)
    if 0 in x.shape:
        return c.x
    others = tuple(i for i in range(x.rank) if i != c.axis % x.rank)
    norm = _norm(b, x, c.p, others, True)
    most = b.const(c.max_norm, x.dtype)
    longer = b.greater_than(norm, most)
    return b.cast(b.where(longer, x * (most / b.where(longer, norm, most)), x), c.x.dtype)


@decompose("pd_op.dist")
def _(c: OpCall) -> Value:
    b = c.b
    difference = b.wide(c.x) - b.wide(c.y)
    return b.cast(_norm(b, difference, c.p, tuple(range(difference.rank)), False), c.x.dtype)
