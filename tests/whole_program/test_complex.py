"""Complex arithmetic in native programs, beside numpy's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.runtime import dtype as dt
from tests.tolerance import tolerance

Array = np.ndarray[Any, Any]
PARTS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-30, 3e30]
SPECIAL = np.array([complex(a, b) for a, b in product(PARTS, PARTS)])

FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "real": (ops.real, np.real), "imag": (ops.imag, np.imag), "conj": (ops.conj, np.conj),
    "abs": (ops.abs, np.abs), "add": (ops.add, np.add), "subtract": (ops.subtract, np.subtract),
    "multiply": (ops.multiply, np.multiply), "divide": (ops.divide, np.divide),
    "complex": (lambda x: ops.complex(ops.imag(x), ops.real(x)), lambda x: x.imag + 1j * x.real),
    "cast": (lambda x: ops.cast(ops.real(x), x.dtype), lambda x: x.real + 0j),
}  # fmt: skip
BINARY = {"add", "subtract", "multiply", "divide"}


def native(function: Callable[..., Any], *arrays: Array) -> Array:
    jitted = pirkit.jit(function)
    assert pirkit.compile(jitted.lower(*arrays), require_native=True).reasons == ()
    return np.asarray(jitted(*arrays))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [
        (((7, 5), (7, 5)), np.complex64),
        (((3, 1, 4), (5, 1)), np.complex128),
        (((6,), ()), np.complex64),
    ],
)
def test_arithmetic(name: str, dtype: Any, shapes: Any) -> None:
    rng = np.random.default_rng(1)
    given = [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in shapes]
    given = given if name in BINARY else given[:1]
    function, wanted = FUNCTIONS[name]
    found, exact = native(function, *given), np.asarray(wanted(*given))
    bound = tolerance(dt.of_array(exact))
    assert (found.dtype, found.shape) == (exact.dtype, exact.shape)
    np.testing.assert_allclose(found, exact, rtol=bound.rtol, atol=bound.atol)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "complex"])
def test_special_values(name: str) -> None:
    """Infinities, NaN and signed zeros in each part, and parts whose squares overflow."""
    values = SPECIAL.astype(np.complex64)
    if name == "multiply":  # numpy rounds once where products overflow
        values = values[(values.real != np.float32(3e30)) & (values.imag != np.float32(3e30))]
    function, wanted = FUNCTIONS[name]
    pairs = np.repeat(values, len(values)), np.tile(values, len(values))
    given = pairs if name in BINARY else (values,)
    with np.errstate(all="ignore"):
        exact = np.asarray(wanted(*given))
    found = native(function, *given)
    for one, other in ((f(found), f(exact)) for f in (np.real, np.imag)):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_transforms_and_complex_numbers_in_a_loop() -> None:
    def function(x: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            z = ops.fft_r2c(v, [0], "backward", True, True)
            return ops.fft_c2r(z * z / (ops.abs(z) + 1.0), [0], "backward", False, 16)

        return pirkit.fori_loop(0, 4, step, x)

    x = np.sin(np.arange(16.0))
    exact = pirkit.compile(pirkit.trace(function, x), backend="reference")(x=x)
    (wanted,) = exact.values()
    np.testing.assert_allclose(np.asarray(pirkit.jit(function)(x)), wanted, rtol=1e-9)
