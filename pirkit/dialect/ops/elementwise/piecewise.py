"""Piecewise activation functions: clipped, thresholded and shrunk lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf, isfinite
from typing import Any, Final

from pirkit.dialect.kinds import ELEMENTWISE, IDEMPOTENT, NONNEGATIVE
from pirkit.dialect.opdef import OpDef, bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = ELEMENTWISE


class _Activation:
    """C1: `x` is a float tensor."""

    signature = "x -> out"
    dtypes = dt.FLOATS
    domain = (-4.0, 4.0)


@op
class Relu(_Activation):
    """`max(x, 0)`. NaN stays NaN, where Paddle on CPU makes it 0."""

    name = "pd_op.relu"
    traits = (IDEMPOTENT, NONNEGATIVE)
    inplace = {"out": "x"}


@reference(Relu)
@in_f32
def _(x: Array) -> Any:
    return np.maximum(x, 0)


def _bounded(x: Array, low: float, high: float) -> Any:
    """`np.clip`, which keeps a zero whose sign is not that of the bound that it equals."""
    return np.where(x <= low, low, np.where(x >= high, high, x))


@op
class Relu6(_Activation):
    """`x` moved into [0, 6]; -0.0 becomes the bound 0.0, which it equals."""

    name = "pd_op.relu6"
    traits = (IDEMPOTENT, NONNEGATIVE)


@reference(Relu6)
@in_f32
def _(x: Array) -> Any:
    return _bounded(x, 0, 6)


@op
class Hardswish(_Activation):
    """`x * clip(x + 3, 0, 6) / 6`."""

    name = "pd_op.hardswish"


@reference(Hardswish)
@in_f32
def _(x: Array) -> Any:
    return x * np.clip(x + 3, 0, 6) / 6


@op
class Hardsigmoid(_Activation):
    """`clip(slope * x + offset, 0, 1)`."""

    name = "pd_op.hardsigmoid"
    traits = (NONNEGATIVE,)
    signature = "x ; slope: f32 = 0.2, offset: f32 = 0.5 -> out"


@reference(Hardsigmoid)
@in_f32
def _(x: Array, *, slope: float, offset: float) -> Any:
    return np.clip(slope * x + offset, 0, 1)


@op
class Hardtanh(_Activation):
    """`clip(x, t_min, t_max)`; a zero that equals a bound has the bound's sign.

    C1: `x` is a float tensor.
    C2: `t_min` is at most `t_max`.
    """

    name = "pd_op.hardtanh"
    signature = "x ; t_min: f32 = 0.0, t_max: f32 = 24.0 -> out"
    inplace = {"out": "x"}


@reference(Hardtanh)
@in_f32
def _(x: Array, *, t_min: float, t_max: float) -> Any:
    return _bounded(x, t_min, t_max)


@op
class LeakyRelu(_Activation):
    """`x` above 0, else `negative_slope * x`.

    C1: `x` is a float tensor.
    C2: `negative_slope` is finite.
    """

    name = "pd_op.leaky_relu"
    signature = "x ; negative_slope: f64 = 0.02 -> out"
    inplace = {"out": "x"}


@reference(LeakyRelu)
@in_f32
def _(x: Array, *, negative_slope: float) -> Any:
    return np.where(x > 0, x, negative_slope * x)


@op
class Hardshrink(_Activation):
    """0 from -`threshold` to `threshold`, else `x`: as in Paddle on the CPU, which at the threshold
    itself differs from Paddle on the GPU.
    """

    name = "pd_op.hardshrink"
    signature = "x ; threshold: f32 = 0.5 -> out"


@reference(Hardshrink)
@in_f32
def _(x: Array, *, threshold: float) -> Any:
    return np.where((x >= -threshold) & (x <= threshold), 0, x)


@op
class Softshrink(_Activation):
    """`x` moved towards 0 by `threshold`.

    C1: `x` is a float tensor.
    C2: `threshold` is not negative.
    """

    name = "pd_op.softshrink"
    signature = "x ; threshold: f32 = 0.5 -> out"


@reference(Softshrink)
@in_f32
def _(x: Array, *, threshold: float) -> Any:
    return x - np.clip(x, -threshold, threshold)


@op
class ThresholdedRelu(_Activation):
    """`x` above `threshold`, else `value`."""

    name = "pd_op.thresholded_relu"
    signature = "x ; threshold: f32 = 1.0, value: f32 = 0.0 -> out"
    inplace = {"out": "x"}


@reference(ThresholdedRelu)
@in_f32
def _(x: Array, *, threshold: float, value: float) -> Any:
    return np.where(x <= threshold, value, x)


ACTIVATIONS: Final = (
    Relu,
    Relu6,
    Hardswish,
    Hardsigmoid,
    Hardtanh,
    LeakyRelu,
    Hardshrink,
    Softshrink,
    ThresholdedRelu,
)

SETTINGS: Final[dict[OpDef, dict[str, Any]]] = {
    Hardsigmoid: {"slope": 0.25},
    Hardtanh: {"t_min": -1.0, "t_max": 1.0},
    LeakyRelu: {"negative_slope": 0.2},
    Hardshrink: {"threshold": 1.0},
    Softshrink: {"threshold": 1.0},
    ThresholdedRelu: {"threshold": 0.5, "value": -1.0},
}
"""Attributes of the samples."""


def float_only(x: TensorMeta, **_: object) -> TensorMeta:
    """The meta of ``x``, which is a float tensor (C1)."""
    require(x.dtype.is_float, "C1", f"not defined for {x.dtype}", help="cast it to float32")
    return x


def with_numbers(admits: Callable[[dict[str, float]], bool]) -> Callable[..., TensorMeta]:
    """The shape rule of an activation whose attributes must satisfy ``admits`` (C2)."""

    def rule(x: TensorMeta, **numbers: float) -> TensorMeta:
        shown = ", ".join(f"{name} = {number}" for name, number in numbers.items())
        require(admits(numbers), "C2", f"not defined for {shown}")
        return float_only(x)

    return rule


infer_meta(Relu, Relu6, Hardswish, Hardsigmoid, Hardshrink, ThresholdedRelu)(float_only)
infer_meta(Hardtanh)(with_numbers(lambda n: n["t_min"] <= n["t_max"]))
infer_meta(LeakyRelu)(with_numbers(lambda n: isfinite(n["negative_slope"])))
infer_meta(Softshrink)(with_numbers(lambda n: n["threshold"] >= 0))

REFUSED: Final[dict[OpDef, dict[str, float]]] = {
    Hardtanh: {"t_min": 1.0, "t_max": -1.0},
    LeakyRelu: {"negative_slope": inf},
    Softshrink: {"threshold": -1.0},
}
"""Attributes that an op does not take."""


@samples(*ACTIVATIONS)
def _(s: SampleMaker) -> Iterator[Sample]:
    settings = SETTINGS.get(s.definition.base, {})
    yield s(s.tensor(2, 3), **settings)
    yield s(s.tensor(), **settings)
    yield s(s.tensor(0, 4), **settings)
    yield s(s.tensor(4, 3).T, **settings)
    yield s(s.array([-8, -3, -1, 0, 1, 3, 8]), **settings)


@bad_samples(*ACTIVATIONS)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.bools(3), **SETTINGS.get(s.definition.base, {}))
    if s.definition.base in REFUSED:
        yield "C2", s(s.tensor(3), **REFUSED[s.definition.base])
