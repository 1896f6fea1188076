"""`erfinv` of native code, against exact values and the library's own numpy code."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from pirkit.runtime import bessel
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import host
from tests.codegen.test_vecmath import apply, worst

POINTS: Final = (
    # x and erfinv(x) by mpmath with 40 digits
    (1e-300, 8.86226925452758e-301),
    (1e-08, 8.86226925452758e-09),
    (0.25, 0.2253120550121781),
    (0.5, 0.4769362762044699),
    (0.85, 1.0179024648320276),
    (0.999, 2.3267537655135246),
)


def test_exact_values() -> None:
    x, want = np.array(POINTS).T
    for sign in (1, -1):
        assert worst(apply("erfinv", dt.float64, sign * x), sign * want, dt.float64) <= 4


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_equal_to_the_numpy_code(dtype: dt.DType, bits: int) -> None:
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    rng = np.random.default_rng(0)
    near_one = 1 - 10 ** rng.uniform(-7 if dtype is dt.float32 else -16, -1, 500)
    tiny = 10 ** rng.uniform(-30, -1, 500)
    x = np.concatenate([rng.uniform(-1, 1, 3000), near_one, -near_one, tiny])
    x = np.append(x.astype(dtype.np), [0.0, -0.0]).astype(dtype.np)
    x = x[np.abs(x) < 1]
    got = apply("erfinv", dtype, x, bits=bits)
    assert worst(got, bessel.erfinv(x.astype(np.float64)), dtype) <= 12  # both round
    assert np.signbit(got).tolist() == np.signbit(x).tolist()
    ends = np.array([1, -1, 1.5, -2, np.nan, np.inf], dtype.np)
    found = apply("erfinv", dtype, ends, bits=bits)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, *[np.nan] * 4])
