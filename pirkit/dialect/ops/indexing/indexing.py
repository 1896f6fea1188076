"""Slices: slice, strided_slice, and the gathers with one index per slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.kinds import TAKE, VIEW
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axes
from pirkit.runtime import dtype as dt
from pirkit.runtime.indexing import check_index, places, window
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "gather"

Sizes = Sequence[int | None] | None


def extent(size: int, start: int | None, end: int | None, step: int | None = 1) -> int:
    """How many elements ``start:end:step`` takes of a dimension, as Python slices it.

    Unknown when one of them is.
    """
    if size == UNKNOWN or start is None or end is None or step is None:
        return UNKNOWN
    return len(range(*places(size, start, end, step).indices(size)))


@op
class Slice:
    """The part of `input` from `starts` to `ends` along `axes`; `decrease_axis` then go.

    Negative numbers count from the end; all are clamped to the dimension. Where an element of
    `infer_flags` is -1, Paddle does not infer the size of the result.

    C1: `axes` name dimensions of `input`, and none twice.
    C2: there is one start and one end per axis.
    C3: a dimension of `decrease_axis` has one element left.
    """

    name = "pd_op.slice"
    kind = VIEW
    signature = (
        "input, starts: intarray, ends: intarray ; axes: i64[], infer_flags: i64[] = [],"
        " decrease_axis: i64[] = [] -> out"
    )
    dtypes = dt.ANY


@infer_meta(Slice)
def _(
    input: TensorMeta,
    *,
    starts: Sizes,
    ends: Sizes,
    axes: Sequence[int],
    decrease_axis: Sequence[int],
    **_: object,
) -> TensorMeta:
    found = _axes(axes, input)
    dims = list(input.shape)
    _require_one_each(axes, starts, ends)
    for i, axis in enumerate(found):
        dims[axis] = extent(dims[axis], _entry(starts, i), _entry(ends, i))
    gone = _axes(decrease_axis, input, "C3", "decrease_axis")
    for axis in gone:
        require(dims[axis] in (1, UNKNOWN), "C3", f"dimension {axis} keeps {dims[axis]} elements")
    return input.with_shape(d for i, d in enumerate(dims) if i not in gone)


def _axes(
    axes: Sequence[int], x: TensorMeta, constraint: str = "C1", what: str = "axis"
) -> tuple[int, ...]:
    """Axes counted from the front. Raises ConstraintError for one that ``x`` does not have."""
    require(x.rank > 0 or not axes, constraint, "a tensor without dimensions has no axis")
    return normalize_axes(axes, x.rank, constraint, what)


def _entry(numbers: Sizes, i: int) -> int | None:
    return None if numbers is None else numbers[i]


def _require_one_each(axes: Sequence[int], *bounds: Sizes) -> None:
    for numbers in bounds:
        if numbers is not None:
            require(len(numbers) == len(axes), "C2", f"{len(numbers)} bounds for {len(axes)} axes")


@reference(Slice)
def _(
    input: Array,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    decrease_axis: Sequence[int],
    **_: object,
) -> Array:
    out = input[tuple(window(input.shape, axes, starts, ends))]
    for axis in decrease_axis:
        require(out.shape[axis] == 1, "C3", f"dimension {axis} keeps {out.shape[axis]} elements")
    return np.squeeze(out, axis=tuple(decrease_axis))


@op
class StridedSlice:
    """The elements of `x` from `starts` to `ends` in steps of `strides` along `axes`.

    C1: `axes` name dimensions of `x`, and none twice.
    C2: there is one start, end and stride per axis.
    C3: no stride is 0.
    """

    name = "pd_op.strided_slice"
    kind = VIEW
    signature = "x, starts: intarray, ends: intarray, strides: intarray ; axes: i32[] -> out"
    dtypes = dt.ANY


@infer_meta(StridedSlice)
def _(
    x: TensorMeta, *, starts: Sizes, ends: Sizes, strides: Sizes, axes: Sequence[int]
) -> TensorMeta:
    dims = list(x.shape)
    _require_one_each(axes, starts, ends, strides)
    for i, axis in enumerate(_axes(axes, x)):
        step = _entry(strides, i)
        require(step != 0, "C3", f"the stride of axis {axis} is 0")
        dims[axis] = extent(dims[axis], _entry(starts, i), _entry(ends, i), step)
    return x.with_shape(dims)


@reference(StridedSlice)
def _(
    x: Array,
    *,
    starts: Sequence[int],
    ends: Sequence[int],
    strides: Sequence[int],
    axes: Sequence[int],
) -> Array:
    return x[tuple(window(x.shape, axes, starts, ends, strides))]


@op
class Gather:
    """The slices of `x` at `index` along `axis`.

    C1: `axis` names a dimension of `x`.
    C2: `index` is 0-D, 1-D or of shape [n, 1], of int32 or int64.
    C3: each index lies in `[-size, size)`.
    """

    name = "pd_op.gather"
    traits = (TAKE,)
    signature = "x, index, axis: i32 = 0 -> out"
    dtypes = dt.ANY


@infer_meta(Gather)
def _(x: TensorMeta, index: TensorMeta, *, axis: int | None) -> TensorMeta:
    shaped = index.rank < 2 or (index.rank == 2 and index.shape[1] in (1, UNKNOWN))
    require(shaped and index.dtype in dt.INTS, "C2", f"index is a {index}")
    count = () if index.rank == 0 else index.shape[:1]
    if axis is None:
        return x.with_shape((UNKNOWN,) * (x.rank - 1 + len(count)))
    (at,) = _axes((axis,), x)
    return x.with_shape((*x.shape[:at], *count, *x.shape[at + 1 :]))


@reference(Gather)
def _(x: Array, index: Array, *, axis: int) -> Array:
    check_index(index, x.shape[axis], "C3")
    return np.take(x, index.reshape(-1) if index.ndim == 2 else index, axis=axis)


@op
class IndexSelect:
    """The slices of `x` at the indices in the 1-D `index` along `axis`.

    C1: `axis` names a dimension of `x`.
    C2: `index` is 1-D, of int32 or int64.
    C3: each index lies in `[-size, size)`.
    """

    name = "pd_op.index_select"
    traits = (TAKE,)
    signature = "x, index ; axis: i32 = 0 -> out"
    dtypes = dt.ANY


@infer_meta(IndexSelect)
def _(x: TensorMeta, index: TensorMeta, *, axis: int) -> TensorMeta:
    (at,) = _axes((axis,), x)
    require(index.rank == 1 and index.dtype in dt.INTS, "C2", f"index is a {index}")
    return x.with_shape((*x.shape[:at], index.shape[0], *x.shape[at + 1 :]))


@reference(IndexSelect)
def _(x: Array, index: Array, *, axis: int) -> Array:
    check_index(index, x.shape[axis], "C3")
    return np.take(x, index, axis=axis)


@op
class Embedding:
    """The rows of `weight` that `x` names; the row `padding_idx` reads as zeros.

    A `padding_idx` of -1 is none.

    C1: `weight` is a matrix.
    C2: `x` holds int32, int64, int16, int8 or uint8.
    C3: each index lies in `[0, rows)`.
    """

    name = "pd_op.embedding"
    signature = "x, weight ; padding_idx: i64 = -1, sparse: bool = False -> out"
    dtypes = dt.INTS


@op
class EmbeddingWithScaledGradient:
    """`embedding`, whose gradient of a row is divided by how often `x` names it.

    `scale_grad_by_freq` of `paddle.nn.functional.embedding` makes it.

    C1: `weight` is a matrix.
    C2: `x` holds int32, int64, int16, int8 or uint8.
    C3: each index lies in `[0, rows)`.
    """

    name = "pd_op.embedding_with_scaled_gradient"
    signature = "x, weight ; padding_idx: i64 = -1 -> out"
    dtypes = dt.INTS


@infer_meta(Embedding, EmbeddingWithScaledGradient)
def _(x: TensorMeta, weight: TensorMeta, **_: object) -> TensorMeta:
    require(weight.rank == 2, "C1", f"weight is a {weight}")
    require(x.dtype.is_integer, "C2", f"x is a {x}")
    return weight.with_shape((*x.shape, weight.shape[1]))


@reference(Embedding, EmbeddingWithScaledGradient)
def _(x: Array, weight: Array, *, padding_idx: int, **_: object) -> Array:
    check_index(x, weight.shape[0], "C3", from_end=False)
    out = np.take(weight, x, axis=0)
    if padding_idx != -1:
        out[x == padding_idx] = 0
    return out


# --- samples -------------------------------------------------------------------------------------


@samples(Slice)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(4, 5, 6)
    yield s(x, axes=(1,), starts=(1,), ends=(3,), infer_flags=(1,))
    yield s(x, axes=(0, 2), starts=(-2, 1), ends=(100, -1), infer_flags=(1, 1))
    yield s(x, axes=(0,), starts=(2,), ends=(3,), infer_flags=(1,), decrease_axis=(0,))
    yield s(x, axes=(1,), starts=(3,), ends=(2,), infer_flags=(1,))
    yield s(s.tensor(3), axes=(0,), starts=(-1,), ends=(3,), infer_flags=(1,), decrease_axis=(0,))
    yield s(s.tensor(), axes=(), starts=(), ends=(), infer_flags=())


@samples(StridedSlice)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(4, 7)
    yield s(x, axes=(1,), starts=(1,), ends=(6,), strides=(2,))
    yield s(x, axes=(0, 1), starts=(3, -1), ends=(0, -5), strides=(-1, -2))
    yield s(x, axes=(1,), starts=(6,), ends=(-100,), strides=(-3,))
    yield s(x, axes=(0, 1), starts=(9, 100), ends=(-100, 2), strides=(-1, -2))
    yield s(x, axes=(1,), starts=(-100,), ends=(100,), strides=(3,))
    yield s(s.tensor(), axes=(), starts=(), ends=(), strides=())


@samples(Gather)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(4, 3)
    yield s(x, s.ints((5,), 0, 4))
    yield s(x, s.array([0, -1, 2], dt.int32), axis=1)
    yield s(s.tensor(2, 4, 3), s.array([3, 1], dt.int64), axis=1)
    yield s(x, s.array([[3], [0]], dt.int64))
    yield s(x, s.array(2, dt.int64))
    yield s(x, s.ints((0,), 0, 1))


@samples(IndexSelect)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(4, 3)
    yield s(s.tensor(2, 4, 3), s.array([3, 1], dt.int64), axis=1)
    yield s(x, s.ints((5,), 0, 4))
    yield s(x, s.array([0, -1, 2], dt.int32), axis=-1)


@samples(Embedding, EmbeddingWithScaledGradient)
def _(s: SampleMaker) -> Iterator[Sample]:
    weight = s.tensor(5, 3, dtype=dt.float32)
    yield s(s.array([[0, 4], [2, 2]]), weight)
    yield s(s.array([1, 2]), weight, padding_idx=2)
    yield s(s.array([0, 3]), weight, padding_idx=0)
    yield s(s.array(3), s.tensor(5, 3, dtype=dt.bfloat16))
    yield s(s.tensor(0, low=0, high=1), weight)


@bad_samples(Slice)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 5)
    yield "C1", s(x, axes=(2,), starts=(0,), ends=(1,))
    yield "C1", s(s.tensor(), axes=(0,), starts=(0,), ends=(1,))
    yield "C2", s(x, axes=(0,), starts=(0, 1), ends=(1,))
    yield "C3", s(x, axes=(0,), starts=(0,), ends=(2,), decrease_axis=(0,))


@bad_samples(StridedSlice)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 5)
    yield "C1", s(x, axes=(0, 0), starts=(0, 0), ends=(1, 1), strides=(1, 1))
    yield "C1", s(s.tensor(), axes=(-1,), starts=(0,), ends=(1,), strides=(1,))
    yield "C2", s(x, axes=(0,), starts=(0,), ends=(1,), strides=(1, 1))
    yield "C3", s(x, axes=(0,), starts=(0,), ends=(1,), strides=(0,))


@bad_samples(Gather)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 3)
    yield "C1", s(x, s.ints((2,), 0, 3), axis=2)
    yield "C2", s(x, s.ints((2, 2), 0, 3))
    yield "C3", s(x, s.array([4], dt.int64))


@bad_samples(IndexSelect)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(4, 3)
    yield "C1", s(x, s.ints((2,), 0, 3), axis=2)
    yield "C2", s(x, s.ints((2, 1), 0, 3))
    yield "C3", s(x, s.array([-5], dt.int64))


@bad_samples(Embedding, EmbeddingWithScaledGradient)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    weight = s.tensor(5, 3, dtype=dt.float32)
    yield "C1", s(s.array([1]), s.tensor(5, dtype=dt.float32))
    yield "C2", s(s.tensor(2, dtype=dt.float32), weight)
    yield "C3", s(s.array([5]), weight)
