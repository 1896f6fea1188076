"""Convolutions over blocked channels, against the reference rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.dialect.opdef import lookup, reference
from pirkit.lowering.codegen.conv import compile_conv
from pirkit.lowering.codegen.conv.compile_conv import native_nchwc
from pirkit.lowering.codegen.conv.nchwc_blocking import (
    NchwcBlocking,
    NchwcConv,
    nchwc_blocking,
)
from pirkit.lowering.codegen.conv.nchwc_tile import ACTIVATIONS
from pirkit.lowering.whole_program.nchwc import nchwc_conv_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

# image, filter, strides, paddings, dilations, channels
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((2, 3, 11, 13, 8), (4, 3, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1)),
    "planar": ((2, 3, 19, 18), (3, 1, 7, 7, 3, 8), (2, 2), (3, 3), (1, 1)),
    "one by one": ((2, 5, 7, 9, 8), (5, 5, 1, 1, 8, 8), (1, 1), (0, 0), (1, 1)),
    "one by one, stride 2": ((1, 2, 7, 8, 8), (3, 2, 1, 1, 8, 8), (2, 2), (0, 0), (1, 1)),
    "depthwise": ((2, 3, 9, 10, 8), (3, 3, 3, 8), (1, 1), (1, 1), (1, 1)),
    "depthwise, stride 2": ((1, 2, 11, 12, 8), (2, 5, 5, 8), (2, 2), (2, 2), (1, 1)),
    "dilated": ((1, 2, 12, 17, 8), (2, 2, 3, 3, 8, 8), (1, 1), (2, 5), (2, 5)),
    "stride and dilation": ((1, 1, 15, 20, 8), (2, 1, 3, 4, 8, 8), (2, 3), (2, 5, 1, 4), (2, 3)),
    "filter wider than the image": ((1, 2, 3, 4, 8), (2, 2, 5, 7, 8, 8), (1, 1), (2, 3), (1, 1)),
    "padding only": ((1, 1, 1, 1, 8), (1, 1, 3, 3, 8, 8), (1, 1), (4, 3), (1, 1)),
    "padding only, dilated": ((1, 1, 2, 2, 8), (1, 1, 3, 3, 8, 8), (1, 1), (8, 8), (2, 2)),
    "groups": ((2, 6, 7, 9, 8), (4, 3, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1)),
    "groups of one block": ((1, 3, 9, 8, 16), (3, 1, 3, 3, 16, 16), (2, 2), (1, 1), (1, 1)),
    "groups of four filters": ((1, 4, 5, 6, 8), (8, 2, 1, 1, 8, 8), (1, 1), (0, 0), (1, 1)),
    "wide blocks": ((1, 2, 6, 7, 16), (2, 2, 3, 3, 16, 16), (1, 1), (1, 1), (1, 1)),
    "many channels": ((1, 20, 6, 7, 8), (4, 20, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1)),
    "part of a block": ((1, 3, 6, 7, 8), (2, 3, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1), 19),
    "part of one block": ((2, 1, 6, 7, 16), (2, 1, 1, 1, 16, 16), (1, 1), (0, 0), (1, 1), 11),
    "part of a block, dilated": ((1, 2, 9, 9, 8), (2, 2, 3, 3, 8, 8), (2, 2), (2, 2), (2, 2), 12),
    "many channels, part of a block": (
        (1, 20, 6, 7, 8),
        (4, 20, 3, 3, 8, 8),
        (1, 1),
        (1, 1),
        (1, 1),
        155,
    ),
    "many channels, odd filters": ((1, 20, 5, 6, 8), (3, 20, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1)),
}


def check(case: tuple[Any, ...], dtype: DType, activation: str, with_all: bool) -> None:
    sizes: tuple[Any, ...] = (*case, 0)
    image, filter, strides, paddings, dilations, channels = sizes[:6]
    random = np.random.default_rng(0)
    attrs: dict[str, Any] = {"strides": strides, "paddings": paddings, "dilations": dilations}
    attrs["channels"] = channels
    rule = reference.of(lookup("pir.nchwc_conv2d"))

    def drawn(*shape: int) -> Array:
        return random.standard_normal(shape).astype(dtype.np)

    x, w = drawn(*image), drawn(*filter)
    if channels:  # what lies behind them is never multiplied
        x[:, -1, ..., channels % image[-1] :] = np.nan
        w[:, -1, :, :, channels % image[-1] :] = 0
    shape = rule(x, w, None, None, **attrs, activation="identity").shape
    bias, residual = (drawn(filter[0] * filter[-1]), drawn(*shape)) if with_all else (None, None)
    wanted = rule(x, w, bias, residual, **attrs, activation=activation)
    given = (x, w, bias, residual)
    metas = [None if a is None else TensorMeta(a.shape, dtype) for a in given]
    conv = nchwc_conv_of(metas, TensorMeta(shape, dtype), {**attrs, "activation": activation})
    out = np.full(shape, np.nan, dtype.np)
    native_nchwc(conv).bind([*(a for a in given if a is not None), out])()
    tolerance = 1e-5 if dtype is dt.float32 else 1e-12
    scale = float(np.abs(wanted).max())
    np.testing.assert_allclose(out, wanted, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("name", CASES)
def test_it_agrees_with_the_reference_rule(name: str) -> None:
    check(CASES[name], dt.float32, "relu", with_all=True)


@pytest.mark.parametrize("name", ["plain", "depthwise", "planar"])
def test_it_agrees_in_float64_without_bias_and_summand(name: str) -> None:
    check(CASES[name], dt.float64, "identity", with_all=False)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str) -> None:
    check(CASES["one by one"], dt.float32, activation, with_all=True)


def test_nan_stays() -> None:
    rule, nan = (
        reference.of(lookup("pir.nchwc_conv2d")),
        np.full((1, 1, 1, 1, 8), np.nan, np.float32),
    )
    w = np.eye(8, dtype=np.float32).reshape(1, 1, 1, 1, 8, 8)
    meta = TensorMeta(nan.shape, dt.float32)
    attrs: dict[str, Any] = dict(strides=(1, 1), paddings=(0, 0), dilations=(1, 1), channels=0)
    for activation in ACTIVATIONS:
        attrs["activation"] = activation
        metas = [meta, TensorMeta(w.shape, dt.float32), None, None]
        conv, out = nchwc_conv_of(metas, meta, attrs), np.zeros_like(nan)
        native_nchwc(conv).bind([nan, w, out])()
        np.testing.assert_array_equal(out, rule(nan, w, None, None, **attrs))


@pytest.mark.parametrize("rows", [1, 2])
def test_bands_of_rows_and_ranges_of_channels(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of other sizes give the same: a task has some rows, sums are kept in between."""

    def smaller(*arguments: Any) -> NchwcBlocking:
        found = nchwc_blocking(*arguments)
        return replace(found, rows=rows, channels=min(found.channels, 2))

    monkeypatch.setattr(compile_conv, "nchwc_blocking", smaller)
    check(CASES["plain"], dt.float32, "relu6", with_all=True)


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64])
@pytest.mark.parametrize(
    ("image", "size", "strides", "paddings"),
    [
        ((2, 3, 11, 13, 8), (3, 3), (2, 2), (1, 1)),
        ((1, 2, 20, 9, 16), (3, 2), (1, 1), (2, 0, 0, 1)),
        ((1, 1, 4, 4, 8), (2, 2), (2, 2), (0, 0)),
    ],
)
def test_maxima_of_windows(
    image: Any, size: Any, strides: Any, paddings: Any, dtype: DType
) -> None:  # fmt: skip
    """Elements that are all negative, infinities and NaN: the padding is no element."""
    x = -np.abs(np.random.default_rng(0).standard_normal(image)).astype(dtype.np) - 1
    x[0, 0, 1, 1, :2] = np.nan, -np.inf
    x[0, 0, 0, 0] = -np.inf
    attrs: dict[str, Any] = dict(kernel_size=size, strides=strides, paddings=paddings)
    wanted = reference.of(lookup("pir.nchwc_max_pool2d"))(x, **attrs)
    metas = [TensorMeta(a.shape, dtype) for a in (x, wanted)]
    out = np.zeros_like(wanted)
    native_nchwc(nchwc_conv_of(metas[:1], metas[1], attrs)).bind([x, out])()
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("filters", [64, 80, 160, 192, 320, 448])
def test_threads_have_as_many_tasks(filters: int) -> None:
    block = 16
    ends = ((14, 14), (3, 3), (14, 14), (1, 1), (1, 1), (1, 1))
    conv = NchwcConv(1, block, 8, block, filters // block, *ends, dt.float32)
    for threads in (2, 4):
        tasks = nchwc_blocking(conv, host(), threads).tasks(conv)
        assert tasks >= 4 * threads or tasks % threads == 0


@pytest.mark.parametrize("tail", [0, 3])
@pytest.mark.parametrize("blocks", [33, 48, 49])
def test_many_channels_are_summed_in_ranges(blocks: int, tail: int) -> None:
    """A stack of all filters would be read from the L3 cache for each tile; odd counts on one
    thread, whose stacks overlap, and channels that fill no block take ranges too.
    """
    ends = ((14, 14), (3, 3), (7, 7), (2, 2), (1, 1), (1, 1))
    conv = NchwcConv(1, 16, blocks, 16, 25, *ends, dt.float32, tail=tail)
    found = nchwc_blocking(conv, host(), 1)
    assert found.channels < blocks
    assert not tail or blocks % found.channels != 1


@pytest.mark.parametrize("channels", [155, 147, 137])
def test_the_last_range_of_channels_has_the_tail(
    channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def smaller(*arguments: Any) -> NchwcBlocking:
        return replace(nchwc_blocking(*arguments), channels=3)

    monkeypatch.setattr(compile_conv, "nchwc_blocking", smaller)
    blocks = -(-channels // 8)
    case = (1, blocks, 6, 7, 8), (4, blocks, 3, 3, 8, 8), (1, 1), (1, 1), (1, 1), channels
    check(case, dt.float32, "relu", with_all=True)
