"""Arithmetic between tensors, element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.kinds import COSTLY, ELEMENTWISE, EXACT, KEEPS_SIGN, SELECTIVE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.promotion import promote
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert, in_f32
from pirkit.runtime.lazy_numpy import Array, deferred, np
from pirkit.runtime.meta import TensorMeta, of_array

KIND = ELEMENTWISE


class _Binary:
    """C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one operand is 0-D.
    C3: the dtypes are not both bool.
    C4: the dtypes are real.
    """

    signature = "x, y -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}


class _OrderedBinary:
    """C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one operand is 0-D.
    C4: the dtypes are real.
    """

    signature = "x, y -> out"
    dtypes = dt.REAL


@op
class Add(_Binary):
    """`x + y`; of booleans, their disjunction.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    """

    name = "pd_op.add"
    traits = (KEEPS_SIGN,)
    dtypes = (*dt.NUMBERS, dt.bool_, dt.uint8, dt.int8)


@op
class Subtract(_Binary):
    """`x - y`.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    C3: the dtypes are not both bool.
    """

    name = "pd_op.subtract"


@op
class Multiply(_Binary):
    """`x * y`; of booleans, their conjunction.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    """

    name = "pd_op.multiply"
    traits = (KEEPS_SIGN,)
    dtypes = (*dt.NUMBERS, dt.bool_, dt.uint8, dt.int8)


@op
class Divide(_Binary):
    """`x / y`; integers divide as float32, and x/0 is an infinity or NaN.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    C3: the dtypes are not both bool.
    """

    name = "pd_op.divide"
    domain = (1.0, 3.0)


@op
class FloorDivide(_Binary):
    """The largest integer at most `x / y`. Refuses at run time to divide an integer by 0."""

    name = "pd_op.floor_divide"
    dtypes = dt.REAL
    domain = (1.0, 5.0)


@op
class TruncDivide(_Binary):
    """`x / y` rounded towards 0. Refuses at run time to divide an integer by 0."""

    name = "pd_op.trunc_divide"
    dtypes = dt.REAL
    domain = (1.0, 5.0)


@op
class Remainder(_Binary):
    """`x - y * floor(x / y)`: the remainder has the sign of `y`.

    Refuses at run time to divide an integer by 0.
    """

    name = "pd_op.remainder"
    dtypes = dt.REAL
    domain = (1.0, 5.0)


@op
class ElementwisePow:
    """`x ** y`. Integers give the float64 result rounded where `y` is negative.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    C3: the dtypes are not both bool.
    """

    name = "pd_op.elementwise_pow"
    cost = COSTLY
    signature = "x, y -> out"
    dtypes = dt.NUMBERS
    domain = (1.0, 3.0)


@op
class Maximum(_OrderedBinary):
    """The larger of `x` and `y`; NaN if either is."""

    name = "pd_op.maximum"
    traits = (EXACT, SELECTIVE)


@op
class Minimum(_OrderedBinary):
    """The smaller of `x` and `y`; NaN if either is."""

    name = "pd_op.minimum"
    traits = (EXACT, SELECTIVE)


@op
class Fmax(_OrderedBinary):
    """The larger of `x` and `y`; the other one where one is NaN."""

    name = "pd_op.fmax"
    traits = (EXACT, SELECTIVE)


@op
class Fmin(_OrderedBinary):
    """The smaller of `x` and `y`; the other one where one is NaN."""

    name = "pd_op.fmin"
    traits = (EXACT, SELECTIVE)


@op
class Atan2:
    """Angle of the point (`y`, `x`), in [-pi, pi]; integers give float64.

    C1: the shapes of `x` and `y` broadcast.
    C2: the dtypes are equal.
    C4: the dtypes are real.
    """

    name = "pd_op.atan2"
    cost = COSTLY
    signature = "x, y -> out"
    dtypes = dt.REAL


ORDERED: Final = (Maximum, Minimum, Fmax, Fmin)
INTEGERS: Final = (FloorDivide, TruncDivide, Remainder)
NO_BOOLS: Final = (Subtract, Divide, ElementwisePow, *INTEGERS)
BINARY: Final = (Add, Multiply, *NO_BOOLS, *ORDERED)


def binary(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    """Broadcast shape, promoted dtype."""
    return TensorMeta(broadcast(x.shape, y.shape, constraint="C1"), promote(x, y, "C2"))


def promoted(function: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Array]:
    """``function`` after both operands are cast to their common dtype."""
    compute = in_f32(function)

    def rule(x: Array, y: Array) -> Array:
        if x.dtype == y.dtype:
            return compute(x, y)
        common = promote(of_array(x), of_array(y), "C2")
        return compute(convert(x, common), convert(y, common))

    return rule


infer_meta(Add, Multiply)(binary)


@infer_meta(Subtract, ElementwisePow)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    out = binary(x, y)
    require(out.dtype is not dt.bool_, "C3", "booleans have no such arithmetic; cast them first")
    return out


@infer_meta(Divide)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    out = binary(x, y)
    require(out.dtype is not dt.bool_, "C3", "booleans cannot be divided; cast them first")
    return out.with_dtype(dt.float32) if out.dtype.is_integer else out


@infer_meta(*INTEGERS)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    out = binary(x, y)
    require(out.dtype is not dt.bool_, "C3", "booleans cannot be divided; cast them first")
    require(not out.dtype.is_complex, "C4", "complex numbers have no integer quotient")
    return out


@infer_meta(*ORDERED)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    out = binary(x, y)
    require(not out.dtype.is_complex, "C4", "complex numbers have no order")
    return out


@infer_meta(Atan2)
def _(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    shape = broadcast(x.shape, y.shape, constraint="C1")
    require(x.dtype is y.dtype, "C2", f"dtypes {x.dtype} and {y.dtype} differ")
    require(not x.dtype.is_complex, "C4", "atan2 of complex numbers")
    return TensorMeta(shape, x.dtype if x.dtype.is_float else dt.float64)


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        return np.divide(x.astype(np.float32), y.astype(np.float32))
    return np.divide(x, y)


def _integer_division(function: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Any]:
    def rule(x: Array, y: Array) -> Any:
        if x.dtype.kind in "iu" and x.size > 0 and not np.all(y):
            raise RuntimeFault("integer division by zero")
        return function(x, y)

    return rule


def _trunc_divide(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.trunc(np.divide(x, y))
    below = (np.remainder(x, y) != 0) & ((x < 0) != (y < 0))
    return np.floor_divide(x, y) + below.astype(x.dtype)


def _power(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    exact = np.power(x, np.maximum(y, 0))
    if not np.any(y < 0):
        return exact
    real = np.asarray(np.rint(np.power(x.astype(np.float64), y.astype(np.float64))))
    return np.where(y < 0, convert(real, dt.of_array(x)), exact)


def _atan2(x: Array, y: Array) -> Any:
    return np.arctan2(x, y) if dt.of_array(x).is_float else np.arctan2(x, y, dtype=np.float64)


for _op, _function in (
    (Add, deferred.add),
    (Subtract, deferred.subtract),
    (Multiply, deferred.multiply),
    (Divide, _divide),
    (FloorDivide, _integer_division(deferred.floor_divide)),
    (TruncDivide, _integer_division(_trunc_divide)),
    (Remainder, _integer_division(deferred.remainder)),
    (ElementwisePow, _power),
    (Maximum, deferred.maximum),
    (Minimum, deferred.minimum),
    (Fmax, deferred.fmax),
    (Fmin, deferred.fmin),
):
    reference(_op)(promoted(_function))
reference(Atan2)(in_f32(_atan2))


@samples(*BINARY, Atan2)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), s.tensor(2, 3))
    yield s(s.tensor(2, 1, 4), s.tensor(3, 1))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(2, 3), s.tensor())
    yield s(s.tensor(0, 3), s.tensor(3))


@bad_samples(Add, Multiply)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((2,), 1, 5, dt.int32), s.ints((2,), 1, 5, dt.int64))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.ints((2,), 1, 5))


@bad_samples(Subtract, Divide, ElementwisePow)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((2,), 1, 5, dt.int32), s.ints((2,), 1, 5, dt.int64))
    yield "C3", s(s.bools(3), s.bools(3))


@bad_samples(*INTEGERS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((2,), 1, 5, dt.int32), s.ints((2,), 1, 5, dt.int64))
    yield "C3", s(s.bools(3), s.bools(3))
    yield "C4", s(s.tensor(3, dtype=dt.complex64), s.tensor(3, dtype=dt.complex64))


@bad_samples(*ORDERED)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((2,), 1, 5, dt.int32), s.ints((2,), 1, 5, dt.int64))
    yield "C4", s(s.tensor(3, dtype=dt.complex64), s.tensor(3, dtype=dt.complex64))


@bad_samples(Atan2)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.tensor(2, dtype=dt.float32), s.tensor(2, dtype=dt.float64))
    yield "C4", s(s.tensor(3, dtype=dt.complex64), s.tensor(3, dtype=dt.complex64))
