"""Ops that only rename places, in terms of `reshape`."""

from __future__ import annotations

from collections.abc import Sequence

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.runtime.meta import UNKNOWN

ONE, REST = -1, -2
"""In a list of places in a shape: a dimension of size 1, and one that takes what is left."""


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
    return _picked(c, [i for i in range(x.rank) if i not in gone])


@decompose("pd_op.unsqueeze")
def _(c: OpCall) -> Value:
    if isinstance(c.axis, Value):
        return NotImplemented
    places = list(range(c.x.rank))
    for axis in c.axis:
        places.insert(axis % (len(places) + 1), ONE)
    return _picked(c, places)


@decompose("pd_op.flatten")
def _(c: OpCall) -> Value:
    rank = c.x.rank
    if not rank:
        return c.b.reshape(c.x, (1,))
    start, stop = c.start_axis % rank, c.stop_axis % rank
    return _picked(c, [*range(start), REST, *range(stop + 1, rank)])


def _picked(c: OpCall, places: Sequence[int]) -> Value:
    """``x`` with dimensions that are picked from its own."""
    b, x = c.b, c.x
    known = c.out.shape
    if known.count(UNKNOWN) <= 1:
        return b.reshape(x, known)
    extra = b.integers((-1, 1))  # last but one, last
    sizes = b.concat([b.shape_of(x), extra], axis=0)
    at = [{ONE: x.rank + 1, REST: x.rank}.get(p, p) for p in places]
    return b.reshape(x, b.gather(sizes, b.integers(at), axis=0))
