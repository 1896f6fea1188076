"""Messages along edges and reductions by segment, in terms of scatters of rows."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import from_start, part
from pirkit.dialect.rules.movement.size_ops import Size, as_list, sizes_of, zeros
from pirkit.runtime import dtype as dt


@decompose("pd_op.segment_pool")
def _(c: OpCall) -> tuple[Value, Value]:
    """Segment ids that decrease are refused, as negative ones are."""
    b, ids = c.b, _places(c.b, c.segment_ids)
    last = part(b, b.concat([b.integers((0,)), ids], axis=0), (0,), (0,), (-1,))
    ids = b.where(b.less_than(ids, last), b.const(-(1 << 63), ids.dtype), ids)
    before = b.concat([b.integers((-1,)), ids], axis=0)
    count = b("pd_op.max", before, axis=(0,), keepdim=True) + b.integers((1,))
    out, rows = reduced(b, c.x, ids, count, c.pooltype)
    side = b.unsqueeze(b.cast(rows, c.x.dtype), axis=(1,))
    return out, side if c.pooltype == "MEAN" else b.const(0.0, dt.float32, (0,))


@decompose("pd_op.send_u_recv")
def _(c: OpCall) -> tuple[Value, Value]:
    return _received(c, _sent(c.b, c.x, c.src_index))


@decompose("pd_op.send_ue_recv")
def _(c: OpCall) -> tuple[Value, Value]:
    return _received(c, _combined(c, _sent(c.b, c.x, c.src_index), c.y))


@decompose("pd_op.send_uv")
def _(c: OpCall) -> Value:
    return _combined(c, _sent(c.b, c.x, c.src_index), _sent(c.b, c.y, c.dst_index))


def _sent(b: Builder, x: Value, index: Value) -> Value:
    return b.gather(x, from_start(b, index), axis=0)


def _places(b: Builder, x: Value) -> Value:
    """Indices as int64."""
    return b.cast(x, dt.int64)


def _combined(c: OpCall, x: Value, y: Value) -> Value:
    """Rows of both combined; those with fewer dimensions get some after the first."""
    b, rank = c.b, max(x.rank, y.rank)
    x, y = (
        b.unsqueeze(v, axis=tuple(range(1, 1 + rank - v.rank))) if v.rank < rank else v
        for v in (x, y)
    )
    return x + y if c.message_op == "ADD" else x * y


def _received(c: OpCall, rows: Value) -> tuple[Value, Value]:
    b, size = c.b, c.out_size
    own = sizes_of(b, c.x)[0]
    count: Size = own
    if isinstance(size, Value):
        given = b.reshape(_places(b, size), (1,))
        count = b.where(given > 0, given, as_list(b, own))
    elif size and size[0] > 0:
        count = size[0]
    places = from_start(b, _places(b, c.dst_index))
    out, messages = reduced(b, rows, places, count, c.reduce_op)
    some = b.maximum(messages, b.ones_like(messages))
    side = b.cast(some, dt.int32)
    return out, side if c.reduce_op == "MEAN" else b.const(0.0, dt.float32, (0,))


def reduced(b: Builder, rows: Value, places: Value, count: Size, kind: str) -> tuple[Value, Value]:
    """Rows reduced by place, and how many each place got; places without rows are zero."""
    start = zeros(b, [count, *sizes_of(b, rows)[1:]], rows.dtype)
    at = b.unsqueeze(places, axis=(1,))
    got = b.scatter_nd_add(zeros(b, [count], places.dtype), at, b.ones_like(places))
    if kind in ("SUM", "MEAN"):
        total = b.scatter_nd_add(start, at, rows)
        return (total if kind == "SUM" else _shared(b, total, got)), got
    expanded = b.reshape(places, (-1, *(1,) * (rows.rank - 1)))
    kept = rows.dtype if rows.dtype in dt.REAL else dt.int32
    out = b.put_along_axis(
        b.cast(start, kept), b.expand_like(expanded, rows), b.cast(rows, kept), axis=0,
        include_self=False, reduce="amax" if kind == "MAX" else "amin",
    )  # fmt: skip
    return b.cast(out, rows.dtype), got


def _shared(b: Builder, total: Value, count: Value) -> Value:
    """``total / count`` by rows; integers are truncated."""
    some = b.reshape(b.maximum(count, b.ones_like(count)), (-1, *(1,) * (total.rank - 1)))
    if total.dtype.is_float:
        return total / b.cast(some, total.dtype)
    entire = b.trunc(b.cast(total, dt.float64) / b.cast(some, dt.float64))
    return b.cast(entire, total.dtype)
