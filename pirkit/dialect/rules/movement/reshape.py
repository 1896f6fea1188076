"""Ops that change only the shape, in terms of `reshape`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.movement.size_ops import Size, in_shape, product, sizes_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@vjp("pd_op.reshape", "pd_op.squeeze", "pd_op.unsqueeze", "pd_op.flatten")
def _(c: OpCall, g: Value) -> Value:
    return c.b.reshape_like(g, c.x)


@decompose("pd_op.squeeze")
def _(c: OpCall) -> Value:
    """A dimension that is named and unknown is taken to be 1, as the type of the result says."""
    x, axis = c.x, c.axis
    if isinstance(axis, Value):
        return NotImplemented
    given = {a % x.rank for a in axis} if x.rank else set[int]()
    gone = {i for i in (given or range(x.rank)) if x.shape[i] == 1}
    gone |= {i for i in given if x.shape[i] == UNKNOWN}
    sizes = sizes_of(c.b, x)
    return _shaped(c, [sizes[i] for i in range(x.rank) if i not in gone])


@decompose("pd_op.unsqueeze")
def _(c: OpCall) -> Value:
    if isinstance(c.axis, Value):
        return NotImplemented
    sizes = sizes_of(c.b, c.x)
    for axis in c.axis:
        sizes.insert(axis % (len(sizes) + 1), 1)
    return _shaped(c, sizes)


@decompose("pd_op.flatten")
def _(c: OpCall) -> Value:
    b, x, rank = c.b, c.x, c.x.rank
    if not rank:
        return b.reshape(x, (1,))
    start, stop = c.start_axis % rank, c.stop_axis % rank
    sizes = sizes_of(b, x)
    joined = reduce(partial(product, b), sizes[start : stop + 1])
    return _shaped(c, [*sizes[:start], joined, *sizes[stop + 1 :]])


def _shaped(c: OpCall, sizes: Sequence[Size]) -> Value:
    known = c.out.shape
    return in_shape(c.b, c.x, sizes) if UNKNOWN in known else c.b.reshape(c.x, known)


# --- gradient ops whose forward op no static program has -----------------------------------------


@decompose("pd_op.view_shape_grad")
def _(c: OpCall) -> Value:
    return c.b.reshape_like(c.out_grad, c.operand("input"))


@decompose("pd_op.reverse_grad")
def _(c: OpCall) -> Value:
    if isinstance(c.axis, Value):
        return NotImplemented
    return c.b.flip(c.out_grad, axis=c.axis)


@decompose("pd_op.as_strided_grad")
def _(c: OpCall) -> Value:
    """Elements that were seen at several places get a cotangent from each."""
    b, x, g = c.b, c.operand("input"), c.out_grad
    places = b.const(c.offset, dt.int64)
    for i, (size, stride) in enumerate(zip(c.dims, c.stride, strict=True)):
        steps = b.arange(start=0, end=size, step=1, dtype=dt.int64) * stride
        places = places + b.reshape(steps, tuple(-1 if j == i else 1 for j in range(len(c.dims))))
    flat = b.reshape(b.zeros_like(x), (-1,))
    found = b.scatter_nd_add(flat, b.reshape(places, (-1, 1)), b.reshape(g, (-1,)))
    return b.reshape_like(found, x)
