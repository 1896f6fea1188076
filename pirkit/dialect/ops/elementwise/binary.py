"""Less common arithmetic between tensors: signs, steps, neighbours, interpolation."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE, EXACT
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
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


@op
class CopySign:
    """The absolute value of `x` with the sign of `y`; -0.0 and NaN have signs too.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal.
    """

    name = "pd_op.copysign"
    traits = (EXACT,)
    signature = "x, y -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}


@op
class NextAfter:
    """The number next to `x` in the direction of `y`.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal.
    """

    name = "pd_op.nextafter"
    cost = COSTLY
    signature = "x, y -> out"
    dtypes = (dt.float32, dt.float64)


@op
class Heaviside:
    """0 where `x` is negative or NaN, 1 where it is positive, `y` where it is 0.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal.
    """

    name = "pd_op.heaviside"
    signature = "x, y -> out"
    dtypes = dt.REAL


@op
class Lerp:
    """`x + weight * (y - x)`.

    C1: the shapes broadcast.
    C2: the dtypes are equal.
    """

    name = "pd_op.lerp"
    signature = "x, y, weight -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "x"}


@infer_meta(CopySign, NextAfter, Heaviside, Lerp)
def _(x: TensorMeta, *others: TensorMeta) -> TensorMeta:
    same = all(o.dtype is x.dtype for o in others)
    require(same, "C2", f"dtypes {x.dtype} and {', '.join(o.dtype.name for o in others)} differ")
    return x.with_shape(broadcast(x.shape, *(o.shape for o in others), constraint="C1"))


@reference(CopySign)
@in_f32
def _(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":  # it is widened
        return np.copysign(x, y)
    size = x if x.dtype.kind == "b" else np.abs(x)  # a bool has no sign
    return np.where(y < 0, size if x.dtype.kind == "b" else -size, size)


@reference(NextAfter)
def _(x: Array, y: Array) -> Array:
    return np.asarray(np.nextafter(x, y))  # of two 0-D arrays, numpy makes a scalar


@reference(Heaviside)
@in_f32
def _(x: Array, y: Array) -> Array:
    step = (x > 0).astype(x.dtype)
    return np.where(x == 0, y, step)


@reference(Lerp)
@in_f32
def _(x: Array, y: Array, weight: Array) -> Array:
    return x + weight * (y - x)


@samples(CopySign, NextAfter, Heaviside)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.array([-1, 0, 2]), s.tensor(2, 1))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(0, 3), s.tensor(3))


@samples(Lerp)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3), s.tensor())
    yield s(s.tensor(2, 1), s.tensor(3), s.tensor(1))
    yield s(s.tensor(0, 3), s.tensor(0, 3), s.tensor(1))


@bad_samples(CopySign, NextAfter, Heaviside)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))


@bad_samples(Lerp)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4), s.tensor())
    yield "C2", s(s.tensor(2), s.tensor(2), s.tensor(dtype=dt.float64))


class _Shift:
    """C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, and integer.
    """

    signature = "x, y ; is_arithmetic: bool = True -> out"
    dtypes = (dt.int32, dt.int64, dt.uint8, dt.int8, dt.int16)
    inplace = {"out": "x"}
    domain = (-9.0, 9.0)


@op
class BitwiseLeftShift(_Shift):
    """The bits of `x` moved up by `y`; 0 where `y` is negative or at least the width."""

    name = "pd_op.bitwise_left_shift"


@op
class BitwiseRightShift(_Shift):
    """The bits of `x` moved down by `y`; copies of the sign move in if `is_arithmetic`, else 0.

    Where `y` is negative or at least the width all bits are new ones.
    """

    name = "pd_op.bitwise_right_shift"


@infer_meta(BitwiseLeftShift, BitwiseRightShift)
def _(x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    fits = x.dtype is y.dtype and x.dtype.is_integer
    require(fits, "C2", f"no bits of {x.dtype} can be shifted by {y.dtype}")
    return x.with_shape(broadcast(x.shape, y.shape, constraint="C1"))


def _within(x: Array, y: Array) -> tuple[Array, Array]:
    """Where the distance is less than the width, and the distance there, else 0."""
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return inside, np.where(inside, y, 0)


@reference(BitwiseLeftShift)
def _(x: Array, y: Array, **_: object) -> Array:
    inside, distance = _within(x, y)
    return np.where(inside, np.left_shift(x, distance), 0).astype(x.dtype)


@reference(BitwiseRightShift)
def _(x: Array, y: Array, *, is_arithmetic: bool) -> Array:
    inside, distance = _within(x, y)
    if is_arithmetic:
        sign = np.where(x < 0, -1, 0)
        return np.where(inside, np.right_shift(x, distance), sign).astype(x.dtype)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    moved = np.right_shift(x.astype(unsigned), distance.astype(unsigned))
    return np.where(inside, moved.astype(x.dtype), 0).astype(x.dtype)


@samples(BitwiseLeftShift, BitwiseRightShift)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.array([1, 2, 40 % 8]))
    yield s(s.array([5, 100, 77]), s.array([1, 3, 70]), is_arithmetic=False)
    yield s(s.tensor(), s.array(1))
    yield s(s.tensor(0, 3), s.tensor(3))


@bad_samples(BitwiseLeftShift, BitwiseRightShift)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.tensor(2, dtype=dt.int32), s.tensor(2, dtype=dt.int64))


@op
class AllClose:
    """Whether every pair of elements differs by at most `atol + rtol * |y|`; NaN only if asked.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal.
    """

    name = "pd_op.allclose"
    kind = "reduction"
    signature = "x, y, rtol: scalar = 1e-5, atol: scalar = 1e-8 ; equal_nan: bool = False -> out"
    dtypes = (dt.float32, dt.float64)


@infer_meta(AllClose)
def _(x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    broadcast(x.shape, y.shape, constraint="C1")
    require(x.dtype is y.dtype, "C2", f"dtypes {x.dtype} and {y.dtype} differ")
    return TensorMeta((), dt.bool_)


@reference(AllClose)
def _(x: Array, y: Array, *, rtol: float, atol: float, equal_nan: bool) -> Array:
    a, b = (convert(v, dt.float64) for v in (x, y))
    return np.asarray(np.allclose(a, b, rtol, atol, equal_nan))


@samples(AllClose)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([1.0, 2.0]), s.array([1.0, 2.00001]))
    yield s(s.array([1.0, np.nan]), s.array([1.0, np.nan]), equal_nan=True)
    yield s(s.tensor(2, 3), s.tensor(2, 3), rtol=0.1, atol=0.1)


@bad_samples(AllClose)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))


@op
class EqualAll:
    """Whether `x` and `y` have the same shape and equal elements.

    C1: the dtypes are equal.
    """

    name = "pd_op.equal_all"
    kind = "reduction"
    signature = "x, y -> out"
    dtypes = (dt.float32, dt.float64, dt.int32, dt.int64, dt.bool_)


@infer_meta(EqualAll)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    require(x.dtype is y.dtype, "C1", f"dtypes {x.dtype} and {y.dtype} differ")
    return TensorMeta((), dt.bool_)


@paddle_meta(EqualAll)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    return TensorMeta((), dt.float32)


@reference(EqualAll)
def _(x: Array, y: Array) -> Array:
    return np.asarray(np.array_equal(x, y))


@samples(EqualAll)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([1, 0]), s.array([1, 0]))
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2), s.tensor(3))


@bad_samples(EqualAll)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))
