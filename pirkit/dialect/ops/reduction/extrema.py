"""Reductions to the maximum or minimum element.

An empty list of axes means all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.reduction.reduction import axes_of
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axes, reduced, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"

Axes = Sequence[int | None] | None


class _Extremum:
    """Extremum over `axis`; NaN if any element is NaN.

    C1: each axis names a dimension of `x`, and none twice.
    C2: no reduced dimension is empty.
    """

    signature = "x, axis: intarray = [] ; keepdim: bool = False -> out"
    dtypes = dt.REAL


@op
class Max(_Extremum):
    """Greatest element over `axis`; NaN if any element is NaN.

    C1: each axis names a dimension of `x`, and none twice.
    C2: no reduced dimension is empty.
    """

    name = "pd_op.max"
    library_ns = {"run": 33.0, "rows": 0.25}
    combiner = "max"


@op
class Min(_Extremum):
    """Least element over `axis`; NaN if any element is NaN.

    C1: each axis names a dimension of `x`, and none twice.
    C2: no reduced dimension is empty.
    """

    name = "pd_op.min"
    library_ns = {"run": 33.0, "rows": 0.25}
    combiner = "min"


class _EvenExtremum(_Extremum):
    """C1: each axis names a dimension of `x`, and none twice.
    C2: no reduced dimension is empty.
    """

    signature = "x ; axis: i64[] = [], keepdim: bool = False -> out"


@op
class Amax(_EvenExtremum):
    """As `max`; its gradient is shared evenly between equal elements."""

    name = "pd_op.amax"
    library_ns = {"run": 33.0, "rows": 0.25}
    combiner = "max"


@op
class Amin(_EvenExtremum):
    """As `min`; its gradient is shared evenly between equal elements."""

    name = "pd_op.amin"
    library_ns = {"run": 33.0, "rows": 0.25}
    combiner = "min"


@infer_meta(Max, Min, Amax, Amin)
def _(x: TensorMeta, *, axis: Axes, keepdim: bool) -> TensorMeta:
    out = reduced(x.shape, axis, keepdim)
    if axis is not None and None not in axis:
        given = normalize_axes([a for a in axis if a is not None], x.rank)
        lost = [x.shape[a] for a in (given or range(x.rank)) if a < x.rank]
        require(0 not in lost, "C2", f"a reduced dimension of {show(x.shape)} is empty")
    return x.with_shape(out)


@reference(Max, Amax)
def _(x: Array, *, axis: Sequence[int], keepdim: bool) -> Array:
    return np.asarray(np.max(x, axis=axes_of(x, axis), keepdims=keepdim))


@reference(Min, Amin)
def _(x: Array, *, axis: Sequence[int], keepdim: bool) -> Array:
    return np.asarray(np.min(x, axis=axes_of(x, axis), keepdims=keepdim))


@samples(Max, Min, Amax, Amin)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), axis=(0, -1))
    yield s(s.tensor(2, 3, 4), axis=(), keepdim=True)
    yield s(s.tensor(), axis=())
    yield s(s.tensor(0, 3), axis=(1,))


@bad_samples(Max, Min, Amax, Amin)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(2,))
    yield "C2", s(s.tensor(0, 3), axis=(0,))
