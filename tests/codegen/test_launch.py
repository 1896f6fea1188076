"""Kernels in plans: where their operands are, and what happens to those that lie elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime.executor import Executable
from pirkit.runtime.native import launch
from tests.execution import parsed

Array = np.ndarray[Any, Any]

PARTS = """
pir.program @main(%x "x" : tensor<40x60xf32>, %at "at" : tensor<40xi64>) {
  %t = pd_op.tanh(%x) : (tensor<40x60xf32>) -> tensor<40x60xf32>
  %s = pd_op.add(%t, %x) : (tensor<40x60xf32>, tensor<40x60xf32>) -> tensor<40x60xf32>
  %g = pd_op.gather(%x, %at) {axis = 0 : i32}
    : (tensor<40x60xf32>, tensor<40xi64>) -> tensor<40x60xf32>
  %y = pd_op.add(%g, %s) : (tensor<40x60xf32>, tensor<40x60xf32>) -> tensor<40x60xf32>
  pir.shadow_output(%s) {output_name = "s"} : (tensor<40x60xf32>) -> ()
  pir.shadow_output(%y) {output_name = "y"} : (tensor<40x60xf32>) -> ()
}"""
AT = np.arange(40)[::-1].copy()


@pytest.fixture(params=["seen by native code", "told by Python"])
def _lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "told by Python":
        monkeypatch.setattr(launch, "_list_layout_is_known", lambda: False)


def executable() -> Executable:
    return compile(Program(parsed(PARTS), {}, "test"), pipeline="@fused")


def memories(x: Array) -> Iterator[Array]:
    """The same elements in memory of all kinds."""
    yield x
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, axis=1)[:, ::2]
    yield x[::-1].copy()[::-1]
    raw = np.zeros(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    yield odd
    yield x.view(np.memmap)
    frozen = x.copy()
    frozen.flags.writeable = False
    yield frozen


@pytest.mark.usefixtures("_lists")
def test_operands_in_memory_of_all_kinds() -> None:
    x = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)
    exe = executable()
    s = np.tanh(x) + x
    kept: list[Array] = []
    for array in memories(x):
        found = exe(x=array, at=AT)
        np.testing.assert_allclose(found["s"], s, rtol=1e-5)
        # `y` is a sum of numbers near 1, which may cancel
        np.testing.assert_allclose(found["y"], x[AT] + s, rtol=1e-5, atol=1e-6)
        kept.append(found["y"])
    assert all(np.array_equal(kept[0], each) for each in kept)


@pytest.mark.usefixtures("_lists")
def test_broken_demands_are_told_and_forgotten() -> None:
    x, wrong = np.ones((40, 60), np.float32), np.full(40, 40)
    exe = executable()
    for array in memories(x):
        with pytest.raises(PirkitError, match="an index does not lie"):
            exe(x=array, at=wrong)
        np.testing.assert_allclose(exe(x=array, at=AT)["y"][0, 0], 2 + np.tanh(1), rtol=1e-5)


def test_a_launch_asks_python_for_no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    exe = executable()
    x = np.ones((40, 60), np.float32)
    exe(x=x, at=AT)

    def refuse(array: Any) -> int:
        raise AssertionError("asked for an address")

    monkeypatch.setattr(launch, "address_of", refuse)
    assert launch._list_layout_is_known()
    for _ in range(3):
        np.testing.assert_allclose(exe(x=x.copy(), at=AT)["y"], 2 + np.tanh(1), rtol=1e-5)


def test_results_that_nobody_wants_and_arrays_that_stay() -> None:
    text = """
pir.program @main(%x "x" : tensor<4x3xf32>) {
  %p = pd_op.transpose(%x) {perm = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %r = pd_op.matmul(%p, %x) {transpose_x = false, transpose_y = false}
    : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %t = pd_op.tanh(%r) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = pd_op.add(%t, %r) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<3x3xf32>) -> ()
}"""
    exe = compile(Program(parsed(text), {}, "test"), pipeline="@fused")
    for k in range(3):
        x = np.arange(12, dtype=np.float32).reshape(4, 3) / (10 + k)
        product = x.T @ x
        np.testing.assert_allclose(exe(x=x)["y"], np.tanh(product) + product, rtol=1e-5)
