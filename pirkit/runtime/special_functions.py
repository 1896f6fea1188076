"""Special functions that numpy lacks, vectorised and accurate to a few units in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pirkit.runtime.lazy_numpy import Array, np

_BLOCK: Final = 1 << 14
"""Elements per block, so that the temporaries of a polynomial stay in cache."""

# W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969).
# Highest power first.
_ERF_NUM: Final = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2,
    3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_ERF_DEN: Final = (
    1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
    2.84423683343917062e3,
)  # fmt: skip
_ERFC_NUM: Final = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
    6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
    1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_ERFC_DEN: Final = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
    1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
    3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip

_SMALL: Final = 0.46875
_ONE_FROM: Final = 6.0
"""Beyond this erf is 1 in float64."""

_ERF_TANH: Final = (
    1.12837927, 1.02769055e-1, -1.91826890e-4, -6.19789582e-4, 8.76398654e-5, -5.66902669e-6,
    1.41893603e-7,
)  # fmt: skip
"""``erf(x) = tanh(x * P(x * x))``: the coefficients of P, lowest power first.

Fitted to ``atanh(erf(x)) / x`` on (0, 3.9) with equal relative errors of erf, below 1e-7. Beyond, P
grows, so that tanh stays 1.
"""

_SHIFT: Final = 10
"""The asymptotic series below are exact to float64 from here on."""

# Bernoulli terms of the Stirling series, B(2k) / (2k (2k-1)) and B(2k) / (2k), for k = 1...
LGAMMA_SERIES: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
DIGAMMA_SERIES: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def erf(x: Array) -> Array:
    """Error function, in float64 or the narrower float type of ``x``."""
    return _in_blocks(_erf, x)


def erf_into(x: Array, out: Array, room: Array) -> None:
    """Write the error function of ``x`` into ``out``; all three are different arrays.

    In float32 its error is about that of the type; other types are computed by :func:`erf`.
    """
    if x.dtype != np.float32:
        out[...] = erf(x)
        return
    square = np.square(x, room)
    np.multiply(square, np.float32(_ERF_TANH[-1]), out)
    for c in _ERF_TANH[-2:0:-1]:
        np.add(out, c, out)
        np.multiply(out, square, out)
    np.add(out, _ERF_TANH[0], out)
    np.multiply(out, x, out)
    np.tanh(out, out)


def lgamma(x: Array) -> Array:
    """Logarithm of the absolute value of the gamma function; +inf at its poles."""
    return _in_blocks(_lgamma, x)


def digamma(x: Array) -> Array:
    """Derivative of ``lgamma``; NaN at the negative integers, -inf at 0."""
    return _in_blocks(_digamma, x)


def _in_blocks(function: Callable[[Array], Array], x: Array) -> Array:
    flat: Array = np.ravel(x)
    out: Array = np.empty(flat.shape, flat.dtype)
    with np.errstate(all="ignore"):
        for i in range(0, flat.size, _BLOCK):
            out[i : i + _BLOCK] = function(flat[i : i + _BLOCK].astype(np.float64))
    return out.reshape(x.shape)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total *= x
        total += c
    return total


def _erf(x: Array) -> Array:
    y = np.minimum(np.abs(x), _ONE_FROM)
    square = y * y
    complement = _polynomial(_ERFC_NUM, y) / _polynomial(_ERFC_DEN, y) * np.exp(-square)
    large = np.copysign(1.0 - complement, x)
    small = x * (_polynomial(_ERF_NUM, square) / _polynomial(_ERF_DEN, square))
    return np.where(y <= _SMALL, small, large)


def _lgamma(x: Array) -> Array:
    positive = np.where(x < 0.5, 1.0 - x, x)
    shift = positive < _SHIFT
    product = np.ones_like(x)
    for k in range(_SHIFT):
        product *= np.where(shift, positive + k, 1.0)
    z = np.where(shift, positive + _SHIFT, positive)
    series = _polynomial(LGAMMA_SERIES[::-1], 1.0 / (z * z)) / z
    value = (z - 0.5) * np.log(z) - z + 0.5 * np.log(2 * np.pi) + series - np.log(product)
    value = np.where(np.isposinf(positive), np.inf, value)
    value = np.where((positive == 1.0) | (positive == 2.0), 0.0, value)  # `ceil` of it would tell
    sine = np.sin(np.pi * np.abs(x - np.rint(x)))  # exact next to a pole
    reflected = np.where(sine == 0.0, np.inf, np.log(np.pi) - np.log(sine) - value)
    return np.where(np.isneginf(x), np.inf, np.where(x < 0.5, reflected, value))


def _digamma(x: Array) -> Array:
    positive = np.where(x < 0.5, 1.0 - x, x)
    shift = positive < _SHIFT
    steps = np.zeros_like(x)
    for k in range(_SHIFT):
        steps += np.where(shift, 1.0 / (positive + k), 0.0)
    z = np.where(shift, positive + _SHIFT, positive)
    inverse = 1.0 / (z * z)
    value = np.log(z) - 0.5 / z - inverse * _polynomial(DIGAMMA_SERIES[::-1], inverse) - steps
    fraction = x - np.rint(x)
    reflected = np.where(fraction == 0.0, np.nan, value - np.pi / np.tan(np.pi * fraction))
    return np.where(x == 0.0, -np.copysign(np.inf, x), np.where(x < 0.5, reflected, value))
