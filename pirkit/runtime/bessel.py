"""Bessel functions, polygamma and the inverse error function, vectorised, for float64."""

from __future__ import annotations

from math import factorial
from typing import Final

from pirkit.runtime.lazy_numpy import Array, np

_ASYMPTOTIC_FROM: Final = 30.0
"""From here on the asymptotic series of the Bessel functions is exact to float64."""

_POWER_TERMS: Final = 80
_ASYMPTOTIC_TERMS: Final = 25

# Bernoulli numbers B(2k) / (2k)!, for k = 1...
_BERNOULLI: Final = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
_ZETA_SHIFT: Final = 12
"""Number of terms of the zeta function that are summed directly."""

# M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied
# Statistics 37 (1988). Highest power first: centre, then tails up to sqrt(-log p) = 5, and beyond.
QUANTILE_CENTRE: Final = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
     45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
     133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061,
     21213.794301586595867, 5394.1960214247511077, 687.1870074920579083,
     42.313330701600911252, 1.0),
)  # fmt: skip
QUANTILE_TAIL: Final = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
QUANTILE_FAR_TAIL: Final = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)  # fmt: skip

ERFINV_CENTRE: Final = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
ERFINV_TAIL: Final = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Coefficients of the inverse error function in single precision, from the highest power (Giles,
"Approximating the erfinv function", GPU Computing Gems, 2011)."""


def bessel_i(x: Array, order: int, *, scaled: bool) -> Array:
    """Modified Bessel function of the first kind, times ``exp(-|x|)`` if ``scaled``."""
    in_float64 = x.astype(np.float64)
    size = np.abs(in_float64)
    with np.errstate(all="ignore"):
        series_value = _bessel_series(np.minimum(size, _ASYMPTOTIC_FROM), order)
        asymptotic_value = _bessel_asymptotic(np.maximum(size, _ASYMPTOTIC_FROM), order)
        value = np.where(size <= _ASYMPTOTIC_FROM, series_value, asymptotic_value)
        value = np.where(np.isposinf(size), 0.0, value)
        value = value if scaled else value * np.exp(size)
        value = np.where(np.isposinf(size) & (not scaled), np.inf, value)
    return (np.copysign(value, in_float64) if order % 2 else value).astype(x.dtype)


def _bessel_series(x: Array, order: int) -> Array:
    square = x * x / 4
    term = (x / 2) ** order / factorial(order)
    total = term.copy()
    for k in range(1, _POWER_TERMS):
        term = term * square / (k * (k + order))
        total += term
    return total * np.exp(-x)


def _bessel_asymptotic(x: Array, order: int) -> Array:
    term = np.ones_like(x)
    total = np.ones_like(x)
    for k in range(1, _ASYMPTOTIC_TERMS):
        term = -term * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        total += term
    return total / (np.sqrt(2 * np.pi) * np.sqrt(x))  # 2 * pi * x would overflow


def polygamma(x: Array, order: int) -> Array:
    """Derivative of that positive order of ``digamma``; infinite at 0, -1, -2..."""
    in_float64 = x.astype(np.float64)
    with np.errstate(all="ignore"):
        sign = -1.0 if order % 2 == 0 else 1.0
        return (sign * factorial(order) * _zeta(order + 1, in_float64)).astype(x.dtype)


def _zeta(s: int, x: Array) -> Array:
    """Sum of ``(x + k) ** -s`` over k >= 0.

    For negative ``x`` the terms before the first positive one are a difference of two such sums.
    """
    fraction = x - np.floor(x)
    negative = (-1.0) ** s * (_zeta_positive(s, 1 - fraction) - _zeta_positive(s, 1 - x))
    left = np.where(fraction == 0, np.inf, _zeta_positive(s, fraction) + negative)
    return np.where(x > 0, _zeta_positive(s, np.where(x > 0, x, 1.0)), left)


def _zeta_positive(s: int, x: Array) -> Array:
    """The Euler-Maclaurin formula: some terms, the integral of the rest, and its corrections."""
    total = np.zeros_like(x)
    for k in range(_ZETA_SHIFT):
        total += (x + k) ** -s
    z = x + _ZETA_SHIFT
    total += z ** (1 - s) / (s - 1) + z**-s / 2
    factor = s * z ** (-s - 1)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total += bernoulli * factor
        factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (z * z)
    return total


def erfinv(x: Array) -> Array:
    """Inverse of the error function: infinite at 1 and -1, NaN beyond."""
    in_float64 = x.astype(np.float64)
    with np.errstate(all="ignore"):
        quantile = _quantile(in_float64 / 2, (1 - np.abs(in_float64)) / 2)
        quantile = np.where(np.abs(in_float64) == 1, np.copysign(np.inf, in_float64), quantile)
    return (quantile / np.sqrt(2)).astype(x.dtype)


def normal_quantile(probability: Array) -> Array:
    """The quantile function of the standard normal distribution, on (0, 1), in float64."""
    return _quantile(probability - 0.5, np.minimum(probability, 1 - probability))


def _quantile(half: Array, tail: Array) -> Array:
    """The normal quantile of ``p = half + 1/2``; ``tail`` is the smaller of ``p`` and ``1 - p``."""
    depth = np.sqrt(-np.log(tail))
    middle = half * _ratio(QUANTILE_CENTRE, 0.180625 - half * half)
    outer = np.where(
        depth <= 5, _ratio(QUANTILE_TAIL, depth - 1.6), _ratio(QUANTILE_FAR_TAIL, depth - 5)
    )
    return np.where(np.abs(half) <= 0.425, middle, np.copysign(outer, half))


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    above, below = polynomials
    return np.polyval(above, x) / np.polyval(below, x)
