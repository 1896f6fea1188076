"""The largest and smallest elements: with ties, NaN and signed zeros, in order of their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops

Array = np.ndarray[Any, Any]


def lines(kind: str, shape: tuple[int, ...]) -> Array:
    random = np.random.default_rng(7)
    x = random.standard_normal(shape).astype(np.float32)
    if kind == "integers":
        return random.integers(-(2**31), 2**31 - 1, shape).astype(np.int32)
    if kind == "ties":
        return np.round(x)
    if kind == "nan":
        x[random.random(shape) < 0.05] = np.nan
    if kind == "zeros":
        return np.where(random.random(shape) < 0.9, np.copysign(np.float32(0), x), x)
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 2, 3, 40, 97])
@pytest.mark.parametrize("kind", ["plain", "integers", "ties", "nan", "zeros"])
def test_values_and_places(kind: str, k: int, largest: bool) -> None:
    """NaN is the greatest; the first one of equal elements wins."""
    x = lines(kind, (3, 97, 5))
    values, places = ops.topk(pirkit.from_numpy(x), k, 1, largest, sorted=True)
    y = x.astype(np.float64)
    is_nan = np.isnan(y)
    by = (np.zeros(y.shape) + np.arange(97)[:, None], -y if largest else y, is_nan != largest)
    wanted = np.lexsort(by, axis=1)[:, :k]
    np.testing.assert_array_equal(places.numpy(), wanted)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, 1))
