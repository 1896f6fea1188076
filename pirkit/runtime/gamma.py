"""The incomplete gamma function."""

from __future__ import annotations

from typing import Final

from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.special_functions import lgamma

_MOST_TERMS: Final = 10_000
_TINY: Final = 1e-300


def gammaincc(a: Array, x: Array) -> Array:
    """The regularized upper incomplete gamma function Q(a, x); 1 if ``a`` or ``x`` is not positive.

    For ``x < a + 1`` it is 1 minus a power series, else a continued fraction (DLMF 8.7.1, 8.9.2).
    """
    a, x = (np.asarray(v, np.float64) for v in np.broadcast_arrays(a, x))
    found = np.where(np.isnan(a) | np.isnan(x), np.nan, 1.0)
    positive = (a > 0) & (x > 0)
    found[positive & np.isinf(x)] = 0.0
    inside = positive & np.isfinite(x) & np.isfinite(a)
    for part, formula in ((inside & (x < a + 1), _below), (inside & (x >= a + 1), _above)):
        if part.any():
            found[part] = formula(a[part], x[part])
    return found


def _front(a: Array, x: Array) -> Array:
    return np.exp(a * np.log(x) - x - lgamma(a))


def _below(a: Array, x: Array) -> Array:
    term = 1 / a
    total = term.copy()
    for n in range(1, _MOST_TERMS):
        term *= x / (a + n)
        total += term
        if np.all(term <= total * np.finfo(np.float64).eps):
            break
    return 1 - total * _front(a, x)


def _above(a: Array, x: Array) -> Array:
    """The continued fraction, by Lentz's method."""
    b = x + 1 - a
    c, d = np.full_like(b, 1 / _TINY), 1 / b
    fraction = d.copy()
    for n in range(1, _MOST_TERMS):
        numerator = -n * (n - a)
        b = b + 2
        d = 1 / _away(numerator * d + b)
        c = _away(b + numerator / c)
        change = c * d
        fraction *= change
        if np.all(np.abs(change - 1) <= np.finfo(np.float64).eps):
            break
    return fraction * _front(a, x)


def _away(x: Array) -> Array:
    """``x``, with values near 0 replaced by a tiny number, so that Lentz's method can divide."""
    return np.where(np.abs(x) < _TINY, _TINY, x)
