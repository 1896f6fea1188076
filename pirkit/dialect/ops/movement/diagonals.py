"""Filling, placing and summing diagonals; the indices of triangles."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import MOVEMENT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import add_dims, check_offset, normalize_axes, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant, widened
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta
from pirkit.runtime.place import CPU

KIND = MOVEMENT

_ELEMENTS = (*dt.NUMBERS, dt.bool_)


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """How many elements a diagonal has; UNKNOWN if a size is."""
    if UNKNOWN in (rows, columns):
        return UNKNOWN
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


@op
class Trace:
    """Sum of the diagonal of the dimensions `axis1` and `axis2`, which go.

    C1: `axis1` and `axis2` name different dimensions of `x`.
    """

    name = "pd_op.trace"
    signature = "x ; offset: i32 = 0, axis1: i32 = 0, axis2: i32 = 1 -> out"
    dtypes = dt.NUMBERS


@infer_meta(Trace)
def _(x: TensorMeta, *, offset: int, axis1: int, axis2: int) -> TensorMeta:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    check_offset(offset)
    gone = normalize_axes((axis1, axis2), x.rank)
    return x.with_shape(d for i, d in enumerate(x.shape) if i not in gone)


@reference(Trace)
def _(x: Array, *, offset: int, axis1: int, axis2: int) -> Array:
    wide = widened(x)
    total = np.diagonal(wide, offset, axis1, axis2).sum(-1, dtype=wide.dtype)
    return np.asarray(total).astype(x.dtype)


@samples(Trace)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4))
    yield s(s.tensor(2, 3, 4), offset=1, axis1=-1, axis2=0)
    yield s(s.tensor(4, 3, 2), offset=-2)


@bad_samples(Trace)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))
    yield "C1", s(s.tensor(2, 3), axis1=1, axis2=-1)


@op
class DiagEmbed:
    """Matrices of zeros in the dimensions `dim1` and `dim2` with the last dimension on a diagonal.

    C1: `input` has a dimension.
    C2: `dim1` and `dim2` name different dimensions of the result.
    """

    name = "pd_op.diag_embed"
    signature = "input ; offset: i32 = 0, dim1: i32 = -2, dim2: i32 = -1 -> out"
    dtypes = dt.NUMBERS


@infer_meta(DiagEmbed)
def _(input: TensorMeta, *, offset: int, dim1: int, dim2: int) -> TensorMeta:
    require(input.rank >= 1, "C1", "a tensor without dimensions has no diagonal")
    first, second = sorted(normalize_axes((dim1, dim2), input.rank + 1, "C2", "dim"))
    side = add_dims(input.shape[-1], abs(offset))
    shape = list(input.shape[:-1])
    shape.insert(first, side)
    shape.insert(second, side)
    return input.with_shape(shape)


@reference(DiagEmbed)
def _(input: Array, *, offset: int, dim1: int, dim2: int) -> Array:
    size = int(input.shape[-1])
    side = size + abs(offset)
    out = np.zeros((*input.shape[:-1], side, side), input.dtype)
    index = np.arange(size)
    out[..., index - min(offset, 0), index + max(offset, 0)] = input
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


@samples(DiagEmbed)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3), offset=1, dim1=0, dim2=-1)
    yield s(s.tensor(3), offset=-2, dim1=1, dim2=0)


@bad_samples(DiagEmbed)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor())
    yield "C2", s(s.tensor(2, 3), dim1=3)
    yield "C2", s(s.tensor(2, 3), dim1=0, dim2=-3)


@op
class FillDiagonal:
    """`value` on a diagonal of a matrix, or of a cube of any rank, moved along the last dimension.

    `wrap` begins a new diagonal below a tall matrix, one row after the last. A cube has one
    diagonal in any case; without `wrap`, Paddle fills its first matrix only.

    C1: `x` has at least two dimensions, and equal ones if they are more than two.
    """

    name = "pd_op.fill_diagonal"
    signature = "x ; value: f32 = 0, offset: i32 = 0, wrap: bool = False -> out"
    dtypes = _ELEMENTS
    inplace = {"out": "x"}


@infer_meta(FillDiagonal)
def _(x: TensorMeta, **_: object) -> TensorMeta:
    cube = x.rank == 2 or all(same_dim(x.shape[0], d) for d in x.shape)
    require(x.rank >= 2 and cube, "C1", f"shape {show(x.shape)} has no diagonal to fill")
    return x


@reference(FillDiagonal)
def _(x: Array, *, value: float, offset: int, wrap: bool) -> Array:
    out = x.copy()
    filler = constant(value, dt.of_array(x))
    if x.ndim > 2:
        index = np.arange(int(x.shape[0]))
        index = index[(index >= -offset) & (index < x.shape[0] - offset)]
        out[(*(index,) * (x.ndim - 1), index + offset)] = filler
        return out
    columns = int(x.shape[1])
    end = x.size if wrap else min(x.size, columns * columns)
    main = np.arange(0, end, columns + 1)
    shifted = main % max(columns, 1) + offset
    out.reshape(-1)[main[(shifted >= 0) & (shifted < columns)] + offset] = filler
    return out


@samples(FillDiagonal)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 3), value=1.0)
    yield s(s.tensor(5, 2), value=1.0, wrap=True)
    yield s(s.tensor(2, 2, 2), value=1.0)
    yield s(s.tensor(3, 3, 3), value=1.0, offset=-1, wrap=True)


@bad_samples(FillDiagonal)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3))
    yield "C1", s(s.tensor(2, 3, 2))


@op
class FillDiagonalTensor:
    """`y` on the diagonal of the dimensions `dim1` and `dim2`; its last dimension runs along it.

    C1: `dim1` and `dim2` name different dimensions of `x`.
    C2: `y` has the other dimensions of `x` and the length of the diagonal.
    C3: `y` has the dtype of `x`.
    """

    name = "pd_op.fill_diagonal_tensor"
    signature = "x, y ; offset: i64 = 0, dim1: i32 = 0, dim2: i32 = 1 -> out"
    dtypes = _ELEMENTS
    inplace = {"out": "x"}


@infer_meta(FillDiagonalTensor)
def _(x: TensorMeta, y: TensorMeta, *, offset: int, dim1: int, dim2: int) -> TensorMeta:
    require(x.rank >= 2, "C1", f"shape {show(x.shape)} is no matrix")
    rows, columns = normalize_axes((dim1, dim2), x.rank, "C1", "dim")
    others = [d for i, d in enumerate(x.shape) if i not in (rows, columns)]
    length = diagonal_length(x.shape[rows], x.shape[columns], offset)
    given = y.shape[1:] if x.rank == y.rank == 2 and same_dim(y.shape[0], 1) else y.shape
    fits = len(given) == x.rank - 1 and all(map(same_dim, given, (*others, length)))
    require(fits, "C2", f"{show(y.shape)} on a diagonal of {show((*others, length))}")
    require(x.dtype is y.dtype, "C3", f"{y.dtype} on a diagonal of {x.dtype}")
    return x


@reference(FillDiagonalTensor)
def _(x: Array, y: Array, *, offset: int, dim1: int, dim2: int) -> Array:
    out = x.copy()
    matrices = np.moveaxis(out, (dim1, dim2), (-2, -1))
    index = np.arange(int(y.shape[-1]))
    matrices[..., index - min(offset, 0), index + max(offset, 0)] = y if x.ndim > 2 else y.ravel()
    return out


@samples(FillDiagonalTensor)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 5), s.tensor(4))
    yield s(s.tensor(4, 5), s.tensor(1, 4))
    yield s(s.tensor(2, 3, 4), s.tensor(2, 3), offset=1, dim1=1, dim2=2)
    yield s(s.tensor(4, 2, 3), s.tensor(2, 3), offset=-1, dim1=0, dim2=-1)


@bad_samples(FillDiagonalTensor)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), s.tensor(3))
    yield "C1", s(s.tensor(2, 3), s.tensor(2), dim2=0)
    yield "C2", s(s.tensor(2, 3), s.tensor(3))
    yield "C3", s(s.tensor(2, 3), s.bools(2) if s.dtype is not dt.bool_ else s.ints((2,), 0, 1))


@op
class TrilIndices:
    """Rows and columns of the elements on and below a diagonal of a matrix.

    C1: no size is negative.
    """

    name = "pd_op.tril_indices"
    signature = "; rows: i32, cols: i32, offset: i32, dtype: dtype, place: place = undefined -> out"


@op
class TriuIndices:
    """Rows and columns of the elements on and above a diagonal of a matrix.

    C1: no size is negative.
    """

    name = "pd_op.triu_indices"
    signature = "; row: i32, col: i32, offset: i32, dtype: dtype, place: place = undefined -> out"


@infer_meta(TrilIndices)
def _(*, rows: int, cols: int, offset: int, dtype: DType, **_: object) -> TensorMeta:
    require(rows >= 0 and cols >= 0, "C1", f"a matrix of {rows} x {cols}")
    return TensorMeta((2, _below(rows, cols, offset)), dtype)


def _below(rows: int, columns: int, offset: int) -> int:
    """How many elements of a matrix lie on and below a diagonal; row k has k + offset + 1 of them,
    but not fewer than none nor more than all.
    """
    first = min(max(0, -offset), rows)
    full = min(max(first, columns - offset - 1), rows)  # from this row on they are all
    return (full - first) * (first + full + 1 + 2 * offset) // 2 + (rows - full) * columns


@infer_meta(TriuIndices)
def _(*, row: int, col: int, offset: int, dtype: DType, **_: object) -> TensorMeta:
    require(row >= 0 and col >= 0, "C1", f"a matrix of {row} x {col}")
    return TensorMeta((2, row * col - _below(row, col, offset - 1)), dtype)


@reference(TrilIndices)
def _(*, rows: int, cols: int, offset: int, dtype: DType, **_: object) -> Array:
    columns = np.clip(np.arange(1, rows + 1) + offset, 0, cols)
    return _of_rows(np.zeros_like(columns), columns, dtype)


@reference(TriuIndices)
def _(*, row: int, col: int, offset: int, dtype: DType, **_: object) -> Array:
    row = min(row, max(col - offset, 0))  # the rows below are empty
    first = np.clip(np.arange(row) + offset, 0, col)
    return _of_rows(first, col - first, dtype)


def _of_rows(first: Array, counts: Array, dtype: DType) -> Array:
    """The indices of ``counts[k]`` elements of each row k, from ``first[k]`` on.

    A matrix is not made, as it may be larger than the memory where its triangle is small.
    """
    rows = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    columns = np.arange(len(rows)) + np.repeat(first - starts, counts)
    return np.stack([rows, columns]).astype(dtype.np)


@samples(TrilIndices)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(rows=3, cols=4, offset=-1, dtype=dt.int64, place=CPU)
    yield s(rows=2, cols=2, offset=1, dtype=dt.int32)


@samples(TriuIndices)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(row=3, col=4, offset=1, dtype=dt.int64, place=CPU)
    yield s(row=2, col=2, offset=-1, dtype=dt.int32)


@bad_samples(TrilIndices)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(rows=-1, cols=4, offset=0, dtype=dt.int64)


@bad_samples(TriuIndices)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(row=-1, col=4, offset=0, dtype=dt.int64)
