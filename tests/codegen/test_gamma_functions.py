"""`lgamma` and `digamma` of native code, against exact values and the library's own numpy code."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

from pirkit.runtime import dtype as dt
from pirkit.runtime import special_functions
from pirkit.runtime.native.target import host
from tests.codegen.test_vecmath import EDGES, apply, worst

POINTS: Final = (
    # x, lgamma and digamma by mpmath with 40 digits
    (5e-324, 744.4400719213812, -math.inf),
    (1e-300, 690.7755278982137, -9.999999999999999e299),
    (1e-08, 18.42068073818021, -100000000.57721564),
    (0.25, 1.2880225246980774, -4.2274535333762655),
    (0.5, 0.5723649429247001, -1.9635100260214235),
    (0.999, 0.0005780385328913802, -0.5788618021086455),
    (1.001, -0.0005763935982833062, -0.5755719318103006),
    (1.25, -0.09827183642181316, -0.22745353337626542),
    (1.4616321449683622, -0.12148629053584961, -9.241265521729427e-17),
    (1.5, -0.12078223763524522, 0.03648997397857652),
    (1.999, -0.0004224618006921073, 0.4221391988923556),
    (2.001, 0.000423106734800117, 0.42342906719069845),
    (2.5, 0.2846828704729192, 0.7031566406452432),
    (3.75, 1.486815578593417, 1.1825373886117962),
    (7.3, 7.147892523022248, 1.9178203356379862),
    (9.4999, 11.689113647564618, 2.197726776612563),
    (9.5, 11.689333420797269, 2.1977378764029494),
    (9.9999, 12.801602305348396, 2.2517420723779034),
    (10.0, 12.801827480081469, 2.251752589066721),
    (33.3, 82.60372358165495, 3.490467238520243),
    (100000.0, 1051287.7089736569, 11.512920464961896),
    (1e200, 4.595170185988091e202, 460.51701859880916),
    (-1e-300, 690.7755278982137, 9.999999999999999e299),
    (-1e-08, 18.42068074972452, 99999999.42278431),
    (-0.25, 1.589575312551186, 2.9141391202135276),
    (-0.75, 1.5757045971498584, -2.894120200042932),
    (-1.5, 0.860047015376481, 0.7031566406452432),
    (-7.3, -7.779101629826852, 4.33730730551005),
    (-20.7, -43.105133189536225, 0.7715931850825055),
)
NAMES: Final = ("lgamma", "digamma")


@pytest.mark.parametrize("name", NAMES)
def test_exact_values(name: str) -> None:
    table = np.array(POINTS)
    want = table[:, 1 + NAMES.index(name)]
    got = apply(name, dt.float64, table[:, 0].copy())
    # Reflection cancels a digit or so of these negative numbers.
    assert worst(got, want, dt.float64) <= 5


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_equal_to_the_numpy_code(name: str, dtype: dt.DType, bits: int) -> None:
    if bits > host().vector_bits:
        pytest.skip("this CPU has no vectors so wide")
    rng = np.random.default_rng(0)
    poles = [-1.0, -2.0, -3.0, -1e20, 1e30, 2.0]
    x = np.concatenate([
        rng.uniform(0, 15, 3000), rng.uniform(-12, 0, 3000), 10 ** rng.uniform(-30, 30, 500),
        EDGES, poles,
    ]).astype(dtype.np)  # fmt: skip
    x = x[~(np.abs(x) < 1e-300) | (x == 0)]  # the reflection of the numpy code overflows there
    want = getattr(special_functions, name)(x.astype(np.float64))
    got = apply(name, dtype, x, bits=bits)
    # Subnormal numbers have a reciprocal in float64 only.
    want = np.where(np.abs(want) > np.finfo(dtype.np).max, np.copysign(np.inf, want), want)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    special_cases = ~np.isfinite(want)
    np.testing.assert_array_equal(got[special_cases], want[special_cases].astype(dtype.np))
    ordinary = ~special_cases
    # Near their zeros both have the error of terms of the size 1 to 20.
    rounding = np.finfo(dtype.np).eps if dtype is dt.float32 else 1e-13
    error = np.abs(got[ordinary] - want[ordinary])
    size = np.abs(want[ordinary]) + (1e-6 if dtype is dt.float32 else 1.0)
    assert (error / size).max() <= rounding


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64])
def test_lgamma_is_zero_at_1_and_2(dtype: dt.DType) -> None:
    """On each side: `ceil` of a number next to 0 is 1."""
    x = np.array([1.0, 2.0], dtype.np)
    assert special_functions.lgamma(x).tolist() == [0.0, 0.0]
    assert apply("lgamma", dtype, x).tolist() == [0.0, 0.0]
