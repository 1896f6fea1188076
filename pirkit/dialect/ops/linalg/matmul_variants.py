"""Matmul of several matrices, and matmul with a bias."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.linalg.linalg import add_product
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32, widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta, VecMeta

KIND = "contraction"


@op
class LinearV2:
    """`input @ weight + bias`, as `paddle.nn.functional.linear` writes it on GPUs.

    C1: `weight` is a matrix, of which the first dimension (with `transpose_weight` the last one)
    equals the last one of `input`.
    C2: `bias` broadcasts to the product.
    """

    name = "pd_op.linear_v2"
    signature = "input, weight, bias ; transpose_weight: bool = False -> out"
    dtypes = dt.FLOATS
    same_dtype = ("input", "weight", "bias")


@infer_meta(LinearV2)
def _(
    input: TensorMeta, weight: TensorMeta, bias: TensorMeta, *, transpose_weight: bool
) -> TensorMeta:
    sizes = weight.shape[::-1] if transpose_weight else weight.shape
    fits = input.rank > 0 and len(sizes) == 2 and same_dim(input.shape[-1], sizes[0])
    require(fits, "C1", f"input {show(input.shape)} and weight {show(weight.shape)}")
    out = (*input.shape[:-1], sizes[1])
    fits = bias.rank <= 1 and all(d == 1 or same_dim(d, out[-1]) for d in bias.shape)
    require(fits, "C2", f"{show(bias.shape)} does not broadcast to {show(out)}")
    return input.with_shape(out)


@reference(LinearV2)
@in_f32
def _(input: Array, weight: Array, bias: Array, *, transpose_weight: bool) -> Array:
    return np.matmul(input, weight.T if transpose_weight else weight) + bias


@samples(LinearV2)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(3, 4), s.tensor(4))
    yield s(s.tensor(2, 5, 3), s.tensor(4, 3), s.tensor(4), transpose_weight=True)
    yield s(s.tensor(3), s.tensor(3, 4), s.tensor(4))


@bad_samples(LinearV2)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(4, 3), s.tensor(3))
    yield "C2", s(s.tensor(2, 3), s.tensor(3, 4), s.tensor(3))


@op
class Baddbmm:
    """`beta * input + alpha * (x @ y)` for each pair of matrices of two batches.

    A factor of 0 leaves its term out, as in `addmm`.

    C1: `x` and `y` have three dimensions, and their batches are equal.
    C2: the last dimension of `x` equals the middle one of `y`.
    C3: `input` broadcasts to the product.
    """

    name = "pd_op.baddbmm"
    signature = "input, x, y ; beta: f32 = 1.0, alpha: f32 = 1.0 -> out"
    dtypes = (dt.float32, dt.float64)
    same_dtype = ("input", "x", "y")
    inplace = {"out": "input"}


@infer_meta(Baddbmm)
def _(input: TensorMeta, x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    batches = x.rank == y.rank == 3 and same_dim(x.shape[0], y.shape[0])
    require(batches, "C1", f"{show(x.shape)} and {show(y.shape)} are no batches of matrices")
    require(same_dim(x.shape[2], y.shape[1]), "C2", f"inner sizes {x.shape[2]} and {y.shape[1]}")
    out = (x.shape[0], x.shape[1], y.shape[2])
    fits = input.rank in (2, 3) and all(
        d == 1 or same_dim(d, o) for d, o in zip(input.shape, out[3 - input.rank :], strict=True)
    )
    require(fits, "C3", f"{show(input.shape)} does not broadcast to {show(out)}")
    return x.with_shape(out)


reference(Baddbmm)(add_product)


@samples(Baddbmm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 5), s.tensor(2, 3, 4), s.tensor(2, 4, 5), beta=0.5, alpha=2.0)
    yield s(s.tensor(1, 3, 5), s.tensor(2, 3, 4), s.tensor(2, 4, 5))


@bad_samples(Baddbmm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3, 5), s.tensor(2, 3, 4), s.tensor(3, 4, 5))
    yield "C2", s(s.tensor(2, 3, 5), s.tensor(2, 3, 4), s.tensor(2, 3, 5))
    yield "C3", s(s.tensor(2, 4, 5), s.tensor(2, 3, 4), s.tensor(2, 4, 5))


@op
class Bilinear:
    """`x @ weight[k] @ y` for each row of `x` and `y` and each matrix of `weight`, plus `bias`.

    C1: `x` and `y` are matrices with as many rows.
    C2: `weight` has shape [outputs, columns of `x`, columns of `y`].
    C3: `bias` is one row with an element for each matrix.
    """

    name = "pd_op.bilinear"
    signature = "x, y, weight, bias? -> out"
    dtypes = (dt.float32, dt.float64)
    same_dtype = ("x", "y", "weight", "bias")


@infer_meta(Bilinear)
def _(x: TensorMeta, y: TensorMeta, weight: TensorMeta, bias: TensorMeta | None) -> TensorMeta:
    rows = x.rank == y.rank == 2 and same_dim(x.shape[0], y.shape[0])
    require(rows, "C1", f"{show(x.shape)} and {show(y.shape)} are no rows of equal number")
    sizes = (x.shape[1], y.shape[1])
    fits = weight.rank == 3 and all(map(same_dim, weight.shape[1:], sizes))
    require(fits, "C2", f"weight {show(weight.shape)} for rows of {sizes[0]} and {sizes[1]}")
    one_row = bias is None or (
        bias.rank == 2 and all(map(same_dim, bias.shape, (1, weight.shape[0])))
    )
    require(one_row, "C3", "bias is no row with an element for each matrix")
    return x.with_shape((x.shape[0], weight.shape[0]))


@reference(Bilinear)
def _(x: Array, y: Array, weight: Array, bias: Array | None) -> Array:
    rows = np.einsum("bm,omn,bn->bo", *map(widened, (x, weight, y)), optimize=True)
    return (rows if bias is None else rows + bias).astype(x.dtype)


@samples(Bilinear)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 4), s.tensor(5, 3, 4), s.tensor(1, 5))
    yield s(s.tensor(2, 3), s.tensor(2, 4), s.tensor(5, 3, 4), None)


@bad_samples(Bilinear)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(3, 4), s.tensor(5, 3, 4))
    yield "C2", s(s.tensor(2, 3), s.tensor(2, 4), s.tensor(5, 4, 3))
    yield "C3", s(s.tensor(2, 3), s.tensor(2, 4), s.tensor(5, 3, 4), s.tensor(5))


@op
class MultiDot:
    """Product of two or more matrices; the first and the last may be vectors.

    C1: there are at least two, and those between the first and the last are matrices.
    C2: inner dimensions are equal.
    C3: all have one dtype.
    """

    name = "pd_op.multi_dot"
    signature = "x[] -> out"
    dtypes = dt.FLOATS


@infer_meta(MultiDot)
def _(x: VecMeta) -> TensorMeta:
    items = x.items
    require(len(items) >= 2, "C1", f"{len(items)} matrices")
    ends = all(item.rank in (1, 2) for item in (items[0], items[-1]))
    inside = all(item.rank == 2 for item in items[1:-1])
    require(ends and inside, "C1", "a factor is no matrix")
    all_equal = len({item.dtype for item in items}) == 1
    require(all_equal, "C3", f"dtypes {', '.join(item.dtype.name for item in items)} differ")
    for left, right in pairwise(items):
        agree = same_dim(left.shape[-1], right.shape[0])
        require(agree, "C2", f"{show(left.shape)} before {show(right.shape)}")
    return items[0].with_shape((*items[0].shape[:-1], *items[-1].shape[1:]))


@reference(MultiDot)
def _(x: list[Array]) -> Array:
    wide = [widened(item) for item in x]
    return np.asarray(np.linalg.multi_dot(wide)).astype(x[0].dtype)


@samples(MultiDot)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(3, 4), s.tensor(4, 2), s.tensor(2, 5)])
    yield s([s.tensor(3), s.tensor(3, 2), s.tensor(2)])
    yield s([s.tensor(2, 3), s.tensor(3, 2)])


@bad_samples(MultiDot)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.tensor(3, 4)])
    yield "C1", s([s.tensor(3, 4), s.tensor(4), s.tensor(4, 4)])
    yield "C2", s([s.tensor(3, 4), s.tensor(3, 4)])
    other = dt.FLOATS[s.dtype is dt.FLOATS[0]]
    yield "C3", s([s.tensor(3, 4), s.tensor(4, 4, dtype=other)])
