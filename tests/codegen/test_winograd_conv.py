"""Convolutions in Winograd's domain, against direct convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.opdef import lookup, reference
from pirkit.dialect.winograd import TILES, tiles_of, transforms_of
from pirkit.lowering.codegen.conv.compile_conv import native_winograd
from pirkit.lowering.codegen.conv.nchwc_tile import ACTIVATIONS
from pirkit.lowering.codegen.conv.winograd_blocking import WinogradConv, winograd_blocking
from pirkit.lowering.whole_program.nchwc import winograd_conv_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

THREE: tuple[Any, ...] = (3, 3)
# image, blocks of filters, paddings, channels, and the size of filters
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
    "5 x 5": ((1, 2, 9, 8, 8), 2, (2, 2), 0, (5, 5)),
    "3 x 5": ((1, 2, 9, 8, 8), 2, (2, 1), 0, (3, 5)),
    "a row": ((2, 2, 6, 11, 8), 2, (0, 1), 0, (1, 3)),
    "a row of 7": ((1, 2, 6, 11, 8), 2, (0, 3), 0, (1, 7)),
    "a column": ((1, 2, 11, 6, 8), 2, (2, 0), 0, (5, 1)),
    "a signal": ((1, 2, 1, 43, 8), 2, (0, 2), 0, (1, 5)),
}
TILED = [(name, tile) for name, case in CASES.items() for tile in tiles_of((*case, THREE)[4])]


def transformed(filter: Array, tile: tuple[int, ...]) -> Array:
    """A filter ``[K/b, C/b, rows, columns, b, b]`` at the points of a tile."""
    down, across = (
        np.array(transforms_of(m, r).filter) for m, r in zip(tile, filter.shape[2:4], strict=True)
    )
    points = np.einsum("pi,qj,kcijxy->pqkcxy", down, across, filter.astype(np.float64))
    return points.reshape(-1, *points.shape[2:]).astype(filter.dtype)


def check(
    case: tuple[Any, ...], tile: tuple[int, ...], dtype: DType, activation: str, with_all: bool
) -> None:
    whole: tuple[Any, ...] = (*case, THREE)
    image, filters, paddings, channels, taps = whole[:5]
    random, block = np.random.default_rng(0), image[-1]

    def drawn(*shape: int) -> Array:
        return random.standard_normal(shape).astype(dtype.np)

    x, w = drawn(*image), drawn(filters, image[1], *taps, block, block)
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
    rule, attrs = (
        reference.of(lookup("pir.nchwc_winograd_conv2d")),
        {**attrs, "kernel_size": taps, "tile": tile},
    )
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


@pytest.mark.parametrize(("name", "tile"), TILED)
def test_it_agrees_with_direct_convolution(name: str, tile: tuple[int, ...]) -> None:
    check(CASES[name], tile, dt.float32, "relu", with_all=True)


@pytest.mark.parametrize("tile", tiles_of(THREE))
def test_it_agrees_in_float64_without_bias_and_summand(tile: tuple[int, ...]) -> None:
    check(CASES["part of a tile"], tile, dt.float64, "identity", with_all=False)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    check(CASES["whole tiles"], (4, 4), dt.float32, activation, with_all=True)


@pytest.mark.parametrize(("taps", "tile"), [(r, m) for r, tiles in TILES.items() for m in tiles])
def test_the_matrices_compute_a_convolution_exactly(taps: int, tile: int) -> None:
    known = transforms_of(tile, taps)
    a, b, g = (np.array(m) for m in (known.output, known.input, known.filter))
    random = np.random.default_rng(0)
    row, filter = random.standard_normal(tile + taps - 1), random.standard_normal(taps)
    found = a @ ((g @ filter) * (b @ row))
    np.testing.assert_allclose(found, np.correlate(row, filter), rtol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 4, 16])
@pytest.mark.parametrize(("size", "filters"), [(56, 64), (14, 256), (7, 512), (28, 48)])
def test_threads_have_tasks(size: int, filters: int, threads: int) -> None:
    block, sides = 16, (size, size)
    conv = WinogradConv(
        1, block, 8, filters // block, sides, sides, (1, 1), (3, 3), (4, 4), dt.float32
    )
    found = winograd_blocking(conv, host(), threads)
    most = conv.counts[0] * conv.filter_blocks // found.filters
    assert found.tasks(conv) >= min(threads, most)
    assert conv.filter_blocks >= found.task_filters
    assert found.task_filters % found.filters == 0
