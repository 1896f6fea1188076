"""Rounding, signs and squares: unary ops that preserve the element type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pirkit.dialect.kinds import ELEMENTWISE, EXACT, IDEMPOTENT, INTEGRAL, NONNEGATIVE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, deferred, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE

REAL_OF: Final = {dt.complex64: dt.float32, dt.complex128: dt.float64}
"""The element type of the parts of a complex number."""


class _Rounding:
    """C1: `x` is an integer or float tensor."""

    signature = "x -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}


@op
class Floor(_Rounding):
    """The largest integer at most `x`."""

    name = "pd_op.floor"
    traits = (EXACT, IDEMPOTENT, INTEGRAL)


@op
class Ceil(_Rounding):
    """The smallest integer at least `x`."""

    name = "pd_op.ceil"
    traits = (EXACT, IDEMPOTENT, INTEGRAL)


@op
class Trunc(_Rounding):
    """`x` rounded towards 0."""

    name = "pd_op.trunc"
    traits = (EXACT, IDEMPOTENT, INTEGRAL)
    signature = "input -> out"
    inplace = {"out": "input"}


@op
class Round(_Rounding):
    """`x` to `decimals` decimal places, halves to the even neighbour; integers stay.

    C1: `x` is an integer or float tensor.
    C2: `decimals` lies in [-300, 300].
    """

    name = "pd_op.round"
    traits = (EXACT, INTEGRAL)
    signature = "x ; decimals: i32 = 0 -> out"


MOST_DECIMALS: Final = 300
ROUNDING: Final = (Floor, Ceil, Trunc, Round)


@infer_meta(*ROUNDING)
def _(x: TensorMeta, *, decimals: int = 0) -> TensorMeta:
    require(abs(decimals) <= MOST_DECIMALS, "C2", f"rounding to {decimals} decimal places")
    require(x.dtype.is_float or x.dtype.is_integer, "C1", f"{x.dtype} cannot be rounded")
    return x


reference(Floor)(in_f32(deferred.floor))
reference(Ceil)(in_f32(deferred.ceil))
reference(Trunc)(in_f32(deferred.trunc))


@reference(Round)
def _(x: Array, *, decimals: int) -> Array:
    if x.dtype.kind in "iu":
        return x
    factor = 10.0 ** abs(decimals)

    @in_f32
    def nearest(x: Array) -> Any:
        if decimals > 0:
            return np.rint(x * factor) / factor
        return np.rint(x / factor) * factor if decimals else np.rint(x)

    return nearest(x)


@samples(Floor, Ceil, Trunc)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))
    yield s(s.array([-2.5, -1.0, -0.5, 0.0, 0.5, 1.5]))


@samples(Round)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor(2, 3, low=-50.0, high=50.0), decimals=1)
    yield s(s.tensor(low=-50.0, high=50.0), decimals=-1)
    yield s(s.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))


@bad_samples(*ROUNDING)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))
    if s.definition.name == "pd_op.round":
        yield "C2", s(s.tensor(3), decimals=400)


@op
class Abs:
    """Absolute value; of a complex tensor, a real one.

    C1: `x` is not bool.
    """

    name = "pd_op.abs"
    traits = (EXACT, IDEMPOTENT, NONNEGATIVE)
    signature = "x -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}


@infer_meta(Abs)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype is not dt.bool_, "C1", "booleans have no absolute value")
    return x.with_dtype(REAL_OF.get(x.dtype, x.dtype))


reference(Abs)(in_f32(deferred.abs))


@op
class Sign:
    """-1, 0 or 1; NaN stays, -0.0 becomes 0.0; of a complex number, `x / abs(x)`.

    C1: `x` is not bool.
    """

    name = "pd_op.sign"
    traits = (EXACT, IDEMPOTENT)
    signature = "x -> out"
    dtypes = dt.NUMBERS


reference(Sign)(in_f32(deferred.sign))


@op
class Square:
    """`x * x`.

    C1: `x` is not bool.
    """

    name = "pd_op.square"
    traits = (NONNEGATIVE,)
    signature = "x -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}


@infer_meta(Sign, Square)
def _(x: TensorMeta) -> TensorMeta:
    require(x.dtype is not dt.bool_, "C1", "booleans have no sign and no square")
    return x


reference(Square)(in_f32(deferred.square))


@samples(Abs, Sign, Square)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))
    yield s(s.array([0.0, -0.0, 1.0, -2.0]))


@bad_samples(Abs, Sign, Square)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))
