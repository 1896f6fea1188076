"""Cumulative sums and products."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pirkit.dialect.kinds import CUMULATIVE_PRODUCT, CUMULATIVE_SUM
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, numel
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "scan"


@op
class CumSum:
    """Sums of the elements up to each one along `axis`, or of the flattened tensor.

    `exclusive` leaves the element itself out; `reverse` counts from the end.

    C1: `axis` names a dimension of `x`.
    """

    name = "pd_op.cumsum"
    signature = (
        "x, axis: i64 = -1 ; flatten: bool = False, exclusive: bool = False,"
        " reverse: bool = False -> out"
    )
    dtypes = (*dt.NUMBERS, dt.uint8, dt.int8, dt.int16)
    inplace = {"out": "x"}
    traits = (CUMULATIVE_SUM,)


@op
class CumProd:
    """Products of the elements up to each one along `dim`.

    C1: `dim` names a dimension of `x`.
    """

    name = "pd_op.cumprod"
    signature = "x ; dim: i32, exclusive: bool = False, reverse: bool = False -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}
    traits = (CUMULATIVE_PRODUCT,)


@op
class LogCumSumExp:
    """Logarithm of `cumsum` of exponentials, stable for large elements.

    Where `exclusive` leaves no element it is the least number of the dtype.

    C1: `axis` names a dimension of `x`.
    """

    name = "pd_op.logcumsumexp"
    signature = (
        "x ; axis: i32 = -1, flatten: bool = False, exclusive: bool = False,"
        " reverse: bool = False -> out"
    )
    dtypes = dt.FLOATS


@infer_meta(CumSum, LogCumSumExp)
def _(x: TensorMeta, *, axis: int | None, flatten: bool, **_: object) -> TensorMeta:
    if flatten:
        return x.with_shape((numel(x.shape),))
    if axis is not None:
        normalize_axis(axis, x.rank)
    return x


@infer_meta(CumProd)
def _(x: TensorMeta, *, dim: int, **_: object) -> TensorMeta:
    normalize_axis(dim, x.rank, what="dim")
    return x


@reference(CumSum)
def _(x: Array, *, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    flat = x.reshape(-1) if flatten else x
    return _scan(np.cumsum, flat, -1 if flatten else axis, exclusive, reverse, start=0)


@reference(LogCumSumExp)
def _(x: Array, *, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    flat = x.reshape(-1) if flatten else x
    least = float(dt.of_array(x).limits.min)
    run = np.logaddexp.accumulate
    return _scan(run, flat, -1 if flatten else axis, exclusive, reverse, start=least)


@reference(CumProd)
def _(x: Array, *, dim: int, exclusive: bool, reverse: bool) -> Array:
    return _scan(np.cumprod, x, dim, exclusive, reverse, start=1)


def _scan(
    run: Callable[..., Array], x: Array, axis: int, exclusive: bool, reverse: bool, start: float
) -> Array:
    if x.ndim == 0:
        return np.full((), start, x.dtype) if exclusive else x.copy()
    wide = widened(np.flip(x, axis) if reverse else x)
    out = run(wide, axis=axis, dtype=wide.dtype)
    if exclusive and out.shape[axis]:
        out = np.roll(out, 1, axis=axis)
        first = [slice(None)] * out.ndim
        first[axis] = slice(0, 1)
        out[tuple(first)] = start
    return (np.flip(out, axis) if reverse else out).astype(x.dtype)


@samples(CumSum, LogCumSumExp)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=-1)
    yield s(s.tensor(2, 3), axis=0, exclusive=True)
    yield s(s.tensor(2, 3), axis=1, reverse=True, exclusive=True)
    yield s(s.tensor(2, 3), flatten=True)
    yield s(s.tensor(), axis=0)
    yield s(s.tensor(0, 3), axis=0)


@samples(CumProd)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), dim=-1)
    yield s(s.tensor(2, 3), dim=0, exclusive=True)
    yield s(s.tensor(2, 3), dim=1, reverse=True)


@bad_samples(CumSum, LogCumSumExp)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)


@bad_samples(CumProd)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), dim=2)
