"""Programs of unknown sizes for which `fuse` made no valid kernels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.passes import run_pipeline
from tests.tolerance import difference

_SHAPED_BY_A_KERNEL: Final = """builtin.module { pir.program @main(
  %x "x" : tensor<3x4xf32>, %v "v" : tensor<?x?xf32>, %at "at" : tensor<?xi64>) {
    %0 = pd_op.reshape(%at) {shape = array<i64: -1, 1>} : (tensor<?xi64>) -> tensor<?x1xi64>
    %1 = pd_op.gather_nd(%x, %0) : (tensor<3x4xf32>, tensor<?x1xi64>) -> tensor<?x4xf32>
    %2 = pd_op.shape64(%1) : (tensor<?x4xf32>) -> tensor<2xi64>
    %3 = pd_op.expand(%v, %2) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %4 = pd_op.reshape(%3, %2) : (tensor<?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %5 = pd_op.shape64(%4) : (tensor<?x?xf32>) -> tensor<2xi64>
    %6 = pd_op.expand(%0, %5) : (tensor<?x1xi64>, tensor<2xi64>) -> tensor<?x?xi64>
    %7 = pd_op.put_along_axis(%x, %6, %4) {axis = 0 : i32, reduce = "assign"}
      : (tensor<3x4xf32>, tensor<?x?xi64>, tensor<?x?xf32>) -> tensor<3x4xf32>
    pir.shadow_output(%7) {output_name = "y"} : (tensor<3x4xf32>) -> () } }"""

_CONSTANT_COPIED: Final = """builtin.module { pir.program @main(
  %v "v" : tensor<?x?x?xf32>, %like "like" : tensor<?x5x?x?xf32>,
  %m "m" : tensor<?x5x?x?xi1>, %z "z" : tensor<f32>, %a "a" : tensor<?x5x?x?xf32>) {
    %0 = pd_op.pow(%v) {y = -5.0e-01 : f32} : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %1 = pd_op.shape64(%like) : (tensor<?x5x?x?xf32>) -> tensor<4xi64>
    %2 = pd_op.reshape(%0, %1) : (tensor<?x?x?xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
    %3 = pd_op.full_like(%2) {value = 0.0 : f64} : (tensor<?x?x?x?xf32>) -> tensor<?x?x?x?xf32>
    %4 = pd_op.where(%m, %3, %2)
      : (tensor<?x5x?x?xi1>, tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) -> tensor<?x5x?x?xf32>
    %5 = pd_op.less_equal(%like, %z) : (tensor<?x5x?x?xf32>, tensor<f32>) -> tensor<?x5x?x?xi1>
    %6 = pd_op.where(%5, %a, %4)
      : (tensor<?x5x?x?xi1>, tensor<?x5x?x?xf32>, tensor<?x5x?x?xf32>) -> tensor<?x5x?x?xf32>
    pir.shadow_output(%6) {output_name = "y"} : (tensor<?x5x?x?xf32>) -> () } }"""

_MAXIMUM_OF_SUMS: Final = """builtin.module { pir.program @main(%x "x" : tensor<2x?x18x?xf32>) {
    %0 = pd_op.max(%x) {axis = array<i64: 1, 2>, keepdim = true}
      : (tensor<2x?x18x?xf32>) -> tensor<2x1x1x?xf32>
    %1 = pd_op.reshape(%0) {shape = array<i64: 2, -1>} : (tensor<2x1x1x?xf32>) -> tensor<2x?xf32>
    %2 = pd_op.sum(%1) {axis = array<i64: 1>, keepdim = true} : (tensor<2x?xf32>) -> tensor<2x1xf32>
    %3 = pd_op.max(%2) {axis = array<i64: 0, 1>, keepdim = true}
      : (tensor<2x1xf32>) -> tensor<1x1xf32>
    pir.shadow_output(%2) {output_name = "sums"} : (tensor<2x1xf32>) -> ()
    pir.shadow_output(%3) {output_name = "y"} : (tensor<1x1xf32>) -> () } }"""


_NOTHING: Final = """builtin.module { pir.program @main(
  %x "x" : tensor<?x?xf32>, %e "e" : tensor<1x0x16xf32>) {
    %0 = pd_op.shape64(%x) : (tensor<?x?xf32>) -> tensor<2xi64>
    %1 = pd_op.reshape(%e, %0) : (tensor<1x0x16xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %2 = pd_op.add(%x, %1) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %3 = pd_op.multiply(%2, %x) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    pir.shadow_output(%3) {output_name = "y"} : (tensor<?x?xf32>) -> () } }"""

_BROADCAST_THEN_RESHAPED: Final = """builtin.module { pir.program @main(
  %x "x" : tensor<2x?x?xf32>, %a "a" : tensor<2x1x?x?xf32>, %b "b" : tensor<2x1x?x?xf32>,
  %c "c" : tensor<2x?x?xf32>) {
    %0 = pd_op.tanh(%x) : (tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %1 = pd_op.shape64(%0) : (tensor<2x?x?xf32>) -> tensor<3xi64>
    %2 = pd_op.add(%a, %b)
      : (tensor<2x1x?x?xf32>, tensor<2x1x?x?xf32>) -> tensor<2x1x?x?xf32>
    %3 = pd_op.reshape(%2, %1) : (tensor<2x1x?x?xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
    %4 = pd_op.multiply(%0, %0) : (tensor<2x?x?xf32>, tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %5 = pd_op.multiply(%3, %4) : (tensor<?x?x?xf32>, tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %6 = pd_op.max(%x) {axis = array<i64: 2, 1>, keepdim = true}
      : (tensor<2x?x?xf32>) -> tensor<2x1x1xf32>
    %7 = pd_op.add(%5, %c) : (tensor<2x?x?xf32>, tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    pir.shadow_output(%7) {output_name = "y"} : (tensor<2x?x?xf32>) -> () } }"""

_SIZES_OF_NOTHING: Final = """builtin.module { pir.program @main(%x "x" : tensor<?x9x9xf32>) {
    %0 = pd_op.reshape(%x) {shape = array<i64: -1>} : (tensor<?x9x9xf32>) -> tensor<?xf32>
    %1 = pd_op.slice(%0) {starts = array<i64: 0>, ends = array<i64: 0>, axes = array<i64: 0>}
      : (tensor<?xf32>) -> tensor<?xf32>
    %2 = pd_op.reshape(%1) {shape = array<i64: 0, 2>} : (tensor<?xf32>) -> tensor<?x2xf32>
    %3 = pd_op.shape64(%2) : (tensor<?x2xf32>) -> tensor<2xi64>
    pir.shadow_output(%3) {output_name = "y"} : (tensor<2xi64>) -> () } }"""

_FLOATS: Final = np.random.default_rng(0).random((2, 3, 18, 20), np.float32)
_PROGRAMS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "an op that a kernel shapes, and whose result it reads": (
        _SHAPED_BY_A_KERNEL,
        {"x": _FLOATS[0, 0, :3, :4], "v": _FLOATS[1, 0, :2, :4], "at": np.array([2, 0])},
    ),
    "a constant among the values that another kernel copies": (
        _CONSTANT_COPIED,
        {
            "v": _FLOATS[:, 0, :5, :6],
            "like": _FLOATS[:, :1, :5, :6].reshape(2, 5, 2, 3) - 0.5,
            "m": _FLOATS[:, :1, :5, 6:12].reshape(2, 5, 2, 3) > 0.5,
            "z": np.float32(0),
            "a": _FLOATS[:, :1, :5, 12:18].reshape(2, 5, 2, 3),
        },
    ),
    "a reduction of what is accumulated in the common loops": (_MAXIMUM_OF_SUMS, {"x": _FLOATS}),
    "a reshape of what operands of unknown sizes are broadcast to": (
        _BROADCAST_THEN_RESHAPED,
        {
            "x": _FLOATS[:, 0, :3, :4], "a": _FLOATS[:, :1, :4, :3], "b": _FLOATS[:, :1, 5:6, :3],
            "c": _FLOATS[:, 1, :3, :4],
        },
    ),
    "sizes that the kernel which holds them does not read": (
        _SIZES_OF_NOTHING, {"x": _FLOATS.reshape(-1)[:810].reshape(10, 9, 9)},
    ),
    "a tensor without elements in a shape that the run knows": (
        _NOTHING, {"x": np.ones((0, 3), "f4"), "e": np.ones((1, 0, 16), "f4")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _PROGRAMS)
@pytest.mark.parametrize("pipeline", ["@default", "@fused", "fuse{single=true}"])
def test_fused(name: str, pipeline: str) -> None:
    text, given = _PROGRAMS[name]
    want = pirkit.compile(pirkit.loads(text), backend="reference", pipeline="")(**given)
    found = pirkit.compile(pirkit.loads(text), pipeline=pipeline)(**given)
    assert [difference(found[k], want[k]) for k in want] == [None] * len(want)


@pytest.mark.parametrize("kernels", range(4))
def test_the_first_kernels_alone(kernels: int) -> None:
    """As bisection asks; kernels that would wait for an op outside are then left out, too."""
    text, given = _PROGRAMS["an op that a kernel shapes, and whose result it reads"]
    program = pirkit.loads(text)
    want = pirkit.compile(program, backend="reference", pipeline="")(**given)["y"]
    run_pipeline(program.module, "fuse{profitable-only=true}", stop_after=kernels)
    assert pirkit.compile(program, pipeline="")(**given)["y"].tolist() == want.tolist()


def test_a_tensor_without_elements_has_no_other_shape() -> None:
    run = pirkit.compile(pirkit.loads(_NOTHING), pipeline="@default")
    with pytest.raises(PirkitError):
        run(x=np.ones((2, 3), "f4"), e=np.ones((1, 0, 16), "f4"))
