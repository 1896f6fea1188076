"""Functions of one tensor whose values are real or complex numbers.

Integers are converted to float32. Where a function has no value (`log(-1)`) the result is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE, NONNEGATIVE
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
from pirkit.dialect.shapes import unchanged
from pirkit.runtime import dtype as dt
from pirkit.runtime import special_functions
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, deferred, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


class _Function:
    """C1: `x` is not bool."""

    signature = "x -> out"
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}
    cost = COSTLY


class _RealFunction:
    """C1: `x` is not bool.
    C2: `x` is not complex.
    """

    signature = "x -> out"
    dtypes = dt.REAL
    inplace = {"out": "x"}
    cost = COSTLY


@op
class Sqrt(_Function):
    """Square root; NaN below 0."""

    name = "pd_op.sqrt"
    cost = 1
    domain = (0.1, 4.0)


@op
class Rsqrt(_RealFunction):
    """`1 / sqrt(x)`; infinite at 0."""

    name = "pd_op.rsqrt"
    cost = 1
    domain = (1.0, 4.0)


@op
class Tanh(_Function):
    """Hyperbolic tangent."""

    name = "pd_op.tanh"
    library_ns = {"float32": 0.13, "float64": 0.4}


@op
class Exp(_Function):
    """`e ** x`."""

    name = "pd_op.exp"
    traits = (NONNEGATIVE,)
    library_ns = {"float32": 0.3, "float64": 0.3}


@op
class Expm1(_Function):
    """`e ** x - 1`, exact near 0."""

    name = "pd_op.expm1"
    library_ns = {"float64": 0.4}


@op
class Log(_Function):
    """Natural logarithm; -inf at 0, NaN below."""

    name = "pd_op.log"
    domain = (1.0, 4.0)


@op
class Log1p(_Function):
    """`log(1 + x)`, exact near 0."""

    name = "pd_op.log1p"
    domain = (0.0, 4.0)


@op
class Log2(_Function):
    """Logarithm to base 2."""

    name = "pd_op.log2"
    domain = (1.0, 4.0)


@op
class Log10(_Function):
    """Logarithm to base 10."""

    name = "pd_op.log10"
    domain = (1.0, 4.0)


@op
class Sin(_Function):
    """Sine."""

    name = "pd_op.sin"
    library_ns = {"float64": 7.0}


@op
class Cos(_Function):
    """Cosine."""

    name = "pd_op.cos"
    library_ns = {"float64": 11.0}


@op
class Tan(_Function):
    """Tangent."""

    name = "pd_op.tan"
    domain = (-1.0, 1.0)


@op
class Asin(_Function):
    """Inverse sine; NaN outside [-1, 1]."""

    name = "pd_op.asin"
    domain = (-0.9, 0.9)


@op
class Acos(_Function):
    """Inverse cosine; NaN outside [-1, 1]."""

    name = "pd_op.acos"
    domain = (-0.9, 0.9)


@op
class Atan(_Function):
    """Inverse tangent."""

    name = "pd_op.atan"


@op
class Sinh(_Function):
    """Hyperbolic sine."""

    name = "pd_op.sinh"


@op
class Cosh(_Function):
    """Hyperbolic cosine."""

    name = "pd_op.cosh"


@op
class Asinh(_Function):
    """Inverse hyperbolic sine."""

    name = "pd_op.asinh"


@op
class Acosh(_Function):
    """Inverse hyperbolic cosine; NaN below 1."""

    name = "pd_op.acosh"
    domain = (1.0, 4.0)


@op
class Atanh(_Function):
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""

    name = "pd_op.atanh"
    domain = (-0.9, 0.9)


@op
class Reciprocal(_Function):
    """`1 / x`; infinite at 0."""

    name = "pd_op.reciprocal"
    cost = 1
    domain = (1.0, 4.0)


@op
class Erf(_RealFunction):
    """Error function."""

    name = "pd_op.erf"
    library_ns = {"float32": 2.4, "float64": 14.0}


@op
class Lgamma(_RealFunction):
    """Logarithm of the absolute value of the gamma function."""

    name = "pd_op.lgamma"
    domain = (0.5, 6.0)


@op
class Digamma(_RealFunction):
    """Derivative of `lgamma`."""

    name = "pd_op.digamma"
    domain = (1.0, 6.0)


def _rsqrt(x: Array) -> Any:
    return np.reciprocal(np.sqrt(x))


FUNCTIONS: Final = (
    (Sqrt, deferred.sqrt),
    (Tanh, deferred.tanh),
    (Exp, deferred.exp),
    (Expm1, deferred.expm1),
    (Log, deferred.log),
    (Log1p, deferred.log1p),
    (Log2, deferred.log2),
    (Log10, deferred.log10),
    (Sin, deferred.sin),
    (Cos, deferred.cos),
    (Tan, deferred.tan),
    (Asin, deferred.arcsin),
    (Acos, deferred.arccos),
    (Atan, deferred.arctan),
    (Sinh, deferred.sinh),
    (Cosh, deferred.cosh),
    (Asinh, deferred.arcsinh),
    (Acosh, deferred.arccosh),
    (Atanh, deferred.arctanh),
    (Reciprocal, deferred.reciprocal),
)
REAL_FUNCTIONS: Final = (
    (Rsqrt, _rsqrt),
    (Erf, special_functions.erf),
    (Lgamma, special_functions.lgamma),
    (Digamma, special_functions.digamma),
)


def as_float(x: TensorMeta, **_: object) -> TensorMeta:
    """The meta of ``x``; float32 in place of integers. C1: it is not bool."""
    require(x.dtype is not dt.bool_, "C1", "booleans are no numbers; cast them first")
    return x.with_dtype(dt.float32) if x.dtype.is_integer else x


def as_real(x: TensorMeta, **_: object) -> TensorMeta:
    """As ``as_float``, for a function of real numbers only. C2: ``x`` is not complex."""
    require(not x.dtype.is_complex, "C2", f"not defined for {x.dtype}")
    return as_float(x)


def from_ints(function: Callable[..., Any]) -> Callable[..., Array]:
    """``function`` after integers became float32; half precision is computed in float32."""
    compute = in_f32(function)

    def rule(x: Array, **attributes: Any) -> Array:
        return compute(x.astype(np.float32) if x.dtype.kind in "iu" else x, **attributes)

    return rule


for _op, _function in FUNCTIONS:
    infer_meta(_op)(as_float)
    reference(_op)(from_ints(_function))
paddle_meta(Exp, Expm1, Log, Log1p, Log2, Log10)(unchanged)  # integers, where we say float32
for _op, _function in REAL_FUNCTIONS:
    infer_meta(_op)(as_real)
    reference(_op)(from_ints(_function))


@samples(*(o for o, _ in (*FUNCTIONS, *REAL_FUNCTIONS)))
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3))
    yield s(s.tensor())
    yield s(s.tensor(0, 4))
    yield s(s.tensor(4, 3).T)


@bad_samples(*(o for o, _ in FUNCTIONS))
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))


@bad_samples(*(o for o, _ in REAL_FUNCTIONS))
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3))
    yield "C2", s(s.tensor(3, dtype=dt.complex64))
