"""Ops that move elements, join and split tensors, and their derivatives."""

from __future__ import annotations

from typing import Any, Final, cast

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, vjp
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.meta import UNKNOWN

OUTSIDE: Final = 1 << 40
"""An index beyond the end of every axis."""
END: Final = 2**31 - 1
"""As the end of a slice: to the end of the axis."""


@vjp("pd_op.share_data", "pd_op.share_data_", "pd_op.print", "pd_op.memcpy_h2d", "pd_op.memcpy_d2h")
def _(c: OpCall, g: Value) -> Value:
    return g


@decompose("pd_op.memcpy")
def _(c: OpCall) -> Value:
    """One program runs on one device, so a copy is a copy."""
    return c.b.assign(c.x)


@vjp("pd_op.depend")
def _(c: OpCall, g: Value) -> Value:
    return g


@vjp("pd_op.transpose")
def _(c: OpCall, g: Value) -> Value:
    perm = [p % g.rank for p in c.perm]
    return c.b.transpose(g, perm=tuple(perm.index(i) for i in range(g.rank)))


@vjp("pd_op.flip")
def _(c: OpCall, g: Value) -> Value:
    return c.again(g)


@vjp("pd_op.roll")
def _(c: OpCall, g: Value) -> Value:
    shifts = c.shifts * -1 if isinstance(c.shifts, Value) else tuple(-s for s in c.shifts)
    return c.b.roll(g, shifts=shifts, axis=c.axis)


@vjp("pd_op.pad")
def _(c: OpCall, g: Value) -> Value:
    before, after = c.paddings[::2], c.paddings[1::2]
    return part(c.b, g, range(g.rank), before, [-a if a else END for a in after])


def part(b: Builder, x: Value, axes: Any, starts: Any, ends: Any, gone: Any = ()) -> Value:
    """The elements from ``starts`` to ``ends`` along some axes, of which ``gone`` are dropped."""
    axes = tuple(axes)
    if not axes:
        return x
    flags = [1] * len(axes)
    return b.slice(
        x, starts=starts, ends=ends, axes=axes, infer_flags=flags, decrease_axis=tuple(gone)
    )


@vjp("pd_op.slice")
def _(c: OpCall, g: Value) -> tuple[Value]:
    b = c.b
    x: Value = c.operand("input")
    gone = sorted(a % x.rank for a in c.decrease_axis)
    if gone and g.rank != x.rank:
        g = b.unsqueeze(g, axis=tuple(gone))
    axes: list[int] = [a % x.rank for a in c.axes]
    sizes = [x.shape[a] for a in axes]
    if isinstance(c.starts, Value) or isinstance(c.ends, Value) or UNKNOWN in sizes:
        return (_put_back(c, g, x, axes, None),)
    paddings = [0] * (2 * x.rank)
    for axis, start, size in zip(axes, cast("tuple[int, ...]", c.starts), sizes, strict=True):
        length: int = g.shape[axis]
        if length == UNKNOWN:
            return (_put_back(c, g, x, axes, None),)
        first = min(max(start + size if start < 0 else start, 0), size - length)
        paddings[2 * axis : 2 * axis + 2] = first, size - first - length
    return (b.pad(g, paddings=paddings, pad_value=0.0) if any(paddings) else g,)


@vjp("pd_op.strided_slice")
def _(c: OpCall, g: Value) -> Value:
    return _put_back(c, g, c.x, [a % c.x.rank for a in c.axes], c.strides)


def _put_back(c: OpCall, g: Value, x: Value, axes: list[int], strides: Any) -> Value:
    """Add to zeros at the places that a slice has read, one axis after the other."""
    b = c.b
    for at, axis in enumerate(axes):
        bounds = {n: _at(b, v, at) for n, v in (("starts", c.starts), ("ends", c.ends))}
        places = arange(b, x, axis)
        if strides is None:
            places = part(b, places, (0,), bounds["starts"], bounds["ends"])
        else:
            places = b.strided_slice(places, axes=(0,), strides=_at(b, strides, at), **bounds)
        g = add_at(b, g, x, axis, places)
    return g


def _at(b: Builder, values: Any, at: int) -> Any:
    if isinstance(values, Value):
        return part(b, values, (0,), (at,), (at + 1,))
    return (values[at],)


def arange(b: Builder, x: Value, axis: int) -> Value:
    """The places along an axis."""
    size: Any = x.shape[axis]
    if size == UNKNOWN:
        size = b.reshape(part(b, b.shape_of(x), (0,), (axis,), (axis + 1,)), ())
    ends = {"start": 0, "end": size, "step": 1}
    return b.arange(**ends, dtype=b.integers(()).dtype)


def from_start(b: Builder, index: Value) -> Value:
    """Indices of int32 or int64 of which negative ones do not count from the end.

    These become the smallest integer of the type, which every op that takes indices refuses.
    """
    least = b.const(int(np.iinfo(index.dtype.np).min), index.dtype)
    return b.where(index < 0, least, index)


def counted(b: Builder, index: Value, places: Value) -> Value:
    """Indices into ``places``, which are 0, 1..., counted from the front; others are refused."""
    if index.rank == 1:
        return b.gather(places, index, axis=0)
    return b.reshape_like(b.gather(places, b.reshape(index, (-1,)), axis=0), index)


def refused(b: Builder, wrong: Value) -> Value:
    """Zeros in the shape of a condition. They are gathered at an index that is out of range where
    the condition holds, so that such a run is refused.
    """
    return counted(b, b.cast(wrong, dt.int64) * OUTSIDE, b.integers((0,)))


def add_at(b: Builder, g: Value, x: Value, axis: int, places: Value) -> Value:
    """Zeros with the size of ``x`` along an axis, with ``g`` added at some places there."""
    order = (axis, *(i for i in range(g.rank) if i != axis))
    back = tuple(order.index(i) for i in range(g.rank))
    front = b.transpose(g, perm=order) if axis else g
    if UNKNOWN not in (*front.shape[1:], x.shape[axis]):
        zeros = b.const(0.0, g.dtype, (x.shape[axis], *front.shape[1:]))
    else:
        first = part(b, b.shape_of(x), (0,), (axis,), (axis + 1,))
        rest = part(b, b.shape_of(front), (0,), (1,), (END,))
        shape = b.concat([first, rest], axis=0) if front.rank > 1 else first
        zeros = b.expand(b.const(0.0, g.dtype), shape=shape)
    found = b.scatter_nd_add(zeros, b.unsqueeze(places, axis=(-1,)), front)
    return b.transpose(found, perm=back) if axis else found


@vjp("pd_op.gather")
def _(c: OpCall, g: Value) -> Value:
    b, index, axis = c.b, c.index, c.axis % c.x.rank
    if index.rank == 0:
        g = b.unsqueeze(g, axis=(axis,))
    return add_at(b, g, c.x, axis, b.reshape(index, (-1,)))


@vjp("pd_op.gather_nd")
def _(c: OpCall, g: Value) -> Value:
    return c.b.scatter_nd_add(c.b.zeros_like(c.x), c.index, g)


@vjp("pd_op.scatter_nd_add")
def _(c: OpCall, g: Value) -> tuple[Value | None, ...]:
    return g, None, c.b.gather_nd(g, c.index) if c.wants("updates") else None


@vjp("pd_op.take_along_axis")
def _(c: OpCall, g: Value) -> Value:
    return _add_along(c.b, c.arr, c.indices, g, c.axis)


@vjp("pd_op.topk", "pd_op.argsort")
def _(c: OpCall, g: Value | None, _indices: None = None) -> Value | None:
    if g is None:
        return None
    return _add_along(c.b, c.x, c.indices, g, c.axis) if c.x.rank else g


def _add_along(b: Builder, x: Value, indices: Value, g: Value, axis: int) -> Value:
    zeros = b.zeros_like(x)
    return b.put_along_axis(zeros, indices, g, axis=axis, reduce="add", include_self=True)


# --- joining and splitting -----------------------------------------------------------------------


@vjp("pd_op.concat")
def _(c: OpCall, g: Value) -> list[Value]:
    b, axis = c.b, c.axis % g.rank
    sizes = [x.shape[axis] for x in c.x]
    if UNKNOWN not in sizes:
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return [part(b, g, (axis,), (e - s,), (e,)) for s, e in zip(sizes, ends, strict=True)]
    found: list[Value] = []
    start: Value = b.integers((0,))
    for x in c.x:
        end = start + part(b, b.shape_of(x), (0,), (axis,), (axis + 1,))
        found.append(part(b, g, (axis,), start, end))
        start = end
    return found


@decompose("pd_op.stack")
def _(c: OpCall) -> Value:
    b, axis = c.b, c.axis % c.out.rank
    return b.concat([b.unsqueeze(x, axis=(axis,)) for x in c.x], axis=axis)


@vjp("pd_op.split", "pd_op.split_with_num")
def _(c: OpCall, gs: list[Value | None]) -> Value:
    b = c.b
    pieces = [b.zeros_like(o) if g is None else g for o, g in zip(c.out, gs, strict=True)]
    return b.concat(pieces, axis=c.axis)


@decompose("pd_op.split", "pd_op.split_with_num")
def _(c: OpCall) -> tuple[list[Value]]:
    b, x, axis = c.b, c.x, c.axis
    if isinstance(axis, Value):
        return NotImplemented
    axis %= x.rank
    sizes = [m.shape[axis] for m in c.result_meta("out").items]
    if UNKNOWN not in sizes:
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        pairs = zip(sizes, ends, strict=True)
        return ([part(b, x, (axis,), (e - s,), (e,)) for s, e in pairs],)
    lengths = _lengths(c, part(b, b.shape_of(x), (0,), (axis,), (axis + 1,)))
    ends = b.cumsum(lengths, axis=0)
    starts = ends - lengths
    places = range(len(sizes))
    bounds = [[part(b, v, (0,), (i,), (i + 1,)) for v in (starts, ends)] for i in places]
    return ([part(b, x, (axis,), *pair) for pair in bounds],)


def _lengths(c: OpCall, total: Value) -> Value:
    """The lengths of the pieces along an axis, whose own length is known at run time only."""
    b = c.b
    if "num" in c.definition.attr_kinds:
        piece = b.floor_divide(total, b.integers((c.num,)))
        return b.expand(piece, shape=(c.num,))
    sections = c.sections
    if not isinstance(sections, Value):
        sections = b.integers(sections)
    dynamic = b.less_than(sections, b.zeros_like(sections))
    given = b.where(dynamic, b.zeros_like(sections), sections)
    rest = total - b.sum(given, (0,), keepdim=True)
    return b.where(dynamic, rest, given)


@decompose("pd_op.unbind", "pd_op.unstack")
def _(c: OpCall) -> tuple[list[Value]]:
    x = c.tensors()[0]
    axis = c.axis % x.rank
    count = len(c.result_meta("out").items)
    return ([part(c.b, x, (axis,), (i,), (i + 1,), (axis,)) for i in range(count)],)
