"""The tolerances of numerical comparisons, by element type; all tests use this table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]


class Tolerance(Struct, frozen=True):
    """``|actual - expected| <= atol + rtol * |expected|``; zero means equal."""

    rtol: float
    atol: float


EXACT: Final = Tolerance(0.0, 0.0)

TOLERANCES: Final = {
    dt.float8_e5m2: Tolerance(2.5e-1, 2.5e-1),
    dt.float8_e4m3fn: Tolerance(1.3e-1, 1.3e-1),
    dt.bfloat16: Tolerance(1.6e-2, 1e-2),
    dt.float16: Tolerance(2e-3, 1e-3),
    dt.float32: Tolerance(1e-5, 1e-5),
    dt.complex64: Tolerance(1e-5, 1e-5),
    dt.float64: Tolerance(1e-12, 1e-12),
    dt.complex128: Tolerance(1e-12, 1e-12),
}
"""Element types that are not listed (integers and bool) must be equal."""


def tolerance(dtype: DType) -> Tolerance:
    """The tolerance for results of that element type."""
    return TOLERANCES.get(dtype, EXACT)


DRIFT: Final = 10
"""Tolerance of a whole program, as a multiple of that of one operation."""


def difference(actual: Array, expected: Array, loosest: DType | None = None) -> str | None:
    """A one-line message if the result of one operation is outside the tolerance, else None.

    NaN equals NaN, and infinities equal those of the same sign. ``loosest`` is the least precise
    element type of the computation, if it is not that of the result.
    """
    bound = _bound(expected, loosest)
    return _form(actual, expected) or _values(actual, expected, bound.rtol, bound.atol)


def drift(actual: Array, expected: Array, loosest: DType | None = None) -> str | None:
    """Like `difference`, for the result of a whole program that was computed differently.

    Errors accumulate over a program, and sums cancel: floats may differ by ``DRIFT`` times the
    tolerance, relative to the largest element.
    """
    bound = _bound(expected, loosest)
    scale = DRIFT * (bound.atol + bound.rtol * _largest(expected))
    return _form(actual, expected) or _values(actual, expected, 0.0, scale)


def within_rounding(actual: Array, expected: Array, moved: Array, loosest: DType | None) -> bool:
    """Whether a result drifts no more than ``moved``, that of inputs in which last bits differ.

    Both counts, how many elements do and how far: an index that rounding changes moves few far.
    """
    if _form(actual, expected) or _form(moved, expected):
        return False
    bound, right = _bound(expected, loosest), _comparable(expected).astype(np.complex128)
    scale = DRIFT * (bound.atol + bound.rtol * _largest(expected))
    errors = [np.abs(_comparable(x).astype(np.complex128) - right) for x in (actual, moved)]
    counts = [int(np.sum(~(error <= scale))) for error in errors]
    far, allowed = (float(np.max(error, initial=0.0)) for error in errors)
    return counts[0] <= 2 * counts[1] and far <= DRIFT * allowed


def loosest_of(dtypes: Iterable[DType]) -> DType | None:
    """The least precise of the rounding element types; None if all are exact."""
    rounding = [d for d in dtypes if d in TOLERANCES]
    return max(rounding, key=lambda d: TOLERANCES[d].rtol, default=None)


class Wrong(Struct, frozen=True):
    """The first element of a result that is wrong, and by how much."""

    at: tuple[int, ...]
    got: Any
    expected: Any
    bound: float
    ulps: float | None
    """The distance in units in the last place of the expected number; None for other types."""
    count: int
    size: int

    def __str__(self) -> str:
        many = f"{self.count:,} of {self.size:,} elements are wrong"
        text = f"element {list(self.at)} is {self.got}, expected {self.expected}"
        if not self.bound:
            return f"{text}; {many}"
        error = abs(self.got - self.expected)
        if not np.isfinite(error):
            return f"{text}; {many}"
        relative = error / abs(self.expected) if self.expected else np.inf
        ulps = "" if self.ulps is None else f", {self.ulps:.3g} ulp"
        return (
            f"{text}: the error is {error:.2g} (relative {relative:.2g}{ulps}), the tolerance "
            f"{self.bound:.2g}; {many}"
        )


def wrong_element(actual: Array, expected: Array, inputs: Sequence[Array]) -> Wrong | str | None:
    """The error in the result of one kernel for these inputs, as text; None if it is right.

    Floats may be off by ``DRIFT`` times the relative tolerance of the coarsest type, relative to
    the largest element, as a kernel may stand for many operations. There is no absolute tolerance,
    which would hide wrong elements of small results; instead, what cancels may be off by a few
    units in the last place of the largest input, more where many elements are added up.
    """
    if form := _form(actual, expected):
        return form
    a, b = _comparable(actual), _comparable(expected)
    own = dt.of_array(expected)
    if tolerance(own) is EXACT:
        wrong, bound = a != b, 0.0
    else:
        floats = [x for x in (expected, *inputs) if tolerance(dt.of_array(x)) is not EXACT]
        rtol = max(tolerance(dt.of_array(x)).rtol for x in floats)
        terms = max([x.size for x in inputs], default=1) / max(expected.size, 1)
        cancelled = rtol * max(map(_largest, floats)) * np.sqrt(max(terms, 1.0)) / _CANCELS
        bound = float(DRIFT * rtol * _largest(expected) + cancelled)
        wrong = ~np.isclose(a, b, rtol=0.0, atol=bound, equal_nan=True)
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    ulps = None
    if own in _SPACED:
        ulps = float(abs(a[at] - b[at])) / float(np.spacing(np.abs(expected[at])))
    return Wrong(at, a[at], b[at], bound, ulps, int(np.sum(wrong)), a.size)


_CANCELS: Final = 10
_SPACED: Final = (dt.float16, dt.float32, dt.float64)


def _bound(expected: Array, loosest: DType | None) -> Tolerance:
    bound = tolerance(dt.of_array(expected))
    if loosest is None or bound is EXACT:
        return bound
    return max(bound, tolerance(loosest), key=lambda t: t.rtol)


def _form(actual: Array, expected: Array) -> str | None:
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    return None


def _values(actual: Array, expected: Array, rtol: float, atol: float) -> str | None:
    a, b = _comparable(actual), _comparable(expected)
    if tolerance(dt.of_array(expected)) is EXACT:
        wrong = a != b
    else:
        wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(np.sum(wrong))} of {a.size} differ, first at {at}: {a[at]}, expected {b[at]}"


def _largest(expected: Array) -> float:
    finite = np.abs(_comparable(expected)[np.isfinite(_comparable(expected))])
    return float(np.max(finite, initial=0.0))


def _comparable(x: Array) -> Array:
    """The array in float32 if numpy cannot compare its type exactly, else unchanged."""
    if x.dtype.itemsize < 4 and dt.of_array(x).is_float:
        return x.astype(np.float32)
    return x
