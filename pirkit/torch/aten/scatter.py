"""Writing and adding at places that a tensor holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.runtime import dtype as dt
from pirkit.torch.aten.indexing import flat_places, indexed_dims
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule

_INTEGERS: Final = (dt.int32, dt.int64)


@rule("index_put", "_unsafe_index_put")
def _(
    b: AtenBuilder, x: Value, indices: Sequence[Any], values: Value, accumulate: bool = False
) -> Any:
    """The counterpart of `index.Tensor` that writes; a single mask becomes a `where`."""
    if any(i is not None and i.dtype in (dt.bool_, dt.uint8) for i in indices):
        return _masked(b, x, indices, values, accumulate)
    dims, together = indexed_dims(indices)
    rest = [d for d in range(x.rank) if d not in dims]
    sizes, others = [x.shape[d] for d in dims], [x.shape[d] for d in rest]
    places = flat_places(b, [indices[d] for d in dims], sizes)
    lead, count = places.rank, math.prod(places.shape)
    at = dims[0] if together else 0
    spread = b.expand(b.cast(values, x.dtype), (*others[:at], *places.shape, *others[at:]))
    order = [*range(at, at + lead), *range(at), *range(at + lead, spread.rank)]
    updates = b.reshape(b.permute(spread, order), (count, *others))
    front = [*dims, *rest]
    rows = b.reshape(b.permute(x, front), (math.prod(sizes), *others))
    index = b.reshape(places, (count, 1))
    if accumulate:
        written = b.scatter_nd_add(rows, index, updates)
    else:
        written = _assigned(b, rows, b.reshape(places, (count,)), updates)
    back = [front.index(d) for d in range(x.rank)]
    return b.permute(b.reshape(written, (*sizes, *others)), back)


def _masked(
    b: AtenBuilder, x: Value, indices: Sequence[Any], values: Value, accumulate: bool
) -> Any:
    """Write where one mask holds: one value everywhere, or the n-th where it holds the n-th time.

    NotImplemented with several indices, and for sums of booleans.
    """
    at = next(k for k, i in enumerate(indices) if i is not None)
    if any(i is not None for i in indices[at + 1 :]) or (accumulate and x.dtype is dt.bool_):
        return NotImplemented
    mask = b.cast(indices[at], dt.bool_)
    values = b.cast(values, x.dtype)
    rest = x.rank - at - mask.rank
    values = b.reshape(values, (*[1] * (at + 1 + rest - values.rank), *values.shape))
    count, size = values.shape[at], math.prod(mask.shape)
    if not size or not count:
        return b("pd_op.assign", x)
    if count > 1:
        number = b.cumsum(b.reshape(b.cast(mask, dt.int64), (size,)), axis=0)
        place = b.maximum(b.subtract(number, b.const(1, dt.int64)), b.const(0, dt.int64))
        place = b.minimum(place, b.const(count - 1, dt.int64))
        values = b.index_select(values, place, axis=at)
    lead, tail = values.shape[:at], values.shape[at + 1 :]
    inner = mask.shape if count > 1 else [1] * mask.rank
    values = b.reshape(values, (*lead, *inner, *tail))
    mask = b.reshape(mask, (*[1] * at, *mask.shape, *[1] * rest))
    return b("pd_op.where", mask, b.add(x, values) if accumulate else values, x)


def _written(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, how: str, self_too: bool = True
) -> Any:
    """Combine ``source`` with ``x`` at places along a dimension.

    ``how`` is assign, add, mean, mul, amax or amin; ``self_too`` says whether old elements count.
    Where the index does not cover the other dimensions, all are flattened into one.
    """
    shape = x.shape
    if not x.rank or not index.rank:
        x, index, source = (v if v.rank else b.reshape(v, (1,)) for v in (x, index, source))
    dim %= x.rank
    for other in range(x.rank):
        source = b.cut(source, other, 0, index.shape[other])
    rows = _of_rows(b, x, dim, index) if how in ("add", "mean") else None
    if rows is not None:
        places = rows  # `index_add` counts negative places from the end itself
        if rows.rank > 1:
            counts = [rows if d == dim else _counted(b, rows, d) for d in range(rows.rank)]
            places = b.reshape(flat_places(b, counts, x.shape[: rows.rank]), (-1,))
        row = math.prod(x.shape[rows.rank :])
        x, source = (b.reshape(v, (-1, row)) for v in (x, b.cast(source, x.dtype)))
        return b.reshape(_summed_rows(b, x, places, source, how, self_too), shape)
    if any(x.shape[d] != index.shape[d] for d in range(x.rank) if d != dim):
        counts = [index if d == dim else _counted(b, index, d) for d in range(x.rank)]
        places = flat_places(b, counts, x.shape)
        x, index, source = (b.reshape(v, (math.prod(v.shape),)) for v in (x, places, source))
        dim = 0
    if how == "assign":
        found = _assigned(b, x, index, b.cast(source, x.dtype), dim)
    elif how in _NEUTRAL:
        found = _extreme(b, x, dim, index, source, how, self_too)
    elif how == "mul":
        found = _product(b, x, dim, index, b.cast(source, x.dtype), self_too)
    else:
        found = _summed(b, x, dim, index, b.cast(source, x.dtype), how, self_too)
    return b.reshape(found, shape)


def _of_rows(b: AtenBuilder, x: Value, dim: int, index: Value) -> Value | None:
    """An index without the last dimensions, if it is one of whole rows: there it is expanded, so
    it is the same for each element of a row, and as long as ``x``. None for others.
    """
    owner = index.ssa.owner
    if not isinstance(owner, PirOp) or owner.name != "pd_op.expand":
        return None
    held, first = b.wrap(owner.operands[0]), x.rank
    while (first > dim + 1 and held.rank == x.rank and held.shape[first - 1] == 1
           and index.shape[first - 1] == x.shape[first - 1]):  # fmt: skip
        first -= 1
    if math.prod(x.shape[first:]) < _ROW:
        return None
    return b.expand(b.reshape(held, held.shape[:first]), index.shape[:first])


_ROW: Final = 8
"""Elements of a row from which it is added in vectors."""


def _summed_rows(
    b: AtenBuilder, x: Value, index: Value, source: Value, how: str, self_too: bool
) -> Value:
    """`_summed` of rows: ``x [K, C]`` with ``source [P, C]`` at the rows ``index [P]``."""
    wide = x.dtype if x.dtype.itemsize > 2 else dt.float32
    zeros, ones = b.const(0, wide, x.shape[:1]), b.const(1, wide, index.shape)
    met = b.reshape(b.index_add(zeros, index, ones, axis=0), (-1, 1))
    if not self_too:
        x = b.where(b.greater_than(met, b.const(0, wide)), b.const(0, x.dtype), x)
    total = b.index_add(x, index, source, axis=0)
    if how == "add":
        return total
    one = b.const(1, wide)
    count = b.add(met, one) if self_too else b.maximum(met, one)
    return b.divide(total, b.cast(count, x.dtype))


_NEUTRAL: Final = {"amax": -math.inf, "amin": math.inf}
"""The neutral element of each extreme."""


def _summed(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, how: str, self_too: bool
) -> Value:
    """Sums or means at each place; an old element that does not count is cleared before."""

    def put(into: Value, value: Value, reduce: str) -> Value:
        return b.put_along_axis(into, index, value, axis=dim, reduce=reduce)

    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    total = put(x if self_too else put(x, zero, "assign"), source, "add")
    if how == "add":
        return total
    held = b.expand(one, x.shape)
    count = put(held if self_too else put(held, zero, "assign"), one, "add")
    return b.divide(total, count)


def _limit(dtype: Any, how: str) -> Any:
    """The neutral element of an extreme in an element type."""
    if dtype.is_float:
        return _NEUTRAL[how]
    limits = np.iinfo(dtype.np)
    return int(limits.min if how == "amax" else limits.max)


def _assigned(
    b: AtenBuilder, x: Value, index: Value, source: Value, dim: int | None = None
) -> Value:  # fmt: skip
    """Write elements along a dimension, or rows, with torch's derivative.

    Of several writes to one place the last one stays, and each gets the cotangent of the place.
    """

    def write(into: Value, value: Value) -> Value:
        if dim is None:
            return b.index_put(into, [index], value)
        return b.put_along_axis(into, index, value, axis=dim, reduce="assign")

    found = write(x, source)
    if not (x.dtype.is_float or x.dtype.is_complex):
        return found
    seed = b("pd_op.assign", b.zeros_like(found))
    taken = (b.index_select(seed, index, axis=0) if dim is None
             else b.take_along_axis(seed, index, axis=dim))  # fmt: skip
    cleared = write(seed, b.const(0.0, x.dtype, source.shape))
    return b.custom(found, (x, source), seed, (cleared, taken))


def _counted(b: AtenBuilder, index: Value, dim: int) -> Value:
    """The position along a dimension of each element of an index, in the shape of the index."""
    size = index.shape[dim]
    row = b.arange(start=0, end=size, step=1, dtype=dt.int64)
    return b.expand(b.reshape(row, [size if d == dim else 1 for d in range(index.rank)]),
                    index.shape)  # fmt: skip


def _extreme(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, how: str, self_too: bool
) -> Value:
    """The extreme element at each place; equal elements share its gradient evenly.

    As in torch, an old element that does not count (without ``self_too``) still reduces the shares
    of the others where it is equal, but gets nothing.
    """
    source, start = b.cast(source, x.dtype), x
    if not self_too:
        limit = b.const(_limit(x.dtype, how), x.dtype)
        start = b.put_along_axis(x, index, limit, axis=dim, reduce="assign")
    best = b.put_along_axis(start, index, source, axis=dim, reduce=how)
    if not x.dtype.is_float:
        return best
    zero = b.const(0.0, x.dtype)
    where: Any = {"axis": dim, "include_self": True, "reduce": "add"}
    is_kept = b.equal(x, best)
    is_best = b.equal(source, b.take_along_axis(best, index, axis=dim))
    kept, won = (b.cast(v, x.dtype) for v in (is_kept, is_best))
    if not self_too:
        ones = b.const(1.0, x.dtype, source.shape)
        met = b.put_along_axis(b.zeros_like(x), index, ones, **where)
        is_kept = b.logical_and(is_kept, b.equal(met, zero))
    seed = b("pd_op.assign", b.zeros_like(best))
    share = b.divide(seed, b.put_along_axis(kept, index, won, **where))
    theirs = b.take_along_axis(share, index, axis=dim)
    return b.custom(best, (x, source), seed,
                    (b.where(is_kept, share, zero), b.where(is_best, theirs, zero)))  # fmt: skip


def _product(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, self_too: bool
) -> Value:
    """The product at each place; the cotangent of a factor is times the product of the others.

    That product is the whole one over the factor. For the only zero of a place it is the product
    without it, and of several zeros each gets zero.
    """
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)

    def put(into: Value, value: Value, reduce: str) -> Value:
        return b.put_along_axis(into, index, value, axis=dim, reduce=reduce)

    start = x if self_too else put(x, one, "assign")
    found = put(start, source, "mul")
    if not x.dtype.is_float:
        return found
    is_zero = b.equal(source, zero)
    filled = b.where(is_zero, one, source)
    zeros = put(b.zeros_like(x), b.cast(is_zero, x.dtype), "add")
    without = b.where(b.equal(zeros, one), put(start, filled, "mul"), found)
    whole = b.where(is_zero, *(b.take_along_axis(v, index, axis=dim) for v in (without, found)))
    seed = b("pd_op.assign", b.zeros_like(found))
    mine = seed * put(b.ones_like(x), source, "mul") if self_too else put(seed, zero, "assign")
    theirs = b.take_along_axis(seed, index, axis=dim) * whole / filled
    return b.custom(found, (x, source), seed, (mine, theirs))


@rule("scatter.src", "scatter.value")
def _(b: AtenBuilder, x: Value, dim: int, index: Value, source: Any) -> Any:
    if not isinstance(source, Value) or source.rank < index.rank:
        source = b.expand(b.typed(source, x.dtype), index.shape)
    return _written(b, x, dim, index, source, "assign")


@rule("scatter_add")
def _(b: AtenBuilder, x: Value, dim: int, index: Value, source: Value) -> Any:
    return _written(b, x, dim, index, source, "add")


_WAYS: Final = {"sum": "add", "prod": "mul"}
"""How torch's reductions are called here, where the names differ."""


@rule("scatter_reduce.two")
def _(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str,
    include_self: bool = True,
) -> Any:  # fmt: skip
    if not (x.dtype.is_float or (reduce != "mean" and x.dtype in _INTEGERS)):
        return NotImplemented
    return _written(b, x, dim, index, source, _WAYS.get(reduce, reduce), include_self)


@rule("index_reduce")
def _(
    b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, reduce: str,
    include_self: bool = True,
) -> Any:  # fmt: skip
    """As `scatter_reduce`, with whole rows at each place."""
    if not x.rank or not x.dtype.is_float:
        return NotImplemented
    dim %= x.rank
    rows = b.expand(b.reshape(index, [-1 if d == dim else 1 for d in range(x.rank)]), source.shape)
    return _written(b, x, dim, rows, source, _WAYS.get(reduce, reduce), include_self)


@rule("segment_reduce")
def _(
    b: AtenBuilder, x: Value, reduce: str, *, lengths: Value | None = None,
    indices: Value | None = None, offsets: Value | None = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """Sums, means, products or extremes of consecutive rows.

    The number of a row is how many edges of segments are at or before it. Rows before the first
    edge and behind the last go to places that are cut off.
    """
    given = offsets if lengths is None else lengths
    if given is None or given.rank != 1 or axis or not x.dtype.is_float or not x.shape[0]:
        return NotImplemented
    edges = b.cast(given, dt.int64)
    if lengths is not None:
        edges = b.concat([b.const(0, dt.int64, (1,)), b.cumsum(edges, axis=0)], axis=0)
    count, rest = b.shape[0], [1] * (x.rank - 1)
    row = b.arange(start=0, end=x.shape[0], step=1, dtype=dt.int64)
    number = b.reshape(b.searchsorted(edges, row, right=True), (-1, *rest))
    how = {"mean": "sum", "max": "amax", "min": "amin"}.get(reduce, reduce)
    neutral = {"sum": 0.0, "prod": 1.0, **_NEUTRAL}[how] if initial is None else initial
    start = b.const(neutral, x.dtype, (count + 2, *x.shape[1:]))
    found = _written(b, start, 0, b.expand(number, x.shape), x, _WAYS.get(how, how))
    found = b.cut(found, 0, 1, count + 1)
    if reduce != "mean":
        return found
    size = b.subtract(b.cut(edges, 0, 1, count + 1), b.cut(edges, 0, 0, count))
    size = size if initial is None else b.maximum(size, b.const(1, dt.int64))
    return b.divide(found, b.cast(b.reshape(size, (-1, *rest)), x.dtype))


@rule("index_add")
def _(b: AtenBuilder, x: Value, dim: int, index: Value, source: Value, alpha: Any = 1) -> Any:
    if not x.rank or not (x.dtype.is_float or x.dtype in _INTEGERS):
        return NotImplemented
    places = b.reshape(index, (math.prod(index.shape),))
    added = source if alpha == 1 else b.multiply(source, b.typed(alpha, source.dtype))
    return b.index_add(x, places, added, axis=dim % x.rank)


@rule("index_copy")
def _(b: AtenBuilder, x: Value, dim: int, index: Value, source: Value) -> Any:
    if not x.rank:
        return NotImplemented
    dim %= x.rank
    order = [dim, *[d for d in range(x.rank) if d != dim]]
    places = b.reshape(index, (math.prod(index.shape),))
    source = b.reshape(source, [places.shape[0] if d == dim else x.shape[d] for d in range(x.rank)])
    rows = _assigned(b, b.permute(x, order), places, b.permute(source, order))
    return b.permute(rows, [order.index(d) for d in range(x.rank)])


@rule("masked_scatter")
def _(b: AtenBuilder, x: Value, mask: Value, source: Value) -> Any:
    """The n-th element of the source goes where the mask holds for the n-th time."""
    count = math.prod(x.shape)
    if not count or not math.prod(source.shape):
        return NotImplemented
    held = b.reshape(b.expand(b.cast(mask, dt.bool_), x.shape), (count,))
    number = b.cumsum(b.cast(held, dt.int64), axis=0)
    place = b.maximum(b.subtract(number, b.const(1, dt.int64)), b.const(0, dt.int64))
    flat = b.reshape(source, (math.prod(source.shape),))
    place = b.minimum(place, b.const(flat.shape[0] - 1, dt.int64))
    picked = b.index_select(flat, place, axis=0)
    return b.reshape(b.where(held, picked, b.reshape(x, (count,))), x.shape)
