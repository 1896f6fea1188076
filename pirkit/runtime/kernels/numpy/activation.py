"""Activation functions as short chains of ufuncs; ``x`` and ``out`` may be the same array."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, pi, sqrt
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime import special_functions
from pirkit.runtime.binding import HALF_TYPES, Array, Binding, Step
from pirkit.runtime.kernels.numpy.cache_blocks import Passes, clipped, in_blocks
from pirkit.runtime.registry import kernel

Maker = Callable[[Binding], tuple[Passes, int] | None]
"""Returns the passes of an activation and how many scratch arrays they need."""


def _sigmoid(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array) -> None:
        np.negative(x, out)
        np.exp(out, out)
        np.add(out, 1, out)
        np.reciprocal(out, out)

    return passes, 0


def _silu(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array, w: Array) -> None:
        np.negative(x, w)
        np.exp(w, w)
        np.add(w, 1, w)
        np.divide(x, w, out)

    return passes, 1


def _stanh(b: Binding) -> tuple[Passes, int]:
    inner, outer = b.constant("scale_a"), b.constant("scale_b")

    def passes(x: Array, out: Array) -> None:
        np.multiply(x, inner, out)
        np.tanh(out, out)
        np.multiply(out, outer, out)

    return passes, 0


def _gelu(b: Binding) -> tuple[Passes, int]:
    def finish(x: Array, out: Array, w: Array) -> None:
        np.add(w, 1, w)
        np.multiply(w, 0.5, w)
        np.multiply(x, w, out)

    def by_tanh(x: Array, out: Array, w: Array) -> None:
        np.square(x, w)
        np.multiply(w, 0.044715, w)
        np.add(w, 1, w)
        np.multiply(w, sqrt(2 / pi), w)
        np.multiply(x, w, w)
        np.tanh(w, w)
        finish(x, out, w)

    def by_erf(x: Array, out: Array, w: Array, v: Array, room: Array) -> None:
        np.multiply(x, sqrt(0.5), v)
        special_functions.erf_into(v, w, room)
        finish(x, out, w)

    return (by_tanh, 1) if b.attrs["approximate"] else (by_erf, 3)


def _exponential_below(scale: Any, alpha: Any, width: Any) -> tuple[Passes, int]:
    """``scale * x`` above 0, else ``scale * alpha * (e ** (x / width) - 1)``."""
    low = scale * alpha

    def passes(x: Array, out: Array, w: Array) -> None:
        x.clip(-inf, 0, w)
        if width != 1:
            np.divide(w, width, w)
        np.expm1(w, w)
        np.multiply(w, low, w)
        x.clip(0, inf, out)
        if scale != 1:
            np.multiply(out, scale, out)
        np.add(out, w, out)

    return passes, 1


def _elu(b: Binding) -> tuple[Passes, int]:
    return _exponential_below(1, b.attrs["alpha"], 1)


def _celu(b: Binding) -> tuple[Passes, int] | None:
    alpha = b.attrs["alpha"]
    return _exponential_below(1, alpha, alpha) if alpha > 0 else None


def _selu(b: Binding) -> tuple[Passes, int]:
    return _exponential_below(b.attrs["scale"], b.attrs["alpha"], 1)


def _log_of_sum(x: Array, out: Array) -> None:
    """``log(1 + e ** -abs(x))``, without overflow."""
    np.abs(x, out)
    np.negative(out, out)
    np.exp(out, out)
    np.log1p(out, out)


def _softplus(b: Binding) -> tuple[Passes, int]:
    beta, threshold = b.attrs["beta"], b.attrs["threshold"]

    def smooth(x: Array, out: Array, w: Array, bx: Array) -> None:
        np.multiply(x, beta, bx)
        _log_of_sum(bx, w)
        bx.clip(0, inf, bx)
        np.add(bx, w, w)
        np.divide(w, beta, out)

    def chosen(x: Array, out: Array, w: Array, bx: Array) -> None:
        smooth(x, w, w, bx)
        np.multiply(x, beta, bx)
        np.copyto(w, x, where=bx > threshold)
        np.copyto(out, w)

    # Beyond a high threshold both are the same to the last bit.
    is_high = threshold > -log(np.finfo(b.dtype.np).eps)
    return (smooth if is_high else chosen), 2


def _logsigmoid(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array, w: Array) -> None:
        _log_of_sum(x, w)
        x.clip(-inf, 0, out)
        np.subtract(out, w, out)

    return passes, 1


_SATURATED: Final = 20.0
"""From here on ``tanh(softplus(x))`` is 1, also in float64."""


def _mish(b: Binding) -> tuple[Passes, int] | None:
    if b.attrs["lambda"] < _SATURATED:
        return None

    def passes(x: Array, out: Array, w: Array, v: Array) -> None:
        x.clip(-inf, _SATURATED, w)
        np.exp(w, w)
        np.add(w, 2, v)
        np.multiply(w, v, w)  # tanh(log(1 + e)) is n / (n + 2) for n = e * (e + 2)
        np.add(w, 2, v)
        np.divide(w, v, w)
        np.multiply(x, w, out)

    return passes, 2


def _softsign(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array, w: Array) -> None:
        np.abs(x, w)
        np.add(w, 1, w)
        np.divide(x, w, out)

    return passes, 1


def _tanh_shrink(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array, w: Array) -> None:
        np.tanh(x, w)
        np.subtract(x, w, out)

    return passes, 1


def _hardswish(b: Binding) -> tuple[Passes, int]:
    def passes(x: Array, out: Array, w: Array) -> None:
        np.add(x, 3, w)
        w.clip(0, 6, w)
        np.multiply(w, x, w)
        np.divide(w, 6, out)

    return passes, 1


def _hardsigmoid(b: Binding) -> tuple[Passes, int]:
    slope, offset = b.constant("slope"), b.constant("offset")

    def passes(x: Array, out: Array) -> None:
        np.multiply(x, slope, out)
        np.add(out, offset, out)
        out.clip(0, 1, out)

    return passes, 0


def _bounded(low: float | Array, high: float | Array) -> tuple[Passes, int]:
    if low and high:
        return clipped(low, high), 0

    def passes(x: Array, out: Array) -> None:
        x.clip(low, high, out)
        np.add(out, 0, out)  # -0.0 is below a bound of 0.0

    return passes, 0


def _relu6(_: Binding) -> tuple[Passes, int]:
    return _bounded(0, 6)


def _hardtanh(b: Binding) -> tuple[Passes, int]:
    return _bounded(b.constant("t_min"), b.constant("t_max"))


def _leaky_relu(b: Binding) -> tuple[Passes, int]:
    slope = b.constant("negative_slope")

    def passes(x: Array, out: Array, w: Array) -> None:
        x.clip(-inf, 0, w)
        np.multiply(w, slope, w)
        x.clip(0, inf, out)
        np.add(out, w, out)

    def chosen(x: Array, out: Array, w: Array) -> None:
        np.multiply(x, slope, w)
        out[...] = np.where(x > 0, x, w)

    return (passes if np.isfinite(slope) else chosen), 1


def _softshrink(b: Binding) -> tuple[Passes, int]:
    width = b.constant("threshold")

    def passes(x: Array, out: Array, w: Array) -> None:
        x.clip(-width, width, w)
        np.subtract(x, w, out)

    return passes, 1


def _hardshrink(b: Binding) -> tuple[Passes, int]:
    width = b.constant("threshold")

    def passes(x: Array, out: Array, w: Array) -> None:
        np.abs(x, w)
        np.less_equal(w, width, out=w)
        np.logical_not(w, out=w)
        np.multiply(x, w, out)
        np.add(out, 0, out)  # the product of a negative number is -0.0

    return passes, 1


REAL: Final[dict[str, Maker]] = {
    "silu": _silu,
    "swish": _silu,
    "gelu": _gelu,
    "elu": _elu,
    "celu": _celu,
    "selu": _selu,
    "softplus": _softplus,
    "logsigmoid": _logsigmoid,
    "mish": _mish,
    "softsign": _softsign,
    "tanh_shrink": _tanh_shrink,
    "hardswish": _hardswish,
    "hardsigmoid": _hardsigmoid,
    "relu6": _relu6,
    "hardtanh": _hardtanh,
    "leaky_relu": _leaky_relu,
    "softshrink": _softshrink,
    "hardshrink": _hardshrink,
}

ALSO_COMPLEX: Final[dict[str, Maker]] = {"sigmoid": _sigmoid, "stanh": _stanh}


def _bind(make: Maker) -> Callable[[Binding], Step | None]:
    def bind(b: Binding) -> Step | None:
        made = make(b)
        return in_blocks(b, *made) if made else None

    return bind


for _op, _make in REAL.items():
    kernel(_op, dtypes=dt.FLOATS, inplace={"out": "x"}, widen=True)(_bind(_make))
for _op, _make in ALSO_COMPLEX.items():
    kernel(_op, dtypes=(*dt.FLOATS, *dt.COMPLEX), inplace={"out": "x"}, widen=True)(_bind(_make))


@kernel("erf", dtypes=dt.FLOATS, widen=True)
def erf(b: Binding) -> Step:
    """The error function."""
    return in_blocks(b, special_functions.erf_into)


_FEW: Final = 1 << 11


@kernel("relu", dtypes=dt.FLOATS, inplace={"out": "x"}, portable=True)
def relu(b: Binding) -> Step:
    """One pass; NaN stays NaN. Numpy is faster with two bounds, but slower to start."""
    if b.input().numel > _FEW and b.dtype not in HALF_TYPES:
        return clipped(0, inf)
    maximum, zero = b.xp.maximum, b.xp.zeros((), b.dtype.np)

    def step(x: Array, out: Array) -> None:
        maximum(x, zero, out=out)

    return step
