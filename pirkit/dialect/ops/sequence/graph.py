"""Messages along the edges of a graph, and rows reduced by segment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.indexing import check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"

REDUCTIONS: Final = ("SUM", "MEAN", "MAX", "MIN")

_MESSAGES: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "ADD": lambda x, y: x + y,
    "MUL": lambda x, y: x * y,
}
_NUMBERS: Final = (dt.float32, dt.float64, dt.int32, dt.int64)


@op
class SegmentPool:
    """Rows of `x` reduced by segment; row i belongs to segment `segment_ids[i]`, in rising order.

    There are as many segments as the last number tells. Segments without rows are zero.
    `summed_ids` are the numbers of rows, for `MEAN` only.

    C1: `segment_ids` is a vector of int32 or int64, one for each row of `x`.
    C2: `pooltype` is `SUM`, `MEAN`, `MAX` or `MIN`.
    C3: the segments are not negative, and rise.
    C4: `x` holds no integers narrower than 32 bits.
    """

    name = "pd_op.segment_pool"
    signature = 'x, segment_ids ; pooltype: str = "SUM" -> out, summed_ids~'
    dtypes = _NUMBERS


@op
class SendURecv:
    """For each edge the row `src_index` of `x` is sent to row `dst_index`, which reduces them.

    Without a positive `out_size` there are as many rows as in `x`. Rows that get nothing are zero.
    `dst_count` are the numbers of messages, at least one, for `MEAN` only.

    C1: `x` has rows; `src_index` and `dst_index` are vectors of int32 or int64 of one length.
    C2: `reduce_op` is `SUM`, `MEAN`, `MAX` or `MIN`.
    C3: the indices name rows.
    """

    name = "pd_op.send_u_recv"
    signature = (
        "x, src_index, dst_index, out_size: intarray = [0] ; "
        'reduce_op: str = "SUM" -> out, dst_count~'
    )
    dtypes = _NUMBERS


@op
class SendUeRecv:
    """As `send_u_recv`, with the row of `y` for an edge added to the message, or multiplied.

    C1: `x` has rows; `src_index` and `dst_index` are vectors of int32 or int64 of one length.
    C2: `reduce_op` is `SUM`, `MEAN`, `MAX` or `MIN`, and `message_op` is `ADD` or `MUL`.
    C3: the indices name rows.
    C4: `y` has a row for each edge, and rows of `x` and `y` broadcast.
    """

    name = "pd_op.send_ue_recv"
    signature = (
        'x, y, src_index, dst_index, out_size: intarray = [0] ; message_op: str = "ADD", '
        'reduce_op: str = "SUM" -> out, dst_count~'
    )
    dtypes = _NUMBERS
    same_dtype = ("x", "y")


@op
class SendUv:
    """For each edge the row `src_index` of `x` and the row `dst_index` of `y`, combined.

    C1: `x` and `y` have rows; `src_index` and `dst_index` are vectors of int32 or int64 of one
    length.
    C2: `message_op` is `ADD` or `MUL`.
    C3: the indices name rows.
    C4: rows of `x` and `y` broadcast.
    """

    name = "pd_op.send_uv"
    signature = 'x, y, src_index, dst_index ; message_op: str = "ADD" -> out'
    dtypes = _NUMBERS
    same_dtype = ("x", "y")


def _check_edges(src: TensorMeta, dst: TensorMeta, *rows: TensorMeta) -> None:
    require(all(m.rank > 0 for m in rows), "C1", f"{' and '.join(map(str, rows))} have no rows")
    is_valid = all(m.rank == 1 and m.dtype in (dt.int32, dt.int64) for m in (src, dst))
    require(is_valid, "C1", f"{src} and {dst} are no vectors of indices")
    require(same_dim(src.shape[0], dst.shape[0]), "C1", f"lengths of {src} and {dst} differ")


def _received(
    rows: tuple[int, ...], x: TensorMeta, reduce_op: str, out_size: Sequence[int | None] | None
) -> tuple[TensorMeta, TensorMeta]:
    require(reduce_op in REDUCTIONS, "C2", f"reduce_op {reduce_op!r} is not in {REDUCTIONS}")
    given = out_size[0] if out_size else None
    if given is None:
        count = UNKNOWN
    else:
        count = given if given > 0 else x.shape[0]
    side = TensorMeta((count,), dt.int32) if reduce_op == "MEAN" else TensorMeta((0,), dt.float32)
    return x.with_shape((count, *rows)), side


@infer_meta(SegmentPool)
def _(x: TensorMeta, segment_ids: TensorMeta, *, pooltype: str) -> tuple[TensorMeta, TensorMeta]:
    is_valid = segment_ids.rank == 1 and segment_ids.dtype in (dt.int32, dt.int64) and x.rank > 0
    fits = is_valid and same_dim(segment_ids.shape[0], x.shape[0])
    require(fits, "C1", f"{segment_ids} for the rows of {x}")
    require(pooltype in REDUCTIONS, "C2", f"pooltype {pooltype!r} is not in {REDUCTIONS}")
    require(x.dtype in dt.REAL, "C4", f"segments of a {x}")
    side = x.with_shape((UNKNOWN, 1))
    if pooltype != "MEAN":
        side = TensorMeta((0,), dt.float32)
    return x.with_shape((UNKNOWN, *x.shape[1:])), side


@infer_meta(SendURecv)
def _(
    x: TensorMeta,
    src: TensorMeta,
    dst: TensorMeta,
    *,
    out_size: Sequence[int | None] | None,
    reduce_op: str,
) -> tuple[TensorMeta, TensorMeta]:
    _check_edges(src, dst, x)
    return _received(x.shape[1:], x, reduce_op, out_size)


@infer_meta(SendUeRecv)
def _(
    x: TensorMeta,
    y: TensorMeta,
    src: TensorMeta,
    dst: TensorMeta,
    *,
    out_size: Sequence[int | None] | None,
    message_op: str,
    reduce_op: str,
) -> tuple[TensorMeta, TensorMeta]:
    _check_edges(src, dst, x)
    require(message_op in _MESSAGES, "C2", f"message_op {message_op!r} is neither ADD nor MUL")
    fits = y.rank > 0 and same_dim(y.shape[0], src.shape[0])
    require(fits, "C4", f"{y} has not a row for each of {src}")
    rows = broadcast(x.shape[1:], y.shape[1:], constraint="C4")
    return _received(rows, x, reduce_op, out_size)


@infer_meta(SendUv)
def _(
    x: TensorMeta, y: TensorMeta, src: TensorMeta, dst: TensorMeta, *, message_op: str
) -> TensorMeta:
    _check_edges(src, dst, x, y)
    require(message_op in _MESSAGES, "C2", f"message_op {message_op!r} is neither ADD nor MUL")
    rows = broadcast(x.shape[1:], y.shape[1:], constraint="C4")
    return x.with_shape((src.shape[0], *rows))


def _reduced(rows: Array, places: Array, count: int, kind: str) -> tuple[Array, Array]:
    """Rows reduced by place, and how many there were."""
    check_index(places, count, "C3", from_end=False)
    wide = widened(rows)
    sizes = np.bincount(places, minlength=count)
    empty = (sizes == 0).reshape(-1, *(1,) * (rows.ndim - 1))
    out = np.zeros((count, *rows.shape[1:]), wide.dtype)
    if kind in ("SUM", "MEAN"):
        np.add.at(out, places, wide)
        if kind == "MEAN":
            shape = (-1, *(1,) * (rows.ndim - 1))
            each = np.maximum(sizes, 1).reshape(shape).astype(wide.dtype)
            mean = out / each
            out = mean if wide.dtype.kind == "f" else np.trunc(mean)
        return out.astype(rows.dtype), sizes
    for at in np.unique(places):
        mine = wide[places == at]
        out[at] = mine.max(axis=0) if kind == "MAX" else mine.min(axis=0)
    return np.where(empty, 0, out).astype(rows.dtype), sizes


@reference(SegmentPool)
def _(x: Array, segment_ids: Array, *, pooltype: str) -> tuple[Array, Array]:
    rises = bool(np.all(np.diff(segment_ids, prepend=0) >= 0))
    require(rises, "C3", "the segments do not rise from zero or more")
    count = int(segment_ids[-1]) + 1 if segment_ids.size else 0
    out, sizes = _reduced(x, segment_ids, count, pooltype)
    side = sizes.reshape(-1, 1).astype(x.dtype)
    return out, side if pooltype == "MEAN" else np.zeros(0, np.float32)


def _receive(
    rows: Array, dst: Array, out_size: Sequence[int], default: int, reduce_op: str
) -> tuple[Array, Array]:
    count = out_size[0] if out_size and out_size[0] > 0 else default
    out, sizes = _reduced(rows, dst, count, reduce_op)
    side = np.maximum(sizes, 1).astype(np.int32)
    return out, side if reduce_op == "MEAN" else np.zeros(0, np.float32)


@reference(SendURecv)
def _(
    x: Array, src: Array, dst: Array, *, out_size: Sequence[int], reduce_op: str
) -> tuple[Array, Array]:
    check_index(src, x.shape[0], "C3", from_end=False)
    return _receive(x[src], dst, out_size, x.shape[0], reduce_op)


@reference(SendUeRecv)
def _(
    x: Array,
    y: Array,
    src: Array,
    dst: Array,
    *,
    out_size: Sequence[int],
    message_op: str,
    reduce_op: str,
) -> tuple[Array, Array]:
    check_index(src, x.shape[0], "C3", from_end=False)
    rows = _combined(x[src], y, message_op)
    return _receive(rows, dst, out_size, x.shape[0], reduce_op)


@reference(SendUv)
def _(x: Array, y: Array, src: Array, dst: Array, *, message_op: str) -> Array:
    check_index(src, x.shape[0], "C3", from_end=False)
    check_index(dst, y.shape[0], "C3", from_end=False)
    return _combined(x[src], y[dst], message_op)


def _combined(x: Array, y: Array, message_op: str) -> Array:
    """Rows combined, those with fewer dimensions broadcast."""
    rank = max(x.ndim, y.ndim)
    x, y = (v.reshape(v.shape[0], *(1,) * (rank - v.ndim), *v.shape[1:]) for v in (x, y))
    return _MESSAGES[message_op](x, y)


@samples(SegmentPool)
def _(s: SampleMaker) -> Iterator[Sample]:
    for kind in REDUCTIONS:
        yield s(s.tensor(5, 2), s.array([0, 0, 1, 3, 3], dt.int64), pooltype=kind)
    yield s(s.tensor(3, 2, 2), s.array([0, 1, 1], dt.int32))
    yield s(s.tensor(3), s.array([0, 1, 1], dt.int32), pooltype="MAX")


@samples(SendURecv)
def _(s: SampleMaker) -> Iterator[Sample]:
    src, dst = s.array([0, 1, 2, 0, 3], dt.int64), s.array([1, 2, 1, 0, 1], dt.int64)
    for kind in REDUCTIONS:
        yield s(s.tensor(4, 2), src, dst, reduce_op=kind, out_size=(0,))
    yield s(s.tensor(4, 3), src.astype(np.int32), dst.astype(np.int32), out_size=(3,))
    yield s(s.tensor(4, 3), src, dst, out_size=(5,), reduce_op="MEAN")


@samples(SendUeRecv)
def _(s: SampleMaker) -> Iterator[Sample]:
    src, dst = s.array([0, 1, 2, 0], dt.int64), s.array([1, 2, 1, 0], dt.int64)
    for kind in REDUCTIONS:
        yield s(s.tensor(3, 2), s.tensor(4, 2), src, dst, reduce_op=kind)
    yield s(s.tensor(3, 2), s.tensor(4, 1), src, dst, message_op="MUL", out_size=(4,))


@samples(SendUv)
def _(s: SampleMaker) -> Iterator[Sample]:
    src, dst = s.array([0, 1, 2, 0], dt.int64), s.array([1, 2, 1, 0], dt.int64)
    yield s(s.tensor(3, 2), s.tensor(3, 2), src, dst)
    yield s(s.tensor(3, 2), s.tensor(3, 1), src, dst, message_op="MUL")


@bad_samples(SegmentPool)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, 2)
    yield "C1", s(x, s.array([0, 1], dt.int64))
    yield "C2", s(x, s.array([0, 1, 1], dt.int64), pooltype="PROD")
    yield "C4", s(s.bools(3, 2), s.array([0, 1, 1], dt.int64), pooltype="MEAN")
    yield "C3", s(x, s.array([1, 0, 2], dt.int64))


@bad_samples(SendURecv)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, src = s.tensor(3, 2), s.array([0, 1], dt.int64)
    yield "C1", s(x, src, s.array([0, 1, 2], dt.int64))
    yield "C1", s(s.tensor(), src, src)
    yield "C2", s(x, src, src, reduce_op="PROD")
    yield "C3", s(x, src, s.array([0, 3], dt.int64))


@bad_samples(SendUeRecv)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, src, y = s.tensor(3, 2), s.array([0, 1], dt.int64), s.tensor(2, 2)
    yield "C1", s(x, y, src, s.array([0, 1, 2], dt.int64))
    yield "C2", s(x, y, src, src, message_op="SUB")
    yield "C3", s(x, y, s.array([0, 3], dt.int64), src)
    yield "C4", s(x, s.tensor(3, 2), src, src)


@bad_samples(SendUv)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, src = s.tensor(3, 2), s.array([0, 1], dt.int64)
    yield "C1", s(x, x, src, s.array([0, 1, 2], dt.int64))
    yield "C2", s(x, x, src, src, message_op="SUB")
    yield "C3", s(x, x, src, s.array([0, 3], dt.int64))
    yield "C4", s(x, s.tensor(3, 3), src, src)
