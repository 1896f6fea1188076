"""Norms of vectors: p_norm, frobenius_norm, norm, squared_l2_norm, renorm, dist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.reduction.reduction import axes_of
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, normalize_axis, reduced
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32, widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"


@op
class PNorm:
    """The `porder`-norm over one axis, or of all elements with `asvector`.

    Order 0 counts nonzero elements; infinite orders take the greatest or least magnitude. As in
    Paddle the norm of no elements is 0.

    C1: `axis` names a dimension of `x`.
    C2: `x` is a float tensor.
    """

    name = "pd_op.p_norm"
    signature = (
        "x ; porder: f32 = 2, axis: i32 = -1, epsilon: f32 = 1.0e-12, keepdim: bool = False,"
        " asvector: bool = False -> out"
    )
    dtypes = dt.FLOATS


@infer_meta(PNorm)
def _(x: TensorMeta, *, axis: int, keepdim: bool, asvector: bool, **_: object) -> TensorMeta:
    require(x.dtype in dt.FLOATS, "C2", f"{x} has no fractions")
    return x.with_shape(reduced(x.shape, () if asvector else (axis,), keepdim))


@reference(PNorm)
@in_f32
def _(x: Array, *, porder: float, axis: int, keepdim: bool, asvector: bool, **_: object) -> Array:
    axes = axes_of(x, () if asvector else (axis,))
    size = np.abs(x)
    if 0 in [x.shape[a] for a in axes]:
        return np.sum(size, axis=axes, keepdims=keepdim)
    if porder == 0:
        return np.sum(size != 0, axis=axes, keepdims=keepdim, dtype=x.dtype)
    if porder == np.inf:
        return np.max(size, axis=axes, keepdims=keepdim)
    if porder == -np.inf:
        return np.min(size, axis=axes, keepdims=keepdim)
    if porder == 2:
        return np.sqrt(np.sum(size * size, axis=axes, keepdims=keepdim))
    order = x.dtype.type(porder)
    return np.sum(size**order, axis=axes, keepdims=keepdim) ** (1 / order)


@op
class FrobeniusNorm:
    """Root of the sum of squares over `axis`.

    C1: each axis names a dimension of `x`, and none twice.
    """

    name = "pd_op.frobenius_norm"
    signature = "x, axis: intarray ; keep_dim: bool, reduce_all: bool -> out"
    dtypes = dt.FLOATS


@infer_meta(FrobeniusNorm)
def _(
    x: TensorMeta, *, axis: Sequence[int | None] | None, keep_dim: bool, reduce_all: bool
) -> TensorMeta:
    return x.with_shape(reduced(x.shape, () if reduce_all else axis, keep_dim))


@reference(FrobeniusNorm)
@in_f32
def _(x: Array, *, axis: Sequence[int], keep_dim: bool, reduce_all: bool) -> Array:
    axes = axes_of(x, axis, reduce_all)
    return np.sqrt(np.sum(x * x, axis=axes, keepdims=keep_dim, dtype=x.dtype))


@op
class Norm:
    """`x` divided by its 2-norm along `axis`, and that norm; `epsilon` keeps it from zero.

    C1: `axis` names a dimension of `x`.
    """

    name = "pd_op.norm"
    signature = "x ; axis: i32, epsilon: f32, is_test: bool -> out, norm~"
    dtypes = dt.FLOATS


@infer_meta(Norm)
def _(x: TensorMeta, *, axis: int, **_: object) -> tuple[TensorMeta, ...]:
    return x, _length(x, axis)


def _length(x: TensorMeta, axis: int) -> TensorMeta:
    return x.with_shape(reduced(x.shape, (axis,), keepdim=True))


@paddle_meta(Norm)
def _(x: TensorMeta, *, axis: int, is_test: bool, **_: object) -> tuple[TensorMeta, ...]:
    length = TensorMeta((0,), dt.float32) if is_test else _length(x, axis)
    return x, length


@reference(Norm)
def _(x: Array, *, axis: int, epsilon: float, **_: object) -> tuple[Array, ...]:
    wide = widened(x)
    squares = np.sum(wide * wide, axis=axes_of(x, (axis,)), keepdims=True, dtype=wide.dtype)
    length = np.asarray(np.sqrt(squares + wide.dtype.type(epsilon)))
    return np.asarray(wide / length).astype(x.dtype), length.astype(x.dtype)


@op
class SquaredL2Norm:
    """Sum of squares of all elements, of shape [1]."""

    name = "pd_op.squared_l2_norm"
    signature = "x -> out"
    dtypes = dt.FLOATS


@infer_meta(SquaredL2Norm)
def _(x: TensorMeta) -> TensorMeta:
    return x.with_shape((1,))


@reference(SquaredL2Norm)
@in_f32
def _(x: Array) -> Array:
    return np.sum(x * x, dtype=x.dtype).reshape(1)


@samples(FrobeniusNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=(0, 1), keep_dim=False, reduce_all=False)
    yield s(s.tensor(2, 3, 4), axis=(-1, 0), keep_dim=True, reduce_all=False)
    yield s(s.tensor(2, 3), axis=(), keep_dim=False, reduce_all=True)
    yield s(s.tensor(0, 2), axis=(0, 1), keep_dim=False, reduce_all=False)


@bad_samples(FrobeniusNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=(0, 2), keep_dim=False, reduce_all=False)
    yield "C1", s(s.tensor(2, 3), axis=(1, -1), keep_dim=False, reduce_all=False)


@samples(PNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    for order in (0.0, 1.0, 1.5, 2.0, float("inf"), float("-inf")):
        yield s(s.tensor(2, 3, 4), porder=order, axis=1)
    yield s(s.tensor(2, 3), porder=2.0, asvector=True, keepdim=True)


@samples(Norm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), axis=-1, epsilon=1e-10, is_test=False)
    yield s(s.tensor(2, 3, 4), axis=1, epsilon=1e-6, is_test=True)


@samples(SquaredL2Norm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(4))


@bad_samples(PNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2)
    yield "C2", s(s.ints((2, 3), 0, 5))


@bad_samples(Norm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), axis=2, epsilon=1e-10, is_test=False)


@op
class Renorm:
    """`x` with its slices along `axis` scaled down to the `p`-norm `max_norm` if they are longer.

    C1: `axis` names a dimension of `x`; Paddle's own op takes no negative one.
    C2: `p` is positive.
    """

    name = "pd_op.renorm"
    signature = "x ; p: f32, axis: i32, max_norm: f32 -> out"
    dtypes = (dt.float32, dt.float64)
    inplace = {"out": "x"}


@infer_meta(Renorm)
def _(x: TensorMeta, *, p: float, axis: int, **_: object) -> TensorMeta:
    normalize_axis(axis, x.rank)
    require(p > 0, "C2", f"there is no {p}-norm")
    return x


@reference(Renorm)
def _(x: Array, *, p: float, axis: int, max_norm: float) -> Array:
    others = tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    size, most = np.abs(x), x.dtype.type(max_norm)
    if p == np.inf:
        norm = np.max(size, axis=others, keepdims=True, initial=0)
    else:
        order = x.dtype.type(p)
        norm = np.sum(size**order, axis=others, keepdims=True) ** (1 / order)
    longer = norm > most
    return np.where(longer, x * (most / np.where(longer, norm, 1)), x)


@samples(Renorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), p=2.0, axis=0, max_norm=1.0)
    yield s(s.tensor(2, 3, 2), p=1.5, axis=1, max_norm=3.0)
    yield s(s.tensor(2, 3), p=1.0, axis=-1, max_norm=100.0)
    yield s(s.tensor(2, 3), p=float("inf"), axis=0, max_norm=1.0)
    yield s(s.tensor(3), p=2.0, axis=0, max_norm=0.5)
    yield s(s.tensor(2, 0), p=2.0, axis=0, max_norm=0.5)


@bad_samples(Renorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), p=2.0, axis=2, max_norm=1.0)
    yield "C2", s(s.tensor(2, 3), p=0.0, axis=0, max_norm=1.0)


@op
class Dist:
    """The `p`-norm of `x - y`, 0-D.

    C1: the shapes of `x` and `y` broadcast.
    C2: `x` and `y` are float tensors of one dtype.
    """

    name = "pd_op.dist"
    signature = "x, y ; p: f32 = 2.0 -> out"
    dtypes = dt.FLOATS


@infer_meta(Dist)
def _(x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    fits = x.dtype is y.dtype and x.dtype.is_float
    require(fits, "C2", f"dtypes {x.dtype} and {y.dtype} are not one float type")
    broadcast(x.shape, y.shape, constraint="C1")
    return x.with_shape(())


@reference(Dist)
def _(x: Array, y: Array, *, p: float) -> Array:
    difference = np.asarray(widened(x) - widened(y))
    length = reference.of(PNorm)(
        difference, porder=p, axis=-1, epsilon=0.0, keepdim=False, asvector=True
    )
    return np.asarray(length).astype(x.dtype)


@samples(Dist)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 1), s.tensor(3), p=3.0)
    yield s(s.tensor(2, 3), s.tensor(2, 3), p=0.0)
    yield s(s.tensor(2, 3), s.tensor(2, 3), p=float("inf"))
    yield s(s.tensor(), s.tensor(), p=1.0)


@bad_samples(Dist)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))
