"""Reductions: their derivatives, and means in terms of sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.size_ops import shape_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


def axes_of(x: Value, axis: Sequence[int]) -> tuple[int, ...]:
    """The axes of a reduction counted from the front; all for an empty list."""
    return tuple(sorted(a % x.rank for a in axis)) if axis and x.rank else tuple(range(x.rank))


def unreduced(b: Builder, g: Value, like: Value, axis: Sequence[int], keepdim: bool) -> Value:
    """The cotangent of a reduction's result, with the reduced axes back and spread over them."""
    axes = axes_of(like, axis)
    if not keepdim and axes and g.rank != like.rank:
        g = b.unsqueeze(g, axis=axes)
    return b.expand_like(g, like)


def count(b: Builder, x: Value, axes: Sequence[int]) -> Value | int:
    """How many elements are reduced; a number where the program tells."""
    sizes = [x.shape[a] for a in axes]
    if UNKNOWN not in sizes:
        return prod(sizes)
    picked = b.gather(b.shape_of(x), b.integers(axes), axis=0)
    return b.cast(b.prod(picked, axis=(), keepdim=False, reduce_all=True), x.dtype)


def unreduced_dynamic(b: Builder, g: Value, like: Value, axis: Value, keepdim: bool) -> Value:
    """As :func:`unreduced`, for axes that are known only when the program runs."""
    if not keepdim and g.rank and g.rank != like.rank:
        places = from_front(b, axis, like)
        keepdim_shape = b.put_along_axis(_sizes(b, like), places, b.ones_like(places), axis=0)
        g = b.reshape(g, keepdim_shape)
    return b.expand_like(g, like)


def from_front(b: Builder, axis: Value, x: Value) -> Value:
    """Computed axes of ``x``, counted from the front."""
    return b.remainder(b.cast(axis, dt.int64), b.const(x.rank, dt.int64))


def _dynamic_axes(c: OpCall) -> Value | None:
    """The axes, if there are some that are known only when the program runs."""
    axis: Any = c.axis
    return axis if isinstance(axis, Value) and axis.shape != (0,) else None


def _sizes(b: Builder, x: Value) -> Value:
    sizes = shape_of(b, x)
    return sizes if isinstance(sizes, Value) else b.integers(sizes)


@vjp("pd_op.sum")
def _(c: OpCall, g: Value) -> Value:
    dynamic_axes = _dynamic_axes(c)
    if dynamic_axes is not None:
        return c.b.cast(unreduced_dynamic(c.b, g, c.x, dynamic_axes, c.keepdim), c.x.dtype)
    return c.b.cast(unreduced(c.b, g, c.x, c.axis, c.keepdim), c.x.dtype)


@vjp("pd_op.reduce_as")
def _(c: OpCall, g: Value) -> tuple[Value, None]:
    return c.b.expand_like(g, c.x), None


@vjp("pd_op.expand")
def _(c: OpCall, g: Value) -> Value:
    return c.b.sum_to(g, c.x)


@decompose("pd_op.mean")
def _(c: OpCall) -> Value:
    """Integers truncate; of truth values it is whether any holds."""
    b, x = c.b, c.x
    if x.dtype is dt.bool_:
        return b.any(x, axis=c.axis, keepdim=c.keepdim)
    dynamic_axes = _dynamic_axes(c)
    if dynamic_axes is not None and not x.dtype.is_integer:
        return _mean_dynamic(c, dynamic_axes)
    axes = axes_of(x, c.axis)
    if x.dtype.is_integer:
        total = b.sum(b.cast(x, dt.float64), axes, keepdim=c.keepdim)  # which may leave int64
        number = b.value(count(b, b.cast(x, dt.float64), axes), total)
        return b.cast(b.trunc(total / b.maximum(number, b.value(1, total))), x.dtype)
    wide = b.wide(x)
    total = b.sum(wide, axes, keepdim=c.keepdim)
    return b.cast(total / count(b, wide, axes), x.dtype)


def _mean_dynamic(c: OpCall, axis: Value) -> Value:
    b, wide = c.b, c.b.wide(c.x)
    total = b("pd_op.sum", wide, axis=axis, dtype=None, keepdim=c.keepdim)
    picked = b.gather(_sizes(b, wide), from_front(b, axis, wide), axis=0)
    number = b.prod(picked, axis=(), keepdim=False, reduce_all=True)
    return b.cast(total / b.cast(number, wide.dtype), c.x.dtype)


@vjp("pd_op.max", "pd_op.min")
def _(c: OpCall, g: Value) -> Value:
    """The elements that attain the extremum share the cotangent evenly."""
    b, x = c.b, c.x
    axes = axes_of(x, c.axis)
    out = unreduced(b, c.out, x, axes, c.keepdim)
    attain = b.cast(b.equal(x, out), x.dtype)
    ties = b.expand_like(b.sum(attain, axes, keepdim=True), x)
    return unreduced(b, g, x, axes, c.keepdim) * (attain / ties)


@decompose("pd_op.amax", "pd_op.amin")
def _(c: OpCall) -> Value:
    name = c.definition.name.replace(".a", ".")
    return c.b(name, c.x, axis=c.axis, keepdim=c.keepdim)
