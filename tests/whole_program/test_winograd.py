"""Convolutions of frozen programs in Winograd's domain, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.frontend.freeze import freeze

# channels, filters, image, size of filters, paddings, dilations
CASES: dict[str, tuple[Any, ...]] = {
    "3 x 3": (32, 48, (9, 14), (3, 3), (1, 1), (1, 1)),
    "5 x 5": (48, 32, (12, 7), (5, 5), (2, 2), (1, 1)),
    "signal": (128, 128, (1, 50), (1, 3), (0, 1), (1, 1)),
    "sides of their own": (32, 32, (10, 11), (3, 3), (0, 2, 1, 0), (1, 1)),
    "part of a block": (72, 64, (13, 16), (3, 3), (1, 1), (1, 1)),
    "dilated": (64, 64, (17, 22), (3, 3), (2, 2), (2, 2)),
    "dilated, without padding": (64, 64, (23, 20), (3, 3), (0, 0), (2, 3)),
    "dilated along rows": (64, 64, (24, 20), (3, 3), (3, 1), (3, 1)),
    "dilated signal": (256, 128, (1, 523), (1, 3), (0, 0, 8, 0), (1, 4)),
}


def program(case: tuple[Any, ...], residual: bool) -> tuple[Any, dict[str, Any]]:
    channels, filters, image, taps, paddings, dilations = case
    random, b = np.random.default_rng(0), pirkit.ProgramBuilder()

    def drawn(*shape: int) -> Any:
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    x = b.input("x", (2, channels, *image), "float32")
    words = {"groups": 1, "padding_algorithm": "EXPLICIT", "data_format": "NCHW"}
    w = b.parameter("w", drawn(filters, channels, *taps))
    y = b("pd_op.conv2d", x, w, strides=(1, 1), paddings=paddings, dilations=dilations, **words)
    y = b.relu(b.add(y, b.parameter("b", drawn(1, filters, 1, 1))))
    if residual:
        v = b.parameter("v", drawn(filters, filters, 3, 3))
        ones = {"strides": (1, 1), "paddings": (1, 1), "dilations": (1, 1)}
        y = b.add(b("pd_op.conv2d", y, v, **ones, **words), y)
    b.output("y", y)
    return b.finish(), {"x": drawn(2, channels, *image) * 30}


def names(made: Any) -> list[str]:
    return [op.name for op in freeze(made, None)[0].main.operations]


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_reference(name: str, residual: bool) -> None:
    made, inputs = program(CASES[name], residual)
    assert "pir.nchwc_winograd_conv2d" in names(made)
    want = pirkit.compile(made, backend="reference")(**inputs)["y"]
    for threads in (1, 2):
        found = pirkit.compile(made, freeze=True, threads=threads)(**inputs)["y"]
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_filters_are_transformed_once() -> None:
    made, _ = program(CASES["3 x 3"], residual=True)
    assert "pd_op.matmul" not in names(made)
    assert "pir.packed_matmul" not in names(made)


def test_the_setting_keeps_convolutions_direct() -> None:
    made, inputs = program(CASES["dilated"], residual=True)
    want = pirkit.compile(made, freeze=True)(**inputs)["y"]
    with pirkit.config(winograd="0"):
        assert "pir.nchwc_winograd_conv2d" not in names(made)
        found = pirkit.compile(made, freeze=True)(**inputs)["y"]
    assert (found != want).any()  # neither was found in the cache of the other
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
