"""Convolutions of 8-bit integers over blocked channels, bit for bit as the reference rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.dialect.opdef import lookup, reference
from pirkit.lowering.codegen.conv import compile_conv
from pirkit.lowering.codegen.conv.compile_conv import native_nchwc
from pirkit.lowering.codegen.conv.nchwc_tile import ACTIVATIONS
from pirkit.lowering.whole_program.nchwc import nchwc_conv_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import Target, host

OP = "pir.nchwc_quantized_conv2d"
# blocks of channels, channels of one, image, filters in blocks, filters of one, sizes, strides,
# paddings, dilations
CASES: dict[str, tuple[Any, ...]] = {
    "plain": (2, 16, (9, 13), 3, 16, (3, 3), (1, 1), (1, 1), (1, 1)),
    "one by one": (5, 8, (7, 9), 5, 8, (1, 1), (1, 1), (0, 0), (1, 1)),
    "four filters": (4, 16, (6, 6), 8, 16, (1, 1), (1, 1), (0, 0), (1, 1)),
    "few channels": (1, 4, (19, 18), 3, 8, (7, 7), (2, 2), (3, 3), (1, 1)),
    "dilated": (2, 8, (12, 17), 2, 16, (3, 3), (1, 1), (2, 5), (2, 5)),
    "many channels": (40, 16, (3, 4), 4, 16, (3, 3), (1, 1), (1, 1), (1, 1)),
    "one position": (33, 8, (1, 1), 1, 8, (1, 1), (1, 1), (0, 0), (1, 1)),
}


def target_of(kind: str) -> Target:
    """AVX-512, AVX2 and SSE, with their instructions for four products or without them."""
    bits, vnni = kind.split()
    if int(bits) > host().vector_bits or (vnni == "vnni" and not host().has("avx512vnni")):
        pytest.skip("the CPU has no such vectors")
    features = (
        host().features
        if vnni == "vnni"
        else host().features.replace("+avx512vnni", "-avx512vnni").replace("+avxvnni", "-avxvnni")
    )
    return replace(host(), vector_bits=int(bits), features=features)


def check(
    case: tuple[Any, ...], activation: str, residual: str, narrow: bool, extreme: bool,
    offset: bool = False,
) -> None:  # fmt: skip
    blocks, depth, image, filters, block, sizes, strides, paddings, dilations = case
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (2, blocks, *image, depth), np.uint8)
    w = random.integers(-128, 128, (filters, blocks, *sizes, depth // 4, block, 4), np.int8)
    if extreme:
        x[:], w[:] = 255, -128
    reach = blocks * depth * sizes[0] * sizes[1] * 5e3
    scales = (random.random(filters * block, np.float32) / reach).astype(np.float32)
    bias = random.standard_normal(filters * block).astype(np.float32)
    attrs: dict[str, Any] = dict(strides=strides, paddings=paddings, dilations=dilations)
    attrs |= {"activation": activation, "zeros": (3, 128)}
    rule = reference.of(lookup(OP))
    shape = rule(x, w, scales, None, None, None, None, **attrs).shape
    summand = scale = None
    if residual == "narrow":
        summand = random.integers(0, 256, shape, np.uint8)
        scale = np.array([0.013], np.float32)
    elif residual:
        summand = random.standard_normal(shape).astype(np.float32)
    rate = np.array([43.7], np.float32) if narrow else None
    added = random.integers(-(10**6), 10**6, filters * block, np.int32) if offset else None
    given = (x, w, scales, bias, summand, scale, rate, added)
    wanted = rule(*given, **attrs)
    assert narrow or np.isfinite(wanted).all()
    metas = [None if a is None else TensorMeta(a.shape, dt.of_array(a)) for a in given]
    conv = nchwc_conv_of(metas, TensorMeta(shape, dt.of_array(wanted)), attrs)
    out = np.zeros(wanted.shape, wanted.dtype)
    native_nchwc(conv).bind([*(a for a in given if a is not None), out])()
    np.testing.assert_array_equal(out, wanted)
    assert not offset or (rule(*given[:-1], None, **attrs) != wanted).any()


KINDS = ["512 vnni", "512 plain", "256 vnni", "256 plain", "128 plain"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_bits_of_the_reference(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(kind)
    monkeypatch.setattr(compile_conv, "host", lambda: target)
    check(CASES[name], "relu", "narrow", narrow=True, extreme=False)
    check(CASES[name], "identity", "", narrow=True, extreme=False, offset=True)


@pytest.mark.parametrize("kind", ["512 vnni", "256 plain"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("residual", ["", "wide"])
def test_ends(kind: str, activation: str, residual: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(kind)
    monkeypatch.setattr(compile_conv, "host", lambda: target)
    for extreme in (False, True):
        check(CASES["plain"], activation, residual, narrow=not residual, extreme=extreme)
