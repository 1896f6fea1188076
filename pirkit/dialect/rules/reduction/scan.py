"""Cumulative sums and products.

The derivative of a running product, and of the logarithm of a running sum of exponentials, is a
linear recurrence ``r[i] = g[i] + a[i] * r[i + 1]``. It is solved without a division, so zeros are
nothing special, at any order.
"""

from __future__ import annotations

from math import inf

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.elementwise.elementwise import analytic
from pirkit.dialect.rules.movement.movement import END, arange, part
from pirkit.dialect.rules.reduction.reduction import axes_of, unreduced
from pirkit.runtime.meta import UNKNOWN


@vjp("pd_op.prod")
@analytic
def _(c: OpCall, g: Value) -> Value:
    """The product of the other elements: of those before and of those after, in one row."""
    b, x = c.b, c.x
    axes = axes_of(x, () if c.reduce_all else c.axis)
    if not axes:
        return g
    g = unreduced(b, g, x, axes, c.keepdim)
    order = (*(i for i in range(x.rank) if i not in axes), *axes)
    rows = b.transpose(x, perm=order)
    flat = b.flatten(rows, start_axis=x.rank - len(axes), stop_axis=x.rank - 1)
    before = b.cumprod(flat, dim=-1, exclusive=True)
    trailing = b.cumprod(flat, dim=-1, exclusive=True, reverse=True)
    others = b.transpose(
        b.reshape_like(before * trailing, rows), perm=tuple(order.index(i) for i in range(x.rank))
    )
    return g * others


@vjp("pd_op.cumprod")
@analytic
def _(c: OpCall, g: Value) -> Value | None:
    """``dx[i]`` is the product before ``i`` times ``g[i] + x[i+1] * (g[i+1] + x[i+2] * ...)``."""
    b, x = c.b, c.x
    if not x.rank:
        return None if c.exclusive else g
    axis = c.dim % x.rank
    before = b.cumprod(x, dim=axis, exclusive=True, reverse=c.reverse)
    if c.exclusive:
        g = _shifted(b, g, axis, 1, c.reverse)
    factors = _shifted(b, x, axis, 1, c.reverse)
    return before * recurrence(b, factors, g, axis, reverse=c.reverse)


@vjp("pd_op.cumsum")
def _(c: OpCall, g: Value) -> Value:
    """From the other end."""
    b = c.b
    if c.flatten:
        g = b.reshape(g, (-1,))
    if not g.rank:
        return b.zeros_like(g) if c.exclusive else g
    return b.reshape_like(
        c.again(g, flatten=False, axis=0 if c.flatten else c.axis, reverse=not c.reverse), c.x
    )


@vjp("pd_op.logcumsumexp")
def _(c: OpCall, g: Value) -> Value:
    """``dx[i]`` sums ``g[k] * exp(x[i] - out[k])`` over what comes after; no exponent is positive.

    Where an exclusive scan has not met an element its result is constant.
    """
    b = c.b
    x = b.reshape_like(c.x, c.out)
    if not x.rank:
        return b.zeros_like(g) if c.exclusive else g
    axis = 0 if c.flatten else c.axis % x.rank
    out = c.out
    if c.exclusive:
        out = b.logcumsumexp(x, axis=axis, reverse=c.reverse)
        g = _shifted(b, g, axis, 1, c.reverse)
    later = _shifted(b, out, axis, 1, c.reverse)
    ends = _shifted(b, b.ones_like(out), axis, 1, c.reverse)
    has_later = b.greater_than(ends, b.zeros_like(ends))
    factors = b.exp(b.where(has_later, out - later, b.zeros_like(out)))
    found = b.exp(x - out) * recurrence(b, factors, g, axis, reverse=c.reverse)
    return b.reshape_like(found, c.x)


@decompose("pd_op.logcumsumexp")
def _(c: OpCall) -> Value:
    """By doubling: after each step an element covers twice as many."""
    b, out = c.b, c.out
    least = float(out.dtype.limits.min)
    x = b.reshape(c.x, (-1,)) if c.flatten else c.x
    if not x.rank:
        return b.ones_like(x) * least if c.exclusive else x
    axis = 0 if c.flatten else c.axis % x.rank
    size = x.shape[axis]
    backwards = not c.reverse
    if size == UNKNOWN:
        x = _logcumsumexp_of_any_size(b, x, axis, c.reverse)
    for step in _powers_of_two(size) if size != UNKNOWN else ():
        other = _shifted(b, x, axis, step, backwards, -inf)
        greater = b.maximum(x, other)
        x = _unless_infinite(b, greater, b.exp(x - greater) + b.exp(other - greater))
    # Shifted after the scan: the least number would be a summand that infinities do not absorb.
    return _shifted(b, x, axis, 1, backwards, least) if c.exclusive else x


def _logcumsumexp_of_any_size(b: Builder, x: Value, axis: int, reverse: bool) -> Value:
    """By a row for each place, which holds the elements that it covers."""
    last = (*(i for i in range(x.rank) if i != axis), axis)
    elements = b.unsqueeze(b.transpose(x, perm=last), axis=(-2,))
    places = arange(b, x, axis)
    row, column = b.unsqueeze(places, axis=(1,)), b.unsqueeze(places, axis=(0,))
    covers = b.greater_equal(column, row) if reverse else b.less_equal(column, row)
    rows = b.where(covers, elements, b.const(-inf, x.dtype))
    paddings = [0] * (2 * rows.rank - 1) + [1]
    never_empty = b.pad(rows, paddings=paddings, pad_value=-inf)
    greatest = b("pd_op.max", never_empty, axis=(-1,), keepdim=True)
    total = b.sum(b.where(covers, b.exp(rows - greatest), 0.0), (rows.rank - 1,))
    found = _unless_infinite(b, b.squeeze(greatest, axis=(-1,)), total)
    return b.transpose(found, perm=tuple(last.index(i) for i in range(x.rank)))


def _unless_infinite(b: Builder, greatest: Value, total: Value) -> Value:
    """``greatest + log(total)``; infinities stay, whose differences in ``total`` are NaN."""
    is_finite = b.isfinite(greatest)
    found = greatest + b.log(b.where(is_finite, total, 1.0))
    return b.where(is_finite, found, greatest)


def recurrence(b: Builder, a: Value, g: Value, axis: int, *, reverse: bool = False) -> Value:
    """The solution of ``r[i] = g[i] + a[i] * r[i + 1]``; with ``reverse``, of ``r[i - 1]``."""
    size = a.shape[axis]
    if size == UNKNOWN:
        return _recurrence_of_any_size(b, a, g, axis, reverse)
    steps = _powers_of_two(size)
    for step in steps:
        g = g + a * _shifted(b, g, axis, step, reverse)
        if step != steps[-1]:
            a = a * _shifted(b, a, axis, step, reverse)
    return g


def _recurrence_of_any_size(b: Builder, a: Value, g: Value, axis: int, reverse: bool) -> Value:
    """As a product with the triangular matrix of the products of ``a`` from ``i`` to ``k``."""
    last = (*(i for i in range(a.rank) if i != axis), axis)
    back = tuple(last.index(i) for i in range(a.rank))
    a, g = b.transpose(a, perm=last), b.transpose(g, perm=last)
    if reverse:
        a, g = b.flip(a, axis=(-1,)), b.flip(g, axis=(-1,))
    places = arange(b, a, a.rank - 1)
    row, column = b.unsqueeze(places, axis=(1,)), b.unsqueeze(places, axis=(0,))
    factors = b.unsqueeze(_shifted(b, a, a.rank - 1, 1, True), axis=(-2,))
    after, from_here = b.greater_than(column, row), b.greater_equal(column, row)
    products = b.cumprod(b.where(after, factors, b.ones_like(factors)), dim=-1)
    terms = products * b.unsqueeze(g, axis=(-2,))
    found = b.sum(b.where(from_here, terms, b.zeros_like(terms)), (terms.rank - 1,))
    found = b.flip(found, axis=(-1,)) if reverse else found
    return b.transpose(found, perm=back)


def _shifted(
    b: Builder, x: Value, axis: int, by: int, backwards: bool = False, fill: float = 0.0
) -> Value:
    """``x[i + by]`` at ``i``, or ``x[i - by]`` with ``backwards``; ``fill`` where there is none."""
    paddings = [0] * (2 * x.rank)
    paddings[2 * axis + (not backwards)] = by
    wide = b.pad(x, paddings=paddings, pad_value=fill)
    return part(b, wide, (axis,), *(((0,), (-by,)) if backwards else ((by,), (END,))))


def _powers_of_two(size: int) -> list[int]:
    return [1 << i for i in range(max(size - 1, 0).bit_length())]
