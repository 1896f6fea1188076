"""Convolutions in the loop IR: their loops print, are interpreted, and stay in their buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import WRITERS, Program
from pirkit.frontend.op_functions import op_function
from pirkit.frontend.proof_bounds import prove_bounds
from pirkit.frontend.tracing import trace
from pirkit.lowering import interpreted_step
from pirkit.lowering.codegen.conv import conv_blocking
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loop_ir import Invoke, Loop, Nest, Window
from pirkit.lowering.codegen.ir.loop_tree import changed, walk
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.function import NativeSequence
from tests.codegen import test_blocked_conv as blocked
from tests.codegen import test_conv_weight_grad as gradients
from tests.codegen import test_nchwc_conv as nchwc
from tests.codegen import test_quantized_conv as quantized
from tests.codegen import test_winograd_conv as winograd

Array = np.ndarray[Any, Any]


@pytest.fixture
def nests(monkeypatch: pytest.MonkeyPatch) -> list[Nest]:
    """Native code is not run, but its loops are interpreted; the nests that were met."""
    found: list[Nest] = []

    def bind(self: NativeSequence, arrays: Any) -> Any:
        buffers = [*arrays, *(np.full(size, 0xA5, np.uint8) for size in self.temporaries)]

        def run() -> None:
            for function, places in self.steps:
                assert isinstance(function, LazyFunction)
                nest = function.write().stages[-1].nest
                found.append(nest)
                run_loops(nest, [buffers[k] for k in places])

        return run

    monkeypatch.setattr(NativeSequence, "bind", bind)
    return found


@pytest.mark.parametrize("name", nchwc.CASES)
def test_loops_over_blocked_channels_are_interpreted(name: str, nests: list[Nest]) -> None:
    nchwc.check(nchwc.CASES[name], dt.float32, "hardswish", with_all=True)
    assert nests


@pytest.mark.parametrize(("name", "tile"), winograd.TILED)
def test_loops_in_winograds_domain_are_interpreted(
    name: str, tile: tuple[int, ...], nests: list[Nest]
) -> None:
    winograd.check(winograd.CASES[name], tile, dt.float32, "hardswish", with_all=True)
    assert nests


@pytest.mark.parametrize("name", ["part of a tile", "sides of their own", "several tasks"])
def test_bounds_in_winograds_domain_are_proved(name: str, nests: list[Nest]) -> None:
    z3 = pytest.importorskip("z3")
    winograd.check(winograd.CASES[name], (4, 4), dt.float32, "relu", with_all=True)
    found = prove_bounds(z3, nests[-1])
    assert found.proved > 4
    assert not found.open
    assert found.outside is None


def test_loops_of_pools_are_interpreted(nests: list[Nest]) -> None:
    nchwc.test_maxima_of_windows((2, 3, 11, 13, 8), (3, 3), (2, 2), (1, 1), dt.float32)
    assert nests


@pytest.mark.parametrize("residual", ["", "narrow"])
@pytest.mark.parametrize("name", quantized.CASES)
def test_loops_over_bytes_are_interpreted(name: str, residual: str, nests: list[Nest]) -> None:
    case = quantized.CASES[name]
    quantized.check(case, "relu6", residual, narrow=bool(residual), extreme=False)
    assert nests


@pytest.mark.parametrize("name", ["plain", "planar", "depthwise"])
def test_bounds_of_blocked_channels_are_proved(name: str, nests: list[Nest]) -> None:
    z3 = pytest.importorskip("z3")
    nchwc.check(nchwc.CASES[name], dt.float32, "relu", with_all=True)
    found = prove_bounds(z3, nests[-1])
    assert found.proved > 4
    assert not found.open
    assert found.outside is None


def test_a_row_of_taps_too_many_is_refuted(nests: list[Nest]) -> None:
    z3 = pytest.importorskip("z3")
    nchwc.check(nchwc.CASES["plain"], dt.float32, "relu", with_all=True)

    def later(node: Any) -> Any:
        if not isinstance(node, Invoke):
            return None
        numbers = [replace(x, length=x.length + 1) if isinstance(x, Window) and x.counts else x
                   for x in node.numbers]  # fmt: skip
        return [replace(node, numbers=tuple(numbers))]

    outside = prove_bounds(z3, replace(nests[-1], body=changed(nests[-1].body, later))).outside
    assert outside is not None
    assert outside.buffer == 0


def test_the_loops_print_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[Nest] = []

    def run(nest: Nest, buffers: Any) -> None:
        met.append(nest)
        run_loops(nest, buffers)

    monkeypatch.setattr(interpreted_step, "run_loops", run)
    random, conv = np.random.default_rng(0), op_function("pir.nchwc_conv2d")
    x, w = (
        random.standard_normal(s).astype(np.float32) for s in ((2, 3, 9, 8, 8), (2, 3, 3, 3, 8, 8))
    )
    traced = trace(lambda x, w: conv(x, w, None, None, paddings=[1, 1]), (x, w))
    program = Program(traced.program.module)
    text = WRITERS["nest"](run_passes(program, "@default").module)
    for words in ("parallel for h in 0 .. 9", "microkernel a2[", "3 taps on the image at i3"):
        assert words in text
    right = pirkit.compile(program, backend="reference")(x0=x, x1=w)["y0"]
    found = pirkit.compile(program, fused="nest")(x0=x, x1=w)["y0"]
    assert any(isinstance(node, Loop) and node.var == "y" for node in walk(met[0].body))
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", blocked.CASES)
def test_blocked_loops_are_interpreted(name: str, nests: list[Nest]) -> None:
    blocked.check_forward(name, dt.float32)
    assert nests


@pytest.mark.parametrize("name", ["plain", "stride 2", "dilated", "groups", "volumes"])
def test_transposed_loops_are_interpreted(name: str, nests: list[Nest]) -> None:
    blocked.test_transposed_convolutions(name)
    assert nests


@pytest.mark.parametrize("name", ["plain", "groups", "stride 2"])
def test_loops_with_packed_filters_are_interpreted(
    name: str, nests: list[Nest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv_blocking, "MAX_PLAIN_POSITIONS", 0)
    blocked.check_forward(name, dt.float32)
    assert len(nests) == 2


@pytest.mark.parametrize("name", ["plain", "stride 2", "long rows"])
def test_bounds_of_blocked_loops_are_proved(
    name: str, nests: list[Nest], monkeypatch: pytest.MonkeyPatch
) -> None:
    z3 = pytest.importorskip("z3")
    monkeypatch.setattr(conv_blocking, "MAX_PLAIN_POSITIONS", 0)
    blocked.check_forward(name, dt.float32)
    for nest in nests:
        found = prove_bounds(z3, nest)
        assert found.proved > 1
        assert not found.open
        assert found.outside is None


@pytest.mark.parametrize("name", gradients.CASES)
def test_loops_of_weight_gradients_are_interpreted(name: str, nests: list[Nest]) -> None:
    gradients.test_correlations(name, dt.float64)
    assert len(nests) == 2


@pytest.mark.parametrize("name", ["of stride 2", "groups"])
def test_bounds_of_weight_gradients_are_proved(name: str, nests: list[Nest]) -> None:
    z3 = pytest.importorskip("z3")
    gradients.test_correlations(name, dt.float32)
    for nest in nests:
        found = prove_bounds(z3, nest)
        assert found.proved > 1
        assert not found.open
        assert found.outside is None
