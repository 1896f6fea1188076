"""Taylor series of ops on arrays: products of several elements, and choices among them.

A choice follows the elements that are chosen; where several attain a maximum, their coefficients
are averaged, as their derivatives are.
"""

from __future__ import annotations

from typing import cast

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet
from pirkit.dialect.rules.reduction import axes_of, unreduced
from pirkit.dialect.rules.series import Coefficient, Series, product
from pirkit.runtime.meta import UNKNOWN


@jet("pd_op.max", "pd_op.min")
def _(c: OpCall, x: Series) -> Series:
    b, axes = c.b, axes_of(c.x, c.axis)
    attain = b.cast(b.equal(c.x, unreduced(b, c.out, c.x, axes, c.keepdim)), c.x.dtype)
    ties = b.expand_like(b.sum(attain, axes, keepdim=True), c.x)
    share = attain / ties
    return [None if v is None else b.sum(v * share, axes, keepdim=c.keepdim) for v in x]


def _chosen(c: OpCall, x: Series) -> tuple[Series, None]:
    """The coefficients at the places of the elements that were chosen."""
    places = c.result("indices")
    return [None if v is None else c.b.take_along_axis(v, places, axis=c.axis) for v in x], None


jet("pd_op.argsort", "pd_op.topk")(_chosen)


def _bilinear(c: OpCall, x: Series, y: Series) -> Series:
    first, second = c.tensors()
    return product(c.b, [first, *x], [second, *y], lambda p, q: c.again(p, q))[1:]


jet("pd_op.conv2d", "pd_op.conv3d")(_bilinear)


@jet("pd_op.scatter_nd_add")
def _(c: OpCall, x: Series, _index: Series, updates: Series) -> Series:
    def added(to: Coefficient, what: Coefficient) -> Coefficient:
        if what is None:
            return to
        return c.again(c.b.zeros_like(c.x) if to is None else to, c.index, what)

    return [added(p, q) for p, q in zip(x, updates, strict=True)]


@jet("pd_op.prod")
def _(c: OpCall, x: Series) -> Series:
    """Halves are multiplied with each other until one element is left; zeros do no harm."""
    axes = range(c.x.rank) if c.reduce_all else axes_of(c.x, c.axis)
    whole: Series = [c.x, *x]
    for axis in axes:
        whole = _multiplied(c, whole, axis)
    return [None if v is None else c.b.reshape(v, c.out.shape) for v in whole[1:]]


def _multiplied(c: OpCall, x: Series, axis: int) -> Series:
    """The series of the product along one axis, which stays with size one."""
    b, size = c.b, c.x.shape[axis]
    if size <= 0 or UNKNOWN in c.out.shape:
        raise UnsupportedError(
            f"`{c.definition.name}` along {'an unknown number of' if size else 'no'} elements has "
            "no Taylor series",
            code="PK0402",
            help="use nested `grad`",
        )

    def part(v: Coefficient, start: int, stop: int) -> Coefficient:
        return None if v is None else b.slice(v, axes=[axis], starts=[start], ends=[stop])

    while size > 1:
        half = size // 2
        low = [part(v, 0, half) for v in x]
        high = [part(v, half, 2 * half) for v in x]
        both = product(b, low, high, lambda p, q: p * q)
        if size % 2:
            last = [part(v, size - 1, size) for v in x]
            both = _joined(c, both, last, axis)
        x, size = both, half + size % 2
    return x


def _joined(c: OpCall, x: Series, y: Series, axis: int) -> Series:
    b = c.b

    def zeros(of: Series) -> Value:
        return b.zeros_like(cast(Value, of[0]))

    def join(p: Coefficient, q: Coefficient) -> Coefficient:
        if p is None and q is None:
            return None
        pair = [zeros(x) if p is None else p, zeros(y) if q is None else q]
        return b.concat(pair, axis=axis)

    return [join(p, q) for p, q in zip(x, y, strict=True)]
