"""Sorting and indices of extrema: argmax, argsort, topk.

Between equal elements the first one wins.
"""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import ORDERS
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, reduced, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "sort"


class _ArgExtremum:
    """Position of an extremum.

    C1: `axis` names a dimension of `x`.
    C2: the searched dimension is not empty.
    C3: `dtype` is int32 or int64.
    """

    signature = (
        "x, axis: i64 ; keepdims: bool = False, flatten: bool = False, dtype: dtype = int64 -> out"
    )
    dtypes = dt.REAL


@op
class ArgMax(_ArgExtremum):
    """Position of the greatest element along `axis`, or in the flattened tensor.

    NaN counts as less than everything, as in Paddle.

    C1: `axis` names a dimension of `x`.
    C2: the searched dimension is not empty.
    C3: `dtype` is int32 or int64.
    """

    name = "pd_op.argmax"
    extremum = "max"
    library_ns = {"columns": 0.5}


@op
class ArgMin(_ArgExtremum):
    """Position of the least element along `axis`, or in the flattened tensor.

    NaN counts as greater than everything, as in Paddle.

    C1: `axis` names a dimension of `x`.
    C2: the searched dimension is not empty.
    C3: `dtype` is int32 or int64.
    """

    name = "pd_op.argmin"
    extremum = "min"
    library_ns = {"columns": 0.5}


@infer_meta(ArgMax, ArgMin)
def _(
    x: TensorMeta, *, axis: int | None, keepdims: bool, flatten: bool, dtype: DType | None
) -> TensorMeta:
    out = dtype or dt.int64
    require(out in (dt.int32, dt.int64), "C3", f"dtype {out} cannot count positions")
    if flatten:
        require(0 not in x.shape, "C2", f"a tensor of shape {show(x.shape)} has no extremum")
        return TensorMeta((1,) * x.rank if keepdims else (), out)
    shape = reduced(x.shape, (axis,), keepdims) if x.rank else ()
    if axis is not None and x.rank:
        size = x.shape[normalize_axis(axis, x.rank)]
        require(size != 0, "C2", f"dimension {axis} of {show(x.shape)} is empty")
    return TensorMeta(shape, out)


@reference(ArgMax)
def _(x: Array, *, axis: int, keepdims: bool, flatten: bool, dtype: DType | None) -> Array:
    return _position(x, axis, keepdims, flatten, dtype, greatest=True)


@reference(ArgMin)
def _(x: Array, *, axis: int, keepdims: bool, flatten: bool, dtype: DType | None) -> Array:
    return _position(x, axis, keepdims, flatten, dtype, greatest=False)


def _position(
    x: Array, axis: int, keepdims: bool, flatten: bool, dtype: DType | None, *, greatest: bool
) -> Array:
    target = (dtype or dt.int64).np
    if x.ndim == 0:
        return np.zeros((), target)
    wide = widened(x)
    if wide.dtype.kind == "f":
        wide = np.where(np.isnan(wide), -np.inf if greatest else np.inf, wide)
    find = np.argmax if greatest else np.argmin
    if not flatten:
        return np.asarray(find(wide, axis=axis, keepdims=keepdims)).astype(target)
    found = np.asarray(find(wide)).astype(target)
    return found.reshape((1,) * x.ndim) if keepdims else found


@op
class ArgSort:
    """`x` sorted along `axis`, and where each element came from; NaN is greatest.

    C1: `axis` names a dimension of `x`.
    """

    name = "pd_op.argsort"
    signature = "x ; axis: i32 = -1, descending: bool = False, stable: bool = False -> out, indices"
    dtypes = dt.REAL
    traits = (ORDERS,)


@infer_meta(ArgSort)
def _(x: TensorMeta, *, axis: int, **_: object) -> tuple[TensorMeta, ...]:
    normalize_axis(axis, x.rank)
    return x, x.with_dtype(dt.int64)


@reference(ArgSort)
def _(x: Array, *, axis: int, descending: bool, **_: object) -> tuple[Array, ...]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    order = _order(x, axis, descending)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Indices that sort, stable in both directions."""
    wide = widened(x)
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(wide, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backwards, axis)


@op
class TopK:
    """The `k` greatest (or least) elements along `axis` in order, and where they stand.

    C1: `axis` names a dimension of `x`.
    C2: `k` is between 1 and the size of that dimension.
    """

    name = "pd_op.topk"
    signature = (
        "x, k: i32 = 1 ; axis: i32 = -1, largest: bool = True, sorted: bool = True -> out, indices"
    )
    dtypes = dt.REAL
    traits = (ORDERS,)


@infer_meta(TopK)
def _(x: TensorMeta, *, k: int | None, axis: int, **_: object) -> tuple[TensorMeta, ...]:
    at = normalize_axis(axis, x.rank)
    if x.rank == 0:
        require(k in (None, 1), "C2", f"k is {k} for a tensor without dimensions")
        return x, x.with_dtype(dt.int64)
    size = x.shape[at]
    if k is not None:
        fits = k >= 1 and (size == UNKNOWN or k <= size)
        require(fits, "C2", f"k is {k} for a dimension of {size}")
    shape = (*x.shape[:at], UNKNOWN if k is None else k, *x.shape[at + 1 :])
    return x.with_shape(shape), TensorMeta(shape, dt.int64)


@reference(TopK)
def _(x: Array, *, k: int, axis: int, largest: bool, **_: object) -> tuple[Array, ...]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    require(1 <= k <= x.shape[axis], "C2", f"k is {k} for a dimension of {x.shape[axis]}")
    order = np.take(_order(x, axis, descending=largest), np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


@samples(ArgMax, ArgMin)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=-1)
    yield s(s.tensor(2, 3), axis=0, keepdims=True, dtype=dt.int32)
    yield s(s.tensor(2, 3), axis=0, flatten=True)
    yield s(s.tensor(2, 3), axis=0, flatten=True, keepdims=True)
    yield s(s.tensor(), axis=0)


@samples(ArgSort)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 5), axis=-1, stable=True)
    yield s(s.tensor(4, 2), axis=0, descending=True, stable=True)
    yield s(s.tensor(), axis=0)
    yield s(s.tensor(0, 3))


@samples(TopK)
def _(s: SampleMaker) -> Iterator[Sample]:
    values = s.array([[3, 1, 2, 5], [7, 0, 6, 4]])
    yield s(values, k=2)
    yield s(values, k=1, axis=0, largest=False)
    yield s(values, k=4, axis=1)


@bad_samples(ArgMax, ArgMin)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.tensor(0, 3), axis=0)
    yield "C3", s(s.tensor(2, 3), axis=0, dtype=dt.float32)


@bad_samples(ArgSort)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)


@bad_samples(TopK)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.tensor(2, 3), k=4)
