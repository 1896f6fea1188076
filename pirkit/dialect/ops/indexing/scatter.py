"""Scatters: writes at computed indices by scatter, scatter_nd_add, put_along_axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final, cast

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.indexing import check_fills, check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "scatter"


@op
class Scatter:
    """`x` with the rows `index` replaced by `updates`; the last of several writes stays.

    Without `overwrite` the rows are set to zero and all their updates added.

    C1: `index` is 0-D, 1-D or of shape [n, 1], of int32 or int64.
    C2: there is one update per index.
    C3: `x` has rows, and those of `updates` have their shape and dtype.
    C4: each index lies in `[-rows, rows)`.
    """

    name = "pd_op.scatter"
    signature = "x, index, updates ; overwrite: bool = True -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}


@infer_meta(Scatter)
def _(x: TensorMeta, index: TensorMeta, updates: TensorMeta, **_: object) -> TensorMeta:
    require(_is_index(index), "C1", f"index is a {index}")
    require(x.rank > 0, "C3", "a tensor without dimensions has no rows")
    count = 1 if index.rank == 0 else index.shape[0]
    single = index.rank == 0 and updates.rank == x.rank - 1
    if not single:
        require(
            updates.rank == x.rank and same_dim(updates.shape[0], count),
            "C2",
            f"{count} indices and updates of shape {show(updates.shape)}",
        )
    rows = updates.shape if single else updates.shape[1:]
    same = updates.dtype is x.dtype and all(map(same_dim, rows, x.shape[1:]))
    require(same, "C3", f"updates are a {updates}, x is a {x}")
    return x


def _is_index(index: TensorMeta) -> bool:
    shaped = index.rank < 2 or (index.rank == 2 and index.shape[1] in (1, UNKNOWN))
    return shaped and index.dtype in (dt.int32, dt.int64)


@reference(Scatter)
def _(x: Array, index: Array, updates: Array, *, overwrite: bool) -> Array:
    places = index.reshape(-1)
    check_index(places, x.shape[0], "C4")
    rows = updates.reshape((places.size, *x.shape[1:]))
    out = x.copy()
    if overwrite:
        out[places] = rows
        return out
    sums = np.zeros_like(widened(out))
    np.add.at(sums, places, widened(rows))
    out[places] = sums[places].astype(x.dtype)
    return out


@op
class ScatterNdAdd:
    """`x` plus `updates` at the coordinates in the last dimension of `index`.

    C1: `index` has at least one dimension, the last no longer than the rank of `x`.
    C2: `updates` has the shape of what `gather_nd` reads at `index`.
    C3: each index lies in its dimension.
    """

    name = "pd_op.scatter_nd_add"
    library_ns = {"written": 1.4}
    signature = "x, index, updates -> out"
    dtypes = dt.NUMBERS
    same_dtype = ("x", "updates")


@infer_meta(ScatterNdAdd)
def _(x: TensorMeta, index: TensorMeta, updates: TensorMeta) -> TensorMeta:
    depth = index.shape[-1] if index.rank else 0
    fits = index.rank > 0 and index.dtype in (dt.int32, dt.int64) and depth <= x.rank
    require(fits, "C1", f"index is a {index} for a tensor of rank {x.rank}")
    if depth == UNKNOWN:
        return x
    want = (*index.shape[:-1], *x.shape[depth:])
    same = updates.rank == len(want) and all(map(same_dim, updates.shape, want))
    require(same, "C2", f"updates have shape {show(updates.shape)}, expected {show(want)}")
    return x


@reference(ScatterNdAdd)
def _(x: Array, index: Array, updates: Array) -> Array:
    places = tuple(np.moveaxis(index, -1, 0))
    for axis, place in enumerate(places):
        check_index(place, x.shape[axis], "C3")
    out = widened(x).copy()
    if places:
        np.add.at(out, places, widened(updates))
    else:
        out += widened(updates).reshape(prod(index.shape[:-1]), *x.shape).sum(0)
    return out.astype(x.dtype)


_UFUNCS: Final = {
    "add": "add", "mul": "multiply", "multiply": "multiply", "amin": "minimum", "amax": "maximum",
    "mean": "add",
}  # fmt: skip
_NEUTRAL: Final[dict[str, Callable[[np.dtype[Any]], Any]]] = {
    "add": lambda _: 0,
    "mean": lambda _: 0,
    "mul": lambda _: 1,
    "multiply": lambda _: 1,
    "amin": lambda d: np.inf if d.kind == "f" else np.iinfo(d).max,
    "amax": lambda d: -np.inf if d.kind == "f" else np.iinfo(d).min,
}


@op
class PutAlongAxis:
    """`arr` with `values` written at `indices` along `axis`, combined as `reduce` says.

    `include_self` counts the old element among those combined.

    C1: `axis` names a dimension of `arr`.
    C2: `arr`, `indices` and `values` have the same rank, and `indices` int32 or int64.
    C3: `reduce` is assign, add, mul, multiply, amin, amax or mean.
    C4: each index lies in its dimension.
    C5: `add` takes complex and real numbers of 32 bits and more; the others, real ones.
    C6: `values` broadcasts to `indices`, which is nowhere larger than `arr` but along `axis`.
    """

    name = "pd_op.put_along_axis"
    library_ns = {"written": 1.5}
    same_dtype = ("arr", "values")
    signature = (
        "arr, indices, values ; axis: i32, reduce: str = assign, include_self: bool = True -> out"
    )
    dtypes = dt.ANY
    inplace = {"out": "arr"}


@infer_meta(PutAlongAxis)
def _(
    arr: TensorMeta, indices: TensorMeta, values: TensorMeta, *, axis: int, reduce: str, **_: object
) -> TensorMeta:
    at = normalize_axis(axis, arr.rank)
    fits = indices.rank == arr.rank and indices.dtype in dt.INTS
    require(fits, "C2", f"indices are a {indices} for a tensor of rank {arr.rank}")
    require(values.rank in (0, arr.rank), "C2", f"values of rank {values.rank}, arr of {arr.rank}")
    known = reduce == "assign" or reduce in _UFUNCS
    require(known, "C3", f"there is no reduction {reduce!r}")
    adds = reduce == "add" and arr.dtype.is_complex
    require(reduce == "assign" or adds or arr.dtype in dt.REAL, "C5", f"{reduce} of {arr.dtype}")
    check_fills(values.shape, indices.shape, "C6", "the values")
    sizes = enumerate(zip(indices.shape, arr.shape, strict=True))
    inside = all(k == at or UNKNOWN in pair or pair[0] <= pair[1] for k, pair in sizes)
    require(inside, "C6", f"indices of {show(indices.shape)} for a tensor of {show(arr.shape)}")
    return arr


@reference(PutAlongAxis)
def _(
    arr: Array, indices: Array, values: Array, *, axis: int, reduce: str, include_self: bool
) -> Array:
    at = normalize_axis(axis, arr.ndim)
    check_index(indices, arr.shape[at] if arr.ndim else 1, "C4")
    if arr.ndim == 0:
        arr, indices = arr.reshape(1), indices.reshape(1)
        return _put(arr, indices, values.reshape(1), 0, reduce, include_self).reshape(())
    return _put(arr, indices, values, at, reduce, include_self)


def _put(
    arr: Array, indices: Array, values: Array, axis: int, reduce: str, include_self: bool
) -> Array:
    values = np.broadcast_to(values, indices.shape)
    grid: list[Array] = [*cast("tuple[Array, ...]", np.indices(indices.shape, sparse=True))]
    grid[axis] = indices
    places = tuple(grid)
    if reduce == "assign":
        out = arr.copy()
        out[places] = values
        return out
    out = widened(arr).copy()
    if not include_self:
        out[places] = _NEUTRAL[reduce](out.dtype)
    getattr(np, _UFUNCS[reduce]).at(out, places, widened(values))
    if reduce == "mean":
        count = np.full(out.shape, int(include_self))
        np.add.at(count, places, 1)
        touched = np.zeros(out.shape, bool)
        touched[places] = True
        mean = out / np.maximum(count, 1)
        out = np.where(touched, np.floor(mean) if out.dtype.kind in "iu" else mean, out)
    return out.astype(arr.dtype)


@samples(Scatter)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(4, 2)
    yield s(x, s.array([2, 0], dt.int64), s.tensor(2, 2))
    yield s(x, s.array([1, 1], dt.int32), s.tensor(2, 2), overwrite=False)
    yield s(x, s.array([[3], [-1]], dt.int64), s.tensor(2, 2))
    yield s(s.tensor(3), s.array([1], dt.int64), s.tensor(1))


@samples(ScatterNdAdd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 2), s.array([[1, 0], [1, 0]], dt.int64), s.tensor(2))
    yield s(s.tensor(3, 2), s.array([[2], [0]], dt.int32), s.tensor(2, 2))
    yield s(s.tensor(3), s.array([1], dt.int64), s.tensor())
    yield s(s.tensor(3), s.ints((2, 0), 0, 1), s.tensor(2, 3))


@samples(PutAlongAxis)
def _(s: SampleMaker) -> Iterator[Sample]:
    arr, places = s.tensor(2, 3), s.array([[0, 0], [2, 1]], dt.int64)
    yield s(arr, s.array([[1, 0, 1]], dt.int64), s.tensor(1, 3), axis=0, reduce="assign")
    if s.dtype not in dt.REAL:
        return
    for reduce in ("add", "mul", "amin", "amax", "mean"):
        yield s(arr, places, s.tensor(2, 2), axis=1, reduce=reduce)
    yield s(arr, places, s.tensor(2, 2), axis=1, reduce="add", include_self=False)


@bad_samples(Scatter)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 2)
    yield "C1", s(x, s.array([[0, 1]], dt.int64), s.tensor(1, 2))
    yield "C2", s(x, s.array([0, 1], dt.int64), s.tensor(3, 2))
    yield "C3", s(x, s.array([0, 1], dt.int64), s.tensor(2, 3))
    yield "C3", s(s.tensor(), s.array([0], dt.int64), s.tensor(1))
    yield "C4", s(x, s.array([0, 4], dt.int64), s.tensor(2, 2))


@bad_samples(ScatterNdAdd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(3, 2)
    yield "C1", s(x, s.array([[0, 0, 0]], dt.int64), s.tensor(1))
    yield "C2", s(x, s.array([[0, 0]], dt.int64), s.tensor(2))
    yield "C3", s(x, s.array([[3, 0]], dt.int64), s.tensor(1))


@bad_samples(PutAlongAxis)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    arr, places, values = s.tensor(2, 3), s.array([[0], [1]], dt.int64), s.tensor(2, 1)
    yield "C1", s(arr, places, values, axis=2)
    yield "C2", s(arr, s.array([0], dt.int64), values, axis=1)
    yield "C2", s(arr, s.array([[0], [1]], dt.float32), values, axis=1)
    yield "C3", s(arr, places, values, axis=1, reduce="max")
    yield "C6", s(arr, places, s.tensor(2, 3), axis=1)
    yield "C6", s(arr, s.ints((3, 1), 0, 2), values[:1], axis=1)
    yield "C4", s(arr, s.array([[0], [3]], dt.int64), values, axis=1)
    yield "C5", s(s.bools(2, 3), places, s.bools(2, 1), axis=1, reduce="add")
