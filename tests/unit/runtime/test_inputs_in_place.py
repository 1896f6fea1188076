"""Ops that give an input another shape or dtype; mixed 16-bit floats; complex values handed on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.frontend.files import Program, parse
from pirkit.runtime import dtype as dt

X: Final = np.array([-1.0, 0.0, 2.0, 3.0], np.float32)

WRITES: Final = {
    "reshape": ("pd_op.reshape_(%x) {shape = array<i64: 2, 2>}", "2x2xf32"),
    "unsqueeze": ("pd_op.unsqueeze_(%x) {axis = array<i64: 0>}", "1x4xf32"),
    "cast up": ("pd_op.cast_(%x) {dtype = #pir.dtype<float64>}", "4xf64"),
    "cast down": ("pd_op.cast_(%x) {dtype = #pir.dtype<float16>}", "4xf16"),
    "logical_not": ("pd_op.logical_not_(%x)", "4xi1"),
    "compare": ("pd_op.equal_(%x, %x)", "4xi1"),
}

WAYS: Final[dict[str, Callable[[Program], Any]]] = {
    "reference": lambda p: pirkit.compile(p, backend="reference", pipeline=""),
    "kernels": lambda p: pirkit.compile(p, pipeline="@simplify"),
    "default": lambda p: pirkit.compile(p, pipeline="@default"),
    "fused": pirkit.compile,
}


def written(name: str) -> Program:
    call, shape = WRITES[name]
    operands = ", ".join(["tensor<4xf32>"] * call.count("%x"))
    return Program(
        parse(f"""pir.program @main(%x "x" : tensor<4xf32>) {{
  %y = {call} : ({operands}) -> tensor<{shape}>
  pir.shadow_output(%y) {{output_name = "y"}} : (tensor<{shape}>) -> ()
}}""")
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WRITES)
def test_an_input_takes_another_type(name: str, way: str) -> None:
    plain = WAYS["reference"](written(name))
    want = plain(x=X.copy())["y"]
    made = WAYS[way](written(name))
    found = made(x=X.copy())["y"]
    for each in (found, made.updates["x"]):
        assert (each.dtype, each.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(each, want)


@pytest.mark.parametrize("name", WRITES)
def test_an_input_takes_another_type_in_a_native_call(name: str) -> None:
    want = WAYS["reference"](written(name))(x=X.copy())["y"]
    whole = pirkit.compile(written(name), fast_math=True)
    np.testing.assert_array_equal(whole(x=X.copy())["y"], want)


@pytest.mark.parametrize("name", ["add", "maximum", "less_than", "divide"])
@pytest.mark.parametrize("kinds", [("f16", "bf16"), ("bf16", "f16")])
def test_16_bit_floats_of_both_kinds(name: str, kinds: tuple[str, str]) -> None:
    a, b = kinds
    out = "i1" if name == "less_than" else "f32"
    program = Program(
        parse(f"""pir.program @main(%x "x" : tensor<4x{a}>, %y "y" : tensor<4x{b}>) {{
  %z = pd_op.{name}(%x, %y) : (tensor<4x{a}>, tensor<4x{b}>) -> tensor<4x{out}>
  pir.shadow_output(%z) {{output_name = "z"}} : (tensor<4x{out}>) -> ()
}}""")
    )
    given = {
        "x": X.astype(dt.BY_SHORT[a].np),
        "y": np.array([1.0, 2.0, 3.0, 1.0]).astype(dt.BY_SHORT[b].np),
    }
    want = WAYS["reference"](program)(**given)["z"]
    for way in (WAYS["fused"], partial(pirkit.compile, fast_math=True)):
        found = way(program)(**given)["z"]
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("parts", ["f32", "f64"])
def test_a_complex_input_that_is_an_output(parts: str) -> None:
    kind = f"tensor<4xcomplex<{parts}>>"
    program = Program(
        parse(f"""pir.program @main(%x "x" : {kind}) {{
  pir.shadow_output(%x) {{output_name = "y"}} : ({kind}) -> ()
}}""")
    )
    x = (X + 2j * X[::-1]).astype(np.complex64 if parts == "f32" else np.complex128)
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None
    found = whole(x=x)["y"]
    assert not np.may_share_memory(found, x)
    np.testing.assert_array_equal(found, x)
