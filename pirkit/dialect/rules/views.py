"""Ops that only rename places, in terms of `reshape`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.rules.sizes import Size, in_shape, product, sizes_of
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
