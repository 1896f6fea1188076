"""What kernels read stays in the program: tensors of places, and those that only tell a size."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.passes.manager import run_pipeline
from tests.execution import parsed
from tests.fusion.test_random import run

PLACES = """
pir.program @p(%x "x" : tensor<4x3xf32>, %y "y" : tensor<3x3xf32>) {{
  %i = {made} : () -> tensor<3xi64>
  %g = pd_op.gather(%x, %i) {{axis = 0 : i32}} : (tensor<4x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  %z = pd_op.add(%g, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  pir.shadow_output(%z) {{output_name = "z"}} : (tensor<3x3xf32>) -> ()
}}
"""
FULL = "pd_op.full() {shape = array<i64: 3>, value = 1.0 : f64, dtype = #pir.dtype<int64>}"
ARANGE = """pd_op.arange()
  {start = 1.0 : f64, end = 4.0 : f64, step = 1.0 : f64, dtype = #pir.dtype<int64>}"""

SIZED = """
pir.program @p(
    %c "c" : tensor<?x4xi1>, %x "x" : tensor<?x4xf32>, %y "y" : tensor<f32>,
    %i "i" : tensor<?x2xi64>, %u "u" : tensor<?xf32>) {
  %w = pd_op.where(%c, %x, %y)
    : (tensor<?x4xi1>, tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
  %z = pd_op.full_like(%w) {value = 0.0 : f64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %e = pd_op.exp(%u) : (tensor<?xf32>) -> tensor<?xf32>
  %s = pd_op.scatter_nd_add(%z, %i, %e)
    : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?xf32>) -> tensor<?x4xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<?x4xf32>) -> ()
}
"""

SPREAD = """
pir.program @p(
    %x "x" : tensor<?x4xf32>, %i "i" : tensor<?x2xi64>, %u "u" : tensor<?xf32>,
    %v "v" : tensor<1xf32>) {
  %h = pd_op.shape64(%u) : (tensor<?xf32>) -> tensor<1xi64>
  %e = pd_op.expand(%v, %h) : (tensor<1xf32>, tensor<1xi64>) -> tensor<?xf32>
  %s = pd_op.scatter_nd_add(%x, %i, %e)
    : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?xf32>) -> tensor<?x4xf32>
  %a = pd_op.exp(%u) : (tensor<?xf32>) -> tensor<?xf32>
  %b = pd_op.sin(%a) : (tensor<?xf32>) -> tensor<?xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<?x4xf32>) -> ()
  pir.shadow_output(%b) {output_name = "b"} : (tensor<?xf32>) -> ()
}
"""


def made(text: str, pipeline: str) -> tuple[ProgramOp, Counter[str]]:
    module = parsed(text)
    run_pipeline(module, pipeline)
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    return program, Counter(o.name for o in program.operations if isinstance(o, PirOp))


def values(*names: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    held = {
        "c": rng.integers(0, 2, (5, 4)).astype(bool),
        "x": rng.standard_normal((5, 4), np.float32),
        "y": np.float32(rng.standard_normal()).reshape(()),
        "i": np.array([[0, 1], [4, 3], [0, 1]]),
        "u": rng.standard_normal(3, np.float32),
        "v": rng.standard_normal(1, np.float32),
    }
    return {name: held[name] for name in names}


@pytest.mark.parametrize("policy", ["fuse", "fuse{profitable-only=true}"])
@pytest.mark.parametrize("source", [FULL, ARANGE], ids=["full", "arange"])
def test_places_that_are_constant_are_in_memory(source: str, policy: str) -> None:
    text = PLACES.format(made=source)
    program, ops = made(text, policy)
    assert ops["pir.map_expr"] == 1
    rng = np.random.default_rng(0)
    given = {k: rng.standard_normal((n, 3), np.float32) for k, n in (("x", 4), ("y", 3))}
    places = [1, 1, 1] if source is FULL else [1, 2, 3]
    np.testing.assert_array_equal(run(program, given)["z"], given["x"][places] + given["y"])


@pytest.mark.parametrize("policy", ["fuse", "fuse{profitable-only=true}"])
def test_a_tensor_that_only_tells_a_size_is_made(policy: str) -> None:
    """Nobody reads `where` but a constant like it, which the kernel makes itself."""
    program, ops = made(SIZED, policy)
    assert ops["pir.map_expr"] >= 1
    given = values("c", "x", "y", "i", "u")
    expected = np.zeros((5, 4), np.float32)
    np.add.at(expected, tuple(given["i"].T), np.exp(given["u"]))
    np.testing.assert_allclose(run(program, given)["s"], expected, rtol=1e-6)


@pytest.mark.parametrize("policy", ["fuse", "fuse{profitable-only=true}"])
def test_what_a_kernel_that_is_not_made_would_have_made_anew_stays(policy: str) -> None:
    """The shape is an attribute of `expand`, no tensor that the kernel reads."""
    program, _ = made(SPREAD, policy)
    given = values("x", "i", "u", "v")
    expected = given["x"].copy()
    np.add.at(expected, tuple(given["i"].T), given["v"][0])
    np.testing.assert_allclose(run(program, given)["s"], expected, rtol=1e-6)
