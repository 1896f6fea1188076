"""Triangles and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import IDEMPOTENT, MOVEMENT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import check_offset, normalize_axes, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = MOVEMENT


@op
class Tril:
    """The last two dimensions with 0 above the given diagonal.

    C1: `x` has at least two dimensions.
    """

    name = "pd_op.tril"
    traits = (IDEMPOTENT,)
    signature = "x ; diagonal: i32 = 0 -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)
    inplace = {"out": "x"}


@op
class Triu:
    """The last two dimensions with 0 below the given diagonal.

    C1: `x` has at least two dimensions.
    """

    name = "pd_op.triu"
    traits = (IDEMPOTENT,)
    signature = "x ; diagonal: i32 = 0 -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)
    inplace = {"out": "x"}


@infer_meta(Tril, Triu)
def _(x: TensorMeta, **_: object) -> TensorMeta:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    return x


@reference(Tril)
def _(x: Array, *, diagonal: int) -> Array:
    return np.tril(x, diagonal)


@reference(Triu)
def _(x: Array, *, diagonal: int) -> Array:
    return np.triu(x, diagonal)


@samples(Tril, Triu)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4))
    yield s(s.tensor(2, 3, 3), diagonal=-1)
    yield s(s.tensor(4, 3), diagonal=2)
    yield s(s.tensor(0, 3))


@bad_samples(Tril, Triu)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))


@op
class Diag:
    """A matrix with `x` on a diagonal; of a matrix, that diagonal.

    C1: `x` has at most two dimensions.
    """

    name = "pd_op.diag"
    signature = "x ; offset: i32 = 0, padding_value: f32 = 0.0 -> out"
    dtypes = dt.NUMBERS


@infer_meta(Diag)
def _(x: TensorMeta, *, offset: int, **_: object) -> TensorMeta:
    require(x.rank <= 2, "C1", f"shape {show(x.shape)} has more than two dimensions")
    check_offset(offset)
    if x.rank < 2:
        size = x.shape[0] if x.rank else 1
        side = size if size == UNKNOWN else size + abs(offset)
        return x.with_shape((side, side))
    rows, columns = x.shape
    if UNKNOWN in x.shape:
        return x.with_shape((UNKNOWN,))
    return x.with_shape((max(0, min(rows + min(offset, 0), columns - max(offset, 0))),))


@reference(Diag)
def _(x: Array, *, offset: int, padding_value: float) -> Array:
    if x.ndim == 2:
        return np.diagonal(x, offset).copy()
    values = np.atleast_1d(x)
    side = values.size + abs(offset)
    out = np.full((side, side), constant(padding_value, dt.of_array(x)))
    index = np.arange(values.size)
    out[index - min(offset, 0), index + max(offset, 0)] = values
    return out


@samples(Diag)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3), offset=1, padding_value=7.0)
    yield s(s.tensor(2), offset=-1)
    yield s(s.tensor(2, 3), offset=1)
    yield s(s.tensor(2, 3), offset=5)
    yield s(s.tensor(0))
    yield s(s.tensor())


@bad_samples(Diag)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 2, 2))


@op
class Diagonal:
    """The diagonal of the two dimensions `axis1` and `axis2`, which go, as a new last dimension.

    C1: `axis1` and `axis2` name different dimensions of `x`.
    """

    name = "pd_op.diagonal"
    signature = "x ; offset: i32 = 0, axis1: i32 = 0, axis2: i32 = 1 -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)


@infer_meta(Diagonal)
def _(x: TensorMeta, *, offset: int, axis1: int, axis2: int) -> TensorMeta:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    check_offset(offset)
    rows, columns = normalize_axes((axis1, axis2), x.rank)
    remaining = [d for i, d in enumerate(x.shape) if i not in (rows, columns)]
    height, width = x.shape[rows], x.shape[columns]
    if UNKNOWN in (height, width):
        return x.with_shape((*remaining, UNKNOWN))
    return x.with_shape((*remaining, max(0, min(height + min(offset, 0), width - max(offset, 0)))))


@reference(Diagonal)
def _(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    return np.diagonal(x, offset, axis1, axis2)


@samples(Diagonal)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4))
    yield s(s.tensor(2, 3, 4), offset=1, axis1=-1, axis2=0)
    yield s(s.tensor(4, 3, 2), offset=-2)
    yield s(s.tensor(2, 0, 3), axis1=1, axis2=2)


@bad_samples(Diagonal)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))
    yield "C1", s(s.tensor(2, 3), axis2=2)
    yield "C1", s(s.tensor(2, 3), axis1=1, axis2=-1)
