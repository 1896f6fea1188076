"""Matmul and related products."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, mul_dims, normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, deferred, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class Matmul:
    """Matrix product over the last two dimensions; leading dimensions broadcast.

    A vector on the left is a row, on the right a column; the transpose flag of a vector is ignored.

    C1: `x` and `y` have at least one dimension.
    C2: the last dimension of `x` equals the second-last of `y`, after transposition.
    C3: the leading dimensions broadcast.
    C4: `x` and `y` have the same dtype.
    """

    name = "pd_op.matmul"
    signature = "x, y ; transpose_x: bool = False, transpose_y: bool = False -> out"
    dtypes = dt.NUMBERS


@infer_meta(Matmul)
def _(x: TensorMeta, y: TensorMeta, *, transpose_x: bool, transpose_y: bool) -> TensorMeta:
    require(x.rank > 0 and y.rank > 0, "C1", "an operand of matmul has no dimensions")
    require(x.dtype is y.dtype, "C4", f"dtypes {x.dtype} and {y.dtype} differ")
    xs = x.shape if x.rank == 1 or not transpose_x else (*x.shape[:-2], x.shape[-1], x.shape[-2])
    ys = y.shape if y.rank == 1 or not transpose_y else (*y.shape[:-2], y.shape[-1], y.shape[-2])
    k_y = ys[-1] if y.rank == 1 else ys[-2]
    require(
        same_dim(xs[-1], k_y),
        "C2",
        f"inner dimensions {xs[-1]} and {k_y} of {show(x.shape)} and {show(y.shape)} differ",
        help="a `transpose_x` or `transpose_y` flag may be missing",
    )
    batch = broadcast(xs[:-2], ys[:-2], constraint="C3")
    rows = () if x.rank == 1 else (xs[-2],)
    columns = () if y.rank == 1 else (ys[-1],)
    return TensorMeta((*batch, *rows, *columns), x.dtype)


@paddle_meta(Matmul)
def _(x: TensorMeta, y: TensorMeta, **flags: bool) -> TensorMeta:
    """Paddle keeps the leading dimensions of the operand of higher rank, unbroadcast."""
    found = infer_meta.of(Matmul)(x, y, **flags)
    longer = x if x.rank >= y.rank else y
    lead = longer.shape[:-2]
    return found.with_shape((*lead, *found.shape[len(lead) :]))


@reference(Matmul)
def _(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    a = x.swapaxes(-1, -2) if transpose_x and x.ndim > 1 else x
    b = y.swapaxes(-1, -2) if transpose_y and y.ndim > 1 else y
    return in_f32(np.matmul)(a, b)


@samples(Matmul)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(3, 4))
    yield s(s.tensor(3, 2), s.tensor(4, 3), transpose_x=True, transpose_y=True)
    yield s(s.tensor(2, 1, 3), s.tensor(4, 1), transpose_x=True, transpose_y=True)
    yield s(s.tensor(2, 5, 3, 4), s.tensor(5, 4, 2))
    yield s(s.tensor(2, 1, 3, 4), s.tensor(2, 5, 4, 2))
    yield s(s.tensor(3), s.tensor(3))
    yield s(s.tensor(2, 3), s.tensor(3))
    yield s(s.tensor(2, 0), s.tensor(0, 4))


@bad_samples(Matmul)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(), s.tensor(3))
    yield "C2", s(s.tensor(2, 3), s.tensor(4, 5))
    yield "C3", s(s.tensor(2, 2, 3), s.tensor(3, 3, 5))
    yield "C4", s(s.tensor(2, 3, dtype=dt.float32), s.tensor(3, 4, dtype=dt.float64))


@op
class Bmm:
    """Matrix product of each pair of matrices in two batches.

    C1: `x` and `y` have three dimensions.
    C2: the batch sizes are equal.
    C3: the last dimension of `x` equals the middle one of `y`.
    C4: `x` and `y` have the same dtype.
    """

    name = "pd_op.bmm"
    signature = "x, y -> out"
    dtypes = dt.FLOATS


@infer_meta(Bmm)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(x.rank == y.rank == 3, "C1", f"ranks {x.rank} and {y.rank} are not 3")
    require(x.dtype is y.dtype, "C4", f"dtypes {x.dtype} and {y.dtype} differ")
    require(same_dim(x.shape[0], y.shape[0]), "C2", f"batches {x.shape[0]} and {y.shape[0]} differ")
    require(
        same_dim(x.shape[2], y.shape[1]),
        "C3",
        f"inner dimensions {x.shape[2]} and {y.shape[1]} differ",
    )
    batch = y.shape[0] if x.shape[0] == UNKNOWN else x.shape[0]
    return x.with_shape((batch, x.shape[1], y.shape[2]))


reference(Bmm)(in_f32(deferred.matmul))


@samples(Bmm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), s.tensor(2, 4, 5))
    yield s(s.tensor(0, 2, 3), s.tensor(0, 3, 4))


@bad_samples(Bmm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4), s.tensor(2, 4, 5))
    yield "C2", s(s.tensor(2, 3, 4), s.tensor(3, 4, 5))
    yield "C3", s(s.tensor(2, 3, 4), s.tensor(2, 3, 5))
    yield "C4", s(s.tensor(2, 3, 4, dtype=dt.float32), s.tensor(2, 4, 5, dtype=dt.float64))


@op
class Dot:
    """Sum of `x * y` over the last dimension; complex numbers are not conjugated.

    C1: `x` has one or two dimensions.
    C2: `x` and `y` have the same shape.
    C3: `x` and `y` have the same dtype.
    """

    name = "pd_op.dot"
    signature = "x, y -> out"
    dtypes = dt.NUMBERS


@infer_meta(Dot)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(x.rank in (1, 2), "C1", f"`x` has {x.rank} dimensions")
    require(
        x.rank == y.rank and all(map(same_dim, x.shape, y.shape)),
        "C2",
        f"shapes {show(x.shape)} and {show(y.shape)} differ",
    )
    require(x.dtype is y.dtype, "C3", f"dtypes {x.dtype} and {y.dtype} differ")
    rows = y.shape[:-1] if UNKNOWN in x.shape[:-1] else x.shape[:-1]
    return x.with_shape(rows)


@reference(Dot)
@in_f32
def _(x: Array, y: Array) -> Array:
    return (x * y).sum(axis=-1, dtype=x.dtype)


@samples(Dot)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(5), s.tensor(5))
    yield s(s.tensor(3, 4), s.tensor(3, 4))
    yield s(s.tensor(2, 0), s.tensor(2, 0))


@bad_samples(Dot)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3, 4), s.tensor(2, 3, 4))
    yield "C2", s(s.tensor(3), s.tensor(4))
    yield "C3", s(s.tensor(3, dtype=dt.float32), s.tensor(3, dtype=dt.float64))


@op
class Mv:
    """Product of a matrix and a vector.

    C1: `x` has two dimensions and `vec` one.
    C2: the last dimension of `x` equals the size of `vec`.
    C3: `x` and `vec` have the same dtype.
    """

    name = "pd_op.mv"
    signature = "x, vec -> out"
    dtypes = dt.FLOATS


@infer_meta(Mv)
def _(x: TensorMeta, vec: TensorMeta) -> TensorMeta:
    require(x.rank == 2 and vec.rank == 1, "C1", f"ranks are {x.rank} and {vec.rank}, not 2 and 1")
    require(same_dim(x.shape[1], vec.shape[0]), "C2", f"{x.shape[1]} and {vec.shape[0]} differ")
    require(x.dtype is vec.dtype, "C3", f"dtypes {x.dtype} and {vec.dtype} differ")
    return x.with_shape(x.shape[:1])


reference(Mv)(in_f32(deferred.matmul))


@samples(Mv)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(4))


@bad_samples(Mv)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3, 4), s.tensor(4))
    yield "C2", s(s.tensor(3, 4), s.tensor(3))
    yield "C3", s(s.tensor(3, 4, dtype=dt.float32), s.tensor(4, dtype=dt.float64))


@op
class Addmm:
    """`beta * input + alpha * (x @ y)`.

    As in BLAS, a factor of 0 leaves its term out, also where that is infinite or NaN.

    C1: `x` and `y` have two dimensions, `input` one or two.
    C2: the last dimension of `x` equals the first of `y`.
    C3: `input` broadcasts to the shape of the product.
    C4: the operands have the same dtype.
    """

    name = "pd_op.addmm"
    signature = "input, x, y ; beta: f32 = 1.0, alpha: f32 = 1.0 -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "input"}


@infer_meta(Addmm)
def _(input: TensorMeta, x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    require(
        x.rank == y.rank == 2 and input.rank in (1, 2),
        "C1",
        f"ranks of `input`, `x` and `y` are {input.rank}, {x.rank} and {y.rank}",
    )
    require(same_dim(x.shape[1], y.shape[0]), "C2", f"{x.shape[1]} and {y.shape[0]} differ")
    require(
        input.dtype is x.dtype is y.dtype,
        "C4",
        f"dtypes {input.dtype}, {x.dtype} and {y.dtype} differ",
    )
    product = (x.shape[0], y.shape[1])
    out = broadcast(input.shape, product, constraint="C3")
    require(
        all(map(same_dim, out, product)),
        "C3",
        f"`input` of shape {show(input.shape)} is larger than the product {show(product)}",
    )
    return x.with_shape(product)


@in_f32
def add_product(input: Array, x: Array, y: Array, *, beta: float, alpha: float) -> Array:
    """``beta * input + alpha * (x @ y)`` without the terms whose factor is 0."""
    number = x.dtype.type
    product = np.matmul(x, y)
    total = number(alpha) * product if alpha else np.zeros_like(product)
    return number(beta) * input + total if beta else total


reference(Addmm)(add_product)


@samples(Addmm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 5), s.tensor(3, 4), s.tensor(4, 5), beta=0.5, alpha=2.0)
    yield s(s.tensor(5), s.tensor(3, 4), s.tensor(4, 5))
    yield s(s.tensor(1, 5), s.tensor(3, 4), s.tensor(4, 5))
    yield s(s.array([np.nan, 1.0]), s.tensor(3, 4), s.tensor(4, 2), beta=0.0)
    yield s(s.tensor(3, 2), s.tensor(3, 4), s.array(np.full((4, 2), np.inf)), alpha=0.0)


@bad_samples(Addmm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 5), s.tensor(4), s.tensor(4, 5))
    yield "C2", s(s.tensor(3, 5), s.tensor(3, 2), s.tensor(4, 5))
    yield "C3", s(s.tensor(2, 5), s.tensor(3, 4), s.tensor(4, 5))
    yield "C3", s(s.tensor(3, 5), s.tensor(1, 4), s.tensor(4, 5))
    yield "C4", s(s.tensor(3, 5, dtype=dt.int64), s.tensor(3, 4), s.tensor(4, 5))


@op
class Cross:
    """Cross product of the vectors of three elements along `axis`.

    `axis` 9 stands for the first dimension of size 3.

    C1: `x` and `y` have the same shape and dtype.
    C2: `axis` lies within the rank, or is 9.
    C3: the dimension at `axis` has size 3.
    C4: the elements are no bools, which cannot be subtracted.
    """

    name = "pd_op.cross"
    signature = "x, y ; axis: i32 = 9 -> out"
    dtypes = dt.NUMBERS


_FIRST_OF_THREE = 9


@infer_meta(Cross)
def _(x: TensorMeta, y: TensorMeta, *, axis: int) -> TensorMeta:
    require(
        x.rank == y.rank and all(map(same_dim, x.shape, y.shape)) and x.dtype is y.dtype,
        "C1",
        f"{x} and {y} differ",
    )
    require(x.dtype is not dt.bool_, "C4", f"{x} has no differences")
    if axis == _FIRST_OF_THREE:
        require(3 in x.shape or not x.is_static, "C3", f"no dimension of {show(x.shape)} is 3")
    else:
        size = x.shape[normalize_axis(axis, x.rank, "C2")] if x.rank else 1
        require(same_dim(size, 3), "C3", f"dimension {axis} of {show(x.shape)} is not 3")
    return x.with_shape(a if a != UNKNOWN else b for a, b in zip(x.shape, y.shape, strict=True))


@reference(Cross)
@in_f32
def _(x: Array, y: Array, *, axis: int) -> Array:
    return np.cross(x, y, axis=x.shape.index(3) if axis == _FIRST_OF_THREE else axis)


@samples(Cross)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(3, 2, 3), s.tensor(3, 2, 3))
    yield s(s.tensor(3, 2, 3), s.tensor(3, 2, 3), axis=-1)


@bad_samples(Cross)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3, 3))
    yield "C2", s(s.tensor(2, 3), s.tensor(2, 3), axis=2)
    yield "C3", s(s.tensor(2, 3), s.tensor(2, 3), axis=0)
    yield "C3", s(s.tensor(2, 4), s.tensor(2, 4))
    yield "C4", s(s.tensor(2, 3, dtype=dt.bool_), s.tensor(2, 3, dtype=dt.bool_))


@op
class Kron:
    """Kronecker product; the operand of lower rank gets leading dimensions of 1.

    C1: `x` and `y` have the same dtype.
    """

    name = "pd_op.kron"
    signature = "x, y -> out"
    dtypes = dt.NUMBERS


@infer_meta(Kron)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(x.dtype is y.dtype, "C1", f"dtypes {x.dtype} and {y.dtype} differ")
    rank = max(x.rank, y.rank)
    xs, ys = ((1,) * (rank - m.rank) + m.shape for m in (x, y))
    return x.with_shape(map(mul_dims, xs, ys))


reference(Kron)(in_f32(deferred.kron))


@samples(Kron)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(3, 2))
    yield s(s.tensor(2), s.tensor(1, 3, 2))


@bad_samples(Kron)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))
