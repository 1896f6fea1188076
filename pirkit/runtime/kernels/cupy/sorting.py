"""Sorts. Those of the device are stable: between equal elements the first one wins."""

from __future__ import annotations

from math import inf
from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.kernels.cupy.results import Binary, Unary, computes
from pirkit.runtime.registry import GPU, kernel

_SORTABLE = (dt.float32, dt.float64, *dt.INTS)


@computes("argmax", "argmin", dtypes=dt.REAL, widen=True)
def extremum(b: Binding) -> Unary | None:
    """The first extremum, which is never NaN unless all elements are."""
    xp, shape, result = b.xp, b.input().shape, b.output().shape
    if not shape:
        return lambda x: 0
    is_max = b.op == "pd_op.argmax"
    find, last = (xp.argmax, -inf) if is_max else (xp.argmin, inf)
    flatten = b.attrs["flatten"]
    axis = 0 if flatten else b.attrs["axis"] % len(shape)

    def run(x: Any) -> Any:
        if flatten:
            x = x.reshape(-1)
        if b.dtype.is_float:
            x = xp.where(xp.isnan(x), last, x)
        return find(x, axis=axis).reshape(result)

    return run


def _order(b: Binding, *, descending: bool) -> Step:
    """A function that returns the positions of the elements in sorted order; NaN is greatest."""
    xp = b.xp
    axis: int = b.attrs["axis"] % b.input().rank
    size = b.input().shape[axis]

    def ascending(x: Any) -> Any:
        return xp.argsort(x, axis=axis, kind="stable")

    def reversed_(x: Any) -> Any:
        return size - 1 - xp.flip(ascending(xp.flip(x, axis)), axis)

    return reversed_ if descending else ascending


@computes("argsort", dtypes=dt.REAL, widen=True)
def argsort(b: Binding) -> Step | None:
    """A stable sort."""
    if not b.input().rank:
        return None
    xp, axis, order = b.xp, b.attrs["axis"], _order(b, descending=b.attrs["descending"])

    def run(x: Any) -> tuple[Any, Any]:
        places = order(x)
        return xp.take_along_axis(x, places, axis), places

    return run


@computes("topk", dtypes=dt.REAL, widen=True)
def topk(b: Binding) -> Step | None:
    """The first part of a stable sort."""
    if not b.input().rank:
        return None
    xp = b.xp
    axis: int = b.attrs["axis"] % b.input().rank
    order = _order(b, descending=b.attrs["largest"])
    part = (*(slice(None),) * axis, slice(0, b.attrs["k"]))

    def run(x: Any) -> tuple[Any, Any]:
        places = order(x)[part]
        return xp.take_along_axis(x, places, axis), places

    return run


@computes("searchsorted", dtypes=_SORTABLE)
def searchsorted(b: Binding) -> Binary | None:
    """Row by row if there is more than one sequence."""
    xp, side = b.xp, "right" if b.attrs["right"] else "left"
    if b.input().rank == 1:
        return lambda sequence, values: xp.searchsorted(sequence, values, side)
    length, shape = b.input().shape[-1], b.input(1).shape

    def rows(sequences: Any, values: Any) -> Any:
        pairs = zip(sequences.reshape(-1, length), values.reshape(-1, shape[-1]), strict=True)
        found = [xp.searchsorted(s, v, side) for s, v in pairs]
        return xp.stack(found).reshape(shape) if found else xp.zeros(shape, dt.int64.np)

    return rows


@kernel("nonzero", backend=GPU, dtypes=dt.ANY, form="new")
def nonzero(b: Binding) -> Unary:
    """The number of rows depends on data, so the host waits for the result."""
    xp = b.xp
    return lambda x: xp.argwhere(x)


@kernel("unique", backend=GPU, dtypes=_SORTABLE, form="new")
def unique(b: Binding) -> Step | None:
    """The starts of runs of equals in a stable sort; rows are left to the rule of the op."""
    xp, attrs, counter = b.xp, b.attrs, b.attrs["dtype"].np
    if attrs["axis"]:
        return None

    def run(x: Any) -> tuple[Any, ...]:
        flat = x.reshape(-1)
        order = xp.argsort(flat, kind="stable")
        line = flat[order]
        starts = xp.ones(line.shape, dt.bool_.np)
        starts[1:] = line[1:] != line[:-1]
        (at,) = xp.nonzero(starts)
        index = counts = None
        if attrs["return_index"]:
            index = order[at].astype(counter)
        inverse = xp.zeros(flat.shape if attrs["return_inverse"] else (0,), counter)
        if attrs["return_inverse"]:
            inverse[order] = (xp.cumsum(starts) - 1).astype(counter)
        if attrs["return_counts"]:
            ends = xp.full(at.shape, line.size, at.dtype)
            ends[:-1] = at[1:]
            counts = (ends - at).astype(counter)
        return line[at], index, inverse, counts

    return run
