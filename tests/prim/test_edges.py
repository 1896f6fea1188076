"""Rules at their edges: quotients that round, powers at zero and at infinity, what is refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from tests.prim.differentiation import Array, Traced

# --- bins ----------------------------------------------------------------------------------------

BINS: Final = [(7, 3, np.float32), (6, 5, np.float64)]
"""Lengths over numbers of bins where multiplying with the inverse crosses a whole number."""


@pytest.mark.parametrize(("length", "bins", "dtype"), BINS)
@pytest.mark.parametrize("name", ["roi_pool", "psroi_pool"])
def test_bins_end_where_the_whole_ops_bins_end(
    name: str, length: int, bins: int, dtype: Any
) -> None:
    side, channels = length + 3, 1 if name == "roi_pool" else bins * bins
    x = np.random.default_rng(0).uniform(size=(1, channels, side, side)).astype(dtype)
    boxes = np.array([[0, 0, length - 1, length - 1], [1, 0, length, length - 1]], dtype)
    inputs = [x, boxes, np.array([2], np.int32)]
    attrs: dict[str, Any] = {"pooled_height": bins, "pooled_width": bins, "spatial_scale": 1.0}
    if name == "psroi_pool":
        attrs["output_channels"] = 1
    whole, parts = (computed(name, inputs, attrs, p) for p in ("", "decompose"))
    np.testing.assert_allclose(parts, whole, rtol=1e-6 if dtype is np.float32 else 1e-13)


def computed(name: str, inputs: list[Array], attrs: dict[str, Any], pipeline: str) -> Array:
    t = Traced(inputs)
    found = t.b(f"pd_op.{name}", *t.args, **attrs)
    return t.run({"y": found[0] if isinstance(found, tuple) else found}, pipeline)["y"][0]


# --- powers --------------------------------------------------------------------------------------

POWERS: Final = [
    *((e, 0.0, 0.0) for e in (1.5, 2.5, 33.0, 40.0)),
    (0.5, 0.0, np.inf),
    (0.5, np.inf, 0.0),
    (0.7, np.inf, 0.0),
    (2.5, np.inf, np.inf),
    (2.5, 4.0, 20.0),
    (-0.5, 4.0, -1 / 16),
]
"""Exponent, where, and the first derivative there."""


@pytest.mark.parametrize(("exponent", "at", "expected"), POWERS)
def test_first_derivatives_of_powers_at_the_ends(
    exponent: float, at: float, expected: float
) -> None:
    x, one = np.array([at]), np.ones(1)

    def power(x: Any) -> Any:
        return ops.pow(x, exponent)

    def by_tensor(x: Any) -> Any:
        return ops.elementwise_pow(x, np.array([exponent]))

    for f in (power, by_tensor):
        assert float(pirkit.jvp(f, (x,), (one,))[1][0]) == expected
        assert float(pirkit.jacfwd(f)(x)[0, 0]) == expected
        assert float(pirkit.grad(lambda x, f=f: f(x).sum())(x)[0]) == expected


@pytest.mark.parametrize(("at", "expected"), [(0.0, np.inf), (np.inf, 0.0), (4.0, 0.25)])
def test_first_derivatives_of_roots_at_the_ends(at: float, expected: float) -> None:
    assert float(pirkit.jvp(ops.sqrt, (np.array([at]),), (np.ones(1),))[1][0]) == expected


def test_second_derivatives_of_powers_at_zero() -> None:
    x, one = np.array([0.0, 1.0]), np.ones(2)
    found = pirkit.hessian(lambda x: ops.pow(x, 3.5).sum())(x)
    np.testing.assert_array_equal(found, [[0.0, 0.0], [0.0, 8.75]])
    _, curve = pirkit.jet(lambda x: ops.pow(x, 3.5), (x,), ((one, 0 * one, 0 * one),))
    np.testing.assert_allclose(curve, [[0.0, 3.5], [0.0, 8.75], [0.0, 13.125]], rtol=1e-14)


def test_infinite_exponents() -> None:
    """They have derivatives, if no useful ones."""
    y, _ = pirkit.jvp(lambda x: ops.pow(x, np.inf), (np.array([0.5, 2.0]),), (np.ones(2),))
    np.testing.assert_array_equal(y, [0.0, np.inf])
