"""How far a computed number may be from the expected one, by element type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tolerance:
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


def difference(actual: Array, expected: Array, loosest: DType | None = None) -> str | None:
    """What is wrong with ``actual``, in one line, or None if it is close enough.

    NaN equals NaN, and infinities equal those of the same sign. ``loosest`` is the coarsest element
    type that took part in the computation, when it is not that of the result.
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    own = dt.of_array(expected)
    bound = tolerance(own)
    if loosest is not None and bound is not EXACT:
        bound = max(bound, tolerance(loosest), key=lambda t: t.rtol)
    a, b = _comparable(actual), _comparable(expected)
    if bound is EXACT:
        wrong = a != b
    else:
        wrong = ~np.isclose(a, b, rtol=bound.rtol, atol=bound.atol, equal_nan=True)
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(np.sum(wrong))} of {a.size} differ, first at {at}: {a[at]}, expected {b[at]}"


def _comparable(x: Array) -> Array:
    """Types that numpy cannot compare or subtract exactly, as wider ones that it can."""
    if x.dtype.itemsize < 4 and dt.of_array(x).is_float:
        return x.astype(np.float32)
    return x
