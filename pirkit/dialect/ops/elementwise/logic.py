"""Comparisons and logical ops, whose results are booleans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pirkit.dialect.kinds import ELEMENTWISE, SELECTIVE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, samples
from pirkit.dialect.ops.elementwise.elementwise import promoted
from pirkit.dialect.promotion import promote
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, deferred, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


class _Comparison:
    """C1: the shapes broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    """

    signature = "x, y -> out"
    dtypes = (*dt.NUMBERS, dt.bool_)
    inplace = {"out": "x"}


@op
class Equal(_Comparison):
    """True where `x` equals `y`; NaN equals nothing."""

    name = "pd_op.equal"


@op
class NotEqual(_Comparison):
    """True where `x` differs from `y`; NaN differs from everything."""

    name = "pd_op.not_equal"


@op
class LessThan(_Comparison):
    """True where `x < y`; complex numbers compare by real, then imaginary part."""

    name = "pd_op.less_than"


@op
class LessEqual(_Comparison):
    """True where `x <= y`; complex numbers compare by real, then imaginary part."""

    name = "pd_op.less_equal"


@op
class GreaterThan(_Comparison):
    """True where `x > y`; complex numbers compare by real, then imaginary part."""

    name = "pd_op.greater_than"


@op
class GreaterEqual(_Comparison):
    """True where `x >= y`; complex numbers compare by real, then imaginary part."""

    name = "pd_op.greater_equal"


@op
class LogicalAnd(_Comparison):
    """True where both are nonzero; NaN counts as nonzero."""

    name = "pd_op.logical_and"
    traits = (SELECTIVE,)


@op
class LogicalOr(_Comparison):
    """True where at least one is nonzero; NaN counts as nonzero."""

    name = "pd_op.logical_or"
    traits = (SELECTIVE,)


@op
class LogicalXor(_Comparison):
    """True where exactly one is nonzero; NaN counts as nonzero."""

    name = "pd_op.logical_xor"


ANSWERS: Final = (
    (Equal, deferred.equal),
    (NotEqual, deferred.not_equal),
    (LessThan, deferred.less),
    (LessEqual, deferred.less_equal),
    (GreaterThan, deferred.greater),
    (GreaterEqual, deferred.greater_equal),
    (LogicalAnd, deferred.logical_and),
    (LogicalOr, deferred.logical_or),
    (LogicalXor, deferred.logical_xor),
)


def answer(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    """Broadcast shape, bool."""
    promote(x, y, "C2")
    return TensorMeta(broadcast(x.shape, y.shape, constraint="C1"), dt.bool_)


for _op, _function in ANSWERS:
    infer_meta(_op)(answer)
    reference(_op)(promoted(_function))


@op
class IsClose:
    """True where `abs(x - y) <= atol + rtol * abs(y)`; infinities are close to themselves.

    C1: the shapes broadcast.
    C2: the dtypes are equal, or both float, or one is complex, or one operand is 0-D.
    """

    name = "pd_op.isclose"
    signature = "x, y, rtol: scalar = 1e-05, atol: scalar = 1e-08 ; equal_nan: bool = False -> out"
    dtypes = dt.NUMBERS


@infer_meta(IsClose)
def _(x: TensorMeta, y: TensorMeta, **_: object) -> TensorMeta:
    return answer(x, y)


@reference(IsClose)
def _(x: Array, y: Array, *, rtol: float, atol: float, equal_nan: bool) -> Array:
    def close(x: Array, y: Array) -> Any:
        return np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)

    return promoted(close)(x, y)


@samples(*(o for o, _ in ANSWERS), IsClose)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.array([0, 1, 2]), s.array([0, 2, 1]))
    yield s(s.tensor(2, 1, 3), s.tensor(4, 1))
    yield s(s.tensor(), s.tensor())
    yield s(s.tensor(2, 3), s.tensor())
    yield s(s.tensor(0, 3), s.tensor(3))


@bad_samples(*(o for o, _ in ANSWERS), IsClose)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 4))
    yield "C2", s(s.ints((2,), 1, 5, dt.int32), s.ints((2,), 1, 5, dt.int64))


@op
class LogicalNot:
    """True where `x` is 0."""

    name = "pd_op.logical_not"
    signature = "x -> out"
    dtypes = dt.ANY
    inplace = {"out": "x"}


@op
class IsNan:
    """True where `x` is NaN, in either part of a complex number."""

    name = "pd_op.isnan"
    signature = "x -> out"
    dtypes = dt.NUMBERS


@op
class IsInf:
    """True where `x` is infinite, in either part of a complex number."""

    name = "pd_op.isinf"
    signature = "x -> out"
    dtypes = dt.NUMBERS


@op
class IsFinite:
    """True where `x` is neither NaN nor infinite."""

    name = "pd_op.isfinite"
    signature = "x -> out"
    dtypes = dt.NUMBERS


TESTS: Final = (
    (LogicalNot, deferred.logical_not),
    (IsNan, deferred.isnan),
    (IsInf, deferred.isinf),
    (IsFinite, deferred.isfinite),
)


@infer_meta(*(o for o, _ in TESTS))
def _(x: TensorMeta) -> TensorMeta:
    return x.with_dtype(dt.bool_)


for _op, _function in TESTS:
    reference(_op)(in_f32(_function))


@samples(*(o for o, _ in TESTS))
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 2))
    if s.dtype.is_float or s.dtype.is_complex:
        yield s(s.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]))
