"""Activation functions composed of exponentials; the piecewise ones are in ``piecewise``."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite, isnan, pi, sqrt
from typing import Any, Final

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE, NONNEGATIVE
from pirkit.dialect.opdef import OpDef, bad_samples, infer_meta, op, reference, samples
from pirkit.dialect.ops.elementwise.piecewise import float_only, with_numbers
from pirkit.dialect.ops.elementwise.unary import as_float, from_ints
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime import special_functions
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np

KIND = ELEMENTWISE


class _Activation:
    """C1: `x` is a float tensor."""

    signature = "x -> out"
    dtypes = dt.FLOATS
    domain = (-4.0, 4.0)


@op
class Sigmoid(_Activation):
    """`1 / (1 + e ** -x)`, without overflow; integers are converted to float32.

    C1: `x` is not bool.
    """

    name = "pd_op.sigmoid"
    traits = (NONNEGATIVE,)
    library_ns = {"float32": 0.65, "float64": 1.2}
    cost = COSTLY
    dtypes = dt.NUMBERS
    inplace = {"out": "x"}


@op
class Stanh(_Activation):
    """`scale_b * tanh(scale_a * x)`; integers are converted to float32.

    C1: `x` is not bool.
    """

    name = "pd_op.stanh"
    signature = "x ; scale_a: f32 = 0.67, scale_b: f32 = 1.7159 -> out"
    dtypes = dt.NUMBERS


infer_meta(Sigmoid, Stanh)(as_float)


@reference(Sigmoid)
@from_ints
def _sigmoid(x: Array) -> Any:
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


@reference(Stanh)
@from_ints
def _(x: Array, *, scale_a: float, scale_b: float) -> Any:
    return scale_b * np.tanh(scale_a * x)


def _softplus(x: Array, beta: float, threshold: float) -> Any:
    bx = beta * x
    return np.where(bx > threshold, x, np.logaddexp(bx, np.zeros_like(x)) / beta)


@op
class Silu(_Activation):
    """`x * sigmoid(x)`."""

    name = "pd_op.silu"
    inplace = {"out": "x"}


@reference(Silu)
@in_f32
def _(x: Array) -> Any:
    return x * _sigmoid(x)


@op
class Swish(_Activation):
    """`x * sigmoid(x)`."""

    name = "pd_op.swish"


@reference(Swish)
@in_f32
def _(x: Array) -> Any:
    return x * _sigmoid(x)


@op
class Gelu(_Activation):
    """`x * P(X <= x)` for a standard normal X, or its tanh approximation."""

    name = "pd_op.gelu"
    signature = "x ; approximate: bool = False -> out"


@reference(Gelu)
@in_f32
def _(x: Array, *, approximate: bool) -> Any:
    if approximate:
        return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + special_functions.erf(x * sqrt(0.5)))


@op
class Elu(_Activation):
    """`x` above 0, else `alpha * (e ** x - 1)`.

    C1: `x` is a float tensor.
    C2: `alpha` is finite.
    """

    name = "pd_op.elu"
    signature = "x ; alpha: f32 = 1.0 -> out"
    inplace = {"out": "x"}


@reference(Elu)
@in_f32
def _(x: Array, *, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x)))


@op
class Celu(_Activation):
    """`x` above 0, else `alpha * (e ** (x / alpha) - 1)`.

    C1: `x` is a float tensor.
    C2: `alpha` is finite and not 0.
    """

    name = "pd_op.celu"
    signature = "x ; alpha: f32 = 1.0 -> out"


@reference(Celu)
@in_f32
def _(x: Array, *, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x) / alpha))


@op
class Selu(_Activation):
    """`scale * elu(x, alpha)`, with constants that keep mean and variance.

    C1: `x` is a float tensor.
    C2: `scale` and `alpha` are finite.
    """

    name = "pd_op.selu"
    signature = "x ; scale: f32 = 1.0507009873554805, alpha: f32 = 1.6732632423543772 -> out"


@reference(Selu)
@in_f32
def _(x: Array, *, scale: float, alpha: float) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0, x)))


@op
class Mish(_Activation):
    """`x * tanh(softplus(x))`; softplus is `x` above `lambda`."""

    name = "pd_op.mish"
    signature = "x ; lambda: f32 -> out"


@reference(Mish)
@in_f32
def _(x: Array, **attributes: float) -> Any:
    return x * np.tanh(_softplus(x, 1.0, attributes["lambda"]))


@op
class Softplus(_Activation):
    """`log(1 + e ** (beta * x)) / beta`; `x` where `beta * x` exceeds `threshold`.

    C1: `x` is a float tensor.
    C2: `beta` is finite and not 0, and `threshold` is a number.
    """

    name = "pd_op.softplus"
    signature = "x ; beta: f64 = 1.0, threshold: f64 = 20.0 -> out"


@reference(Softplus)
@in_f32
def _(x: Array, *, beta: float, threshold: float) -> Any:
    return _softplus(x, beta, threshold)


@op
class Softsign(_Activation):
    """`x / (1 + abs(x))`."""

    name = "pd_op.softsign"


@reference(Softsign)
@in_f32
def _(x: Array) -> Any:
    return x / (1 + np.abs(x))


@op
class TanhShrink(_Activation):
    """`x - tanh(x)`."""

    name = "pd_op.tanh_shrink"


@reference(TanhShrink)
@in_f32
def _(x: Array) -> Any:
    return x - np.tanh(x)


@op
class Logsigmoid(_Activation):
    """`log(sigmoid(x))`."""

    name = "pd_op.logsigmoid"


@reference(Logsigmoid)
@in_f32
def _(x: Array) -> Any:
    return 0 - np.logaddexp(-x, np.zeros_like(x))


ACTIVATIONS: Final = (
    Silu,
    Swish,
    Gelu,
    Elu,
    Celu,
    Selu,
    Mish,
    Softplus,
    Softsign,
    TanhShrink,
    Logsigmoid,
)

SETTINGS: Final[dict[OpDef, dict[str, Any]]] = {
    Gelu: {"approximate": True},
    Elu: {"alpha": 0.5},
    Celu: {"alpha": 0.5},
    Selu: {"alpha": 1.5},
    Mish: {"lambda": 20.0},
    Softplus: {"beta": 2.0, "threshold": 3.0},
}
"""Attributes of the samples."""

infer_meta(Silu, Swish, Gelu, Mish, Softsign, TanhShrink, Logsigmoid)(float_only)
infer_meta(Elu)(with_numbers(lambda n: isfinite(n["alpha"])))
infer_meta(Celu)(with_numbers(lambda n: isfinite(n["alpha"]) and n["alpha"] != 0))
infer_meta(Selu)(with_numbers(lambda n: all(map(isfinite, n.values()))))
infer_meta(Softplus)(
    with_numbers(lambda n: isfinite(n["beta"]) and n["beta"] != 0 and not isnan(n["threshold"]))
)

REFUSED: Final[dict[OpDef, dict[str, float]]] = {
    Elu: {"alpha": inf},
    Celu: {"alpha": 0.0},
    Selu: {"scale": inf},
    Softplus: {"beta": 0.0},
}
"""Attributes that an op does not take."""


@samples(Sigmoid, Stanh, *ACTIVATIONS)
def _(s: SampleMaker) -> Iterator[Sample]:
    settings = SETTINGS.get(s.definition.base, {})
    if settings and s.definition.base is not Mish:  # the defaults, of which that has none
        yield s(s.tensor(3, 2))
    yield s(s.tensor(2, 3), **settings)
    yield s(s.tensor(), **settings)
    yield s(s.tensor(0, 4), **settings)
    yield s(s.tensor(4, 3).T, **settings)
    yield s(s.array([-8, -3, -1, 0, 1, 3, 8]), **settings)


@bad_samples(Sigmoid, Stanh, *ACTIVATIONS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3), **SETTINGS.get(s.definition.base, {}))
    if s.definition.base in REFUSED:
        yield "C2", s(s.tensor(3), **REFUSED[s.definition.base])
