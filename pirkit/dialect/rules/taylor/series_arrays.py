"""Taylor series of ops on arrays: products of several elements, and selections among them.

A choice follows the elements that are chosen; where several attain a maximum, their coefficients
are averaged, as their derivatives are.
"""

from __future__ import annotations

from typing import cast

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import jet
from pirkit.dialect.rules.movement.size_ops import in_shape, sizes_of
from pirkit.dialect.rules.reduction.reduction import axes_of, unreduced
from pirkit.dialect.rules.taylor.series import Coefficient, Series, product
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@jet("pd_op.max", "pd_op.min")
def _(c: OpCall, x: Series) -> Series:
    b, axes = c.b, axes_of(c.x, c.axis)
    attain = b.cast(b.equal(c.x, unreduced(b, c.out, c.x, axes, c.keepdim)), c.x.dtype)
    ties = b.expand_like(b.sum(attain, axes, keepdim=True), c.x)
    share = attain / ties
    return [None if v is None else b.sum(v * share, axes, keepdim=c.keepdim) for v in x]


def _chosen(c: OpCall, x: Series) -> tuple[Series, None]:
    """The coefficients at the indices of the selected elements."""
    places = c.result("indices")
    return [None if v is None else c.b.take_along_axis(v, places, axis=c.axis) for v in x], None


jet("pd_op.argsort", "pd_op.topk", "pd_op.cummax", "pd_op.cummin")(_chosen)


@jet(
    "pd_op.max_pool2d_with_index", "pd_op.max_pool3d_with_index",
    "pd_op.fractional_max_pool2d", "pd_op.fractional_max_pool3d",
)  # fmt: skip
def _(c: OpCall, x: Series) -> tuple[Series, None]:
    """The coefficients at the indices; where a window has no element its result is constant."""
    b, images = c.b, sizes_of(c.b, c.x)[:2]
    places = in_shape(b, b.cast(c.mask, dt.int64), [*images, -1])
    places = b.maximum(places, b.zeros_like(places))

    def taken(v: Value) -> Value:
        found = b.take_along_axis(in_shape(b, v, [*images, -1]), places, axis=2)
        return b.where(c.mask < 0, 0.0, b.reshape_like(found, c.out))

    return [None if v is None else taken(v) for v in x], None


def _bilinear(c: OpCall, x: Series, y: Series) -> Series:
    first, second = c.tensors()
    return product(c.b, [first, *x], [second, *y], lambda p, q: c.again(p, q))[1:]


jet("pd_op.conv2d", "pd_op.conv3d", "pd_op.conv2d_transpose", "pd_op.conv3d_transpose")(_bilinear)


@jet("pd_op.put_along_axis")
def _(c: OpCall, x: Series, _index: Series, values: Series) -> Series:
    """Overwriting and adding are linear in both operands; other reductions have no series."""
    if c.reduce not in ("assign", "add"):
        raise UnsupportedError(
            f"`{c.definition.name}` that reduces by {c.reduce!r} has no Taylor series",
            code="PK0402",
            help="use nested `grad`",
        )

    def written(to: Coefficient, what: Coefficient) -> Coefficient:
        if to is None and what is None:
            return None
        pair = (to, c.arr), (what, c.operand("values"))
        into, new = (c.b.zeros_like(o) if v is None else v for v, o in pair)
        return c.again(into, c.indices, new)

    return [written(p, q) for p, q in zip(x, values, strict=True)]


@jet("pd_op.cumprod")
def _(c: OpCall, x: Series) -> Series:
    """Cumulative product by doubling: runs of 1, 2, 4... elements times the preceding run."""
    b, axis, size = c.b, c.dim % max(c.x.rank, 1), c.x.shape[c.dim] if c.x.rank else 1
    if size == UNKNOWN:
        raise _unsized(c)
    if not c.x.rank:
        return [None] * len(x) if c.exclusive else x
    run: Series = [c.x, *x]
    if c.reverse:
        run = [None if v is None else b.flip(v, axis=(axis,)) for v in run]
    if c.exclusive:
        run = _moved(c, run, axis, 1)
    length = 1
    while length < size:
        run = product(b, run, _moved(c, run, axis, length), lambda p, q: p * q)
        length *= 2
    if c.reverse:
        run = [None if v is None else b.flip(v, axis=(axis,)) for v in run]
    return run[1:]


def _moved(c: OpCall, x: Series, axis: int, by: int) -> Series:
    """Elements moved back along an axis; in front of them are ones."""
    b, size = c.b, c.x.shape[axis]
    by = min(by, size)

    def move(v: Coefficient, fill: float) -> Coefficient:
        if v is None:
            return None
        remaining = b.slice(v, axes=[axis], starts=[0], ends=[size - by])
        pads = [0] * (2 * c.x.rank)
        pads[2 * axis] = by
        return b.pad(remaining, paddings=tuple(pads), pad_value=fill)

    return [move(v, 0.0 if k else 1.0) for k, v in enumerate(x)]


@jet("pd_op.scatter_nd_add")
def _(c: OpCall, x: Series, _index: Series, updates: Series) -> Series:
    def added(to: Coefficient, what: Coefficient) -> Coefficient:
        if what is None:
            return to
        return c.again(c.b.zeros_like(c.x) if to is None else to, c.index, what)

    return [added(p, q) for p, q in zip(x, updates, strict=True)]


@jet("pd_op.prod")
def _(c: OpCall, x: Series) -> Series:
    """Product by halving until one element is left; it divides by nothing, so zeros are fine."""
    axes = range(c.x.rank) if c.reduce_all else axes_of(c.x, c.axis)
    with_value: Series = [c.x, *x]
    for axis in axes:
        with_value = _multiplied(c, with_value, axis)
    return [None if v is None else c.b.reshape(v, c.out.shape) for v in with_value[1:]]


def _multiplied(c: OpCall, x: Series, axis: int) -> Series:
    """The series of the product along one axis, which stays with size one."""
    b, size = c.b, c.x.shape[axis]
    if size <= 0 or UNKNOWN in c.out.shape:
        raise _unsized(c, "an unknown number of" if size else "no")

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


def _unsized(c: OpCall, count: str = "an unknown number of") -> UnsupportedError:
    return UnsupportedError(
        f"`{c.definition.name}` along {count} elements has no Taylor series",
        code="PK0402",
        help="use nested `grad`",
    )


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
