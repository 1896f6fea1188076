"""Arithmetic of one tensor with plain numbers, and sums of lists."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast, show, unchanged
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import arithmetic_dtype, constant, in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

KIND = ELEMENTWISE


@op
class Scale:
    """`x * scale + bias`, or `(x + bias) * scale` when `bias_after_scale` is false.

    Both numbers take the dtype of `x` before the arithmetic: 1.5 scales integers by 1. With float16
    and bfloat16 they stay in float32, as all of the arithmetic does.
    """

    name = "pd_op.scale"
    signature = "x, scale: scalar = 1.0 ; bias: f32 = 0.0, bias_after_scale: bool = True -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


infer_meta(Scale)(unchanged)


@in_f32
def _scale_then_add(x: Array, scale: Array, bias: Array) -> Any:
    return x * scale + bias if bias else x * scale  # -0.0 + 0.0 is 0.0; kernels keep -0.0


@in_f32
def _add_then_scale(x: Array, scale: Array, bias: Array) -> Any:
    return (x + bias) * scale if bias else x * scale


@reference(Scale)
def _(x: Array, *, scale: complex, bias: float, bias_after_scale: bool) -> Array:
    dtype = arithmetic_dtype(x)
    arithmetic = _scale_then_add if bias_after_scale else _add_then_scale
    return arithmetic(x, constant(scale, dtype), constant(bias, dtype))


@samples(Scale)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), scale=2.0, bias=1.0)
    yield s(s.tensor(2, 3), scale=1.5, bias=0.5, bias_after_scale=False)
    yield s(s.tensor(), scale=0.5)
    yield s(s.tensor(0, 2), scale=3.0)


@op
class Pow:
    """`x ** y` for a number `y`, which takes the dtype of `x` first (float32 for half precision).

    C1: an integer `x` takes no negative exponent.
    C2: `x` is not bool.
    """

    name = "pd_op.pow"
    cost = COSTLY
    signature = "x ; y: f32 = 1.0 -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}
    domain = (0.5, 3.0)


@infer_meta(Pow)
def _(x: TensorMeta, *, y: float) -> TensorMeta:
    require(x.dtype is not dt.bool_, "C2", "booleans have no powers; cast them first")
    require(not x.dtype.is_integer or y > -1, "C1", f"integers to the power {y} are no integers")
    return x


@reference(Pow)
def _(x: Array, *, y: float) -> Array:
    return in_f32(np.power)(x, constant(y, arithmetic_dtype(x)))


@samples(Pow)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), y=2.0)
    yield s(s.tensor(2, 3), y=2.5)
    yield s(s.tensor(), y=3.0)
    yield s(s.tensor(0, 2), y=0.5)


@bad_samples(Pow)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((3,), 1, 5), y=-1.0)
    yield "C2", s(s.bools(3), y=2.0)


@op
class Increment:
    """`x + value` for a counter.

    C1: `x` has one element.
    """

    name = "pd_op.increment"
    signature = "x ; value: f32 = 1.0 -> out"
    dtypes = (*dt.INTS, *dt.FLOATS)
    inplace = {"out": "x"}


@infer_meta(Increment)
def _(x: TensorMeta, **_: object) -> TensorMeta:
    require(all(d in (1, UNKNOWN) for d in x.shape), "C1", f"shape {show(x.shape)} is no counter")
    return x


@reference(Increment)
def _(x: Array, *, value: float) -> Array:
    return np.asarray(x + constant(value, dt.of_array(x)))


@samples(Increment)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1))
    yield s(s.tensor(), value=2.0)


@bad_samples(Increment)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2))


@op
class Clip:
    """`x` moved into [`min`, `max`]; NaN stays. Both bounds take the dtype of `x` first.

    C1: `min` is at most `max`.
    C2: `x` is an integer or float tensor.
    """

    name = "pd_op.clip"
    signature = "x, min: scalar, max: scalar -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}


@infer_meta(Clip)
def _(x: TensorMeta, *, min: float | None, max: float | None) -> TensorMeta:
    require(x.dtype.is_float or x.dtype.is_integer, "C2", f"dtype {x.dtype} has no order")
    ordered = min is None or max is None or min <= max
    require(ordered, "C1", f"the lower bound {min} is above the upper, {max}")
    return x


@reference(Clip)
def _(x: Array, *, min: float, max: float) -> Array:
    low, high = _bound(min, x), _bound(max, x)
    require(bool(low <= high), "C1", f"the lower bound {min} is above the upper, {max}")
    return in_f32(np.clip)(x, low, high)


def _bound(value: float, x: Array) -> Array:
    """A bound as an element of the type of ``x``, moved into the range of integer types first."""
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        value = min(max(value, int(limits.min)), int(limits.max))
    return constant(value, dt.of_array(x))


@samples(Clip)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), min=-1.0, max=1.0)
    yield s(s.tensor(2, 3), min=-1.5, max=1.5)
    yield s(s.tensor(), min=0.0, max=1e4)
    yield s(s.tensor(0, 2), min=0.0, max=0.0)


@bad_samples(Clip)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3), min=1.0, max=0.0)
    yield "C2", s(s.tensor(3, dtype=dt.complex64), min=0.0, max=1.0)


@op
class AddN:
    """Sum of a list of tensors.

    C1: the list is not empty.
    C2: the shapes broadcast.
    C3: the dtypes are equal.
    """

    name = "pd_op.add_n"
    signature = "inputs[] -> out"
    dtypes = dt.NUMBERS


@infer_meta(AddN)
def _(inputs: VecMeta) -> TensorMeta:
    require(len(inputs) > 0, "C1", "the list of tensors is empty")
    first, *rest = inputs.items
    shape = first.shape
    for x in rest:
        require(x.dtype is first.dtype, "C3", f"dtypes {first.dtype} and {x.dtype} differ")
        shape = broadcast(shape, x.shape, constraint="C2")
    return first.with_shape(shape)


@in_f32
def _total(*parts: Array) -> Array:
    return reduce(lambda x, y: np.asarray(x + y), parts)


@reference(AddN)
def _(inputs: list[Array]) -> Array:
    return _total(*inputs)


@samples(AddN)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s([s.tensor(2, 3), s.tensor(2, 3), s.tensor(2, 3)])
    yield s([s.tensor()])
    yield s([s.tensor(), s.tensor(1)])
    yield s([s.tensor(0, 2), s.tensor(0, 2)])


@bad_samples(AddN)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([])
    yield "C2", s([s.tensor(2), s.tensor(3)])
    yield "C3", s([s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64)])
