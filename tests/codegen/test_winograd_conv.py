"""Convolutions in Winograd's domain, against direct convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.opdef import lookup, reference
from pirkit.dialect.winograd import TILES, transforms_of
from pirkit.lowering.codegen.conv.compile_conv import native_winograd
from pirkit.lowering.codegen.conv.nchwc_tile import ACTIVATIONS
from pirkit.lowering.whole_program.nchwc import winograd_conv_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]

# image, blocks of filters, paddings, channels
CASES: dict[str, tuple[Any, ...]] = {
    "whole tiles": ((1, 2, 8, 8, 8), 4, (1, 1), 0),
    "part of a tile": ((2, 3, 7, 9, 8), 2, (1, 1), 0),
    "one filter block": ((1, 1, 6, 6, 16), 1, (1, 1), 0),
    "an odd number of filter blocks": ((1, 2, 5, 5, 8), 3, (1, 1), 0),
    "no padding": ((1, 2, 10, 7, 8), 2, (0, 0), 0),
    "wide padding": ((1, 1, 4, 3, 8), 2, (3, 5), 0),
    "sides of their own": ((1, 2, 9, 8, 8), 2, (0, 1, 2, 0), 0),
    "one result": ((2, 2, 3, 3, 8), 2, (0, 0), 0),
    "one position": ((1, 1, 1, 1, 8), 2, (1, 1), 0),
    "several tasks": ((2, 4, 37, 30, 16), 4, (1, 1), 0),
    "part of a block": ((1, 3, 6, 7, 8), 2, (1, 1), 19),
}


def transformed(filter: Array, tile: int) -> Array:
    """A filter ``[K/b, C/b, 3, 3, b, b]`` at the points of a tile."""
    known = np.array(transforms_of(tile).filter)
    points = np.einsum("pi,qj,kcijxy->pqkcxy", known, known, filter.astype(np.float64))
    return points.reshape(-1, *points.shape[2:]).astype(filter.dtype)


def check(case: tuple[Any, ...], tile: int, dtype: DType, activation: str, with_all: bool) -> None:
    image, filters, paddings, channels = case
    random, block = np.random.default_rng(0), image[-1]

    def drawn(*shape: int) -> Array:
        return random.standard_normal(shape).astype(dtype.np)

    x, w = drawn(*image), drawn(filters, image[1], 3, 3, block, block)
    if channels:  # what lies behind them is never multiplied
        x[:, -1, ..., channels % block :] = np.nan
    attrs: dict[str, Any] = {"paddings": paddings, "channels": channels}
    direct = reference.of(lookup("pir.nchwc_conv2d"))
    same: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1)}
    plain = direct(x, w, None, None, **attrs, **same, activation="identity")
    bias, residual = (drawn(filters * block), drawn(*plain.shape)) if with_all else (None, None)
    wanted = direct(x, w, bias, residual, **attrs, **same, activation=activation)
    given = (x, transformed(w, tile), bias, residual)
    rtol, atol = (1e-5, 4e-6) if dtype is dt.float32 else (1e-12, 1e-13)
    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol * float(np.abs(plain).max())}
    rule = reference.of(lookup("pir.nchwc_winograd_conv2d"))
    by_rule = rule(*given, **attrs, activation=activation)
    assert by_rule.shape == wanted.shape
    np.testing.assert_allclose(by_rule, wanted, **tolerance)
    metas = [None if a is None else TensorMeta(a.shape, dtype) for a in given]
    conv = winograd_conv_of(
        metas, TensorMeta(wanted.shape, dtype), {**attrs, "activation": activation}
    )
    out = np.full(wanted.shape, np.nan, dtype.np)
    native_winograd(conv).bind([*(a for a in given if a is not None), out])()
    np.testing.assert_allclose(out, wanted, **tolerance)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", CASES)
def test_it_agrees_with_direct_convolution(name: str, tile: int) -> None:
    check(CASES[name], tile, dt.float32, "relu", with_all=True)


@pytest.mark.parametrize("tile", TILES)
def test_it_agrees_in_float64_without_bias_and_summand(tile: int) -> None:
    check(CASES["part of a tile"], tile, dt.float64, "identity", with_all=False)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    check(CASES["whole tiles"], 4, dt.float32, activation, with_all=True)


@pytest.mark.parametrize("tile", TILES)
def test_the_matrices_compute_a_convolution_exactly(tile: int) -> None:
    known = transforms_of(tile)
    a, b, g = (np.array(m) for m in (known.output, known.input, known.filter))
    random = np.random.default_rng(0)
    row, taps = random.standard_normal(tile + 2), random.standard_normal(3)
    found = a @ ((g @ taps) * (b @ row))
    np.testing.assert_allclose(found, np.correlate(row, taps), rtol=1e-12)
