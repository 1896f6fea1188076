"""Native steps of a plan that stand together run as one call, and mean what they meant alone."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native import segment
from pirkit.runtime.plan import Call, Output
from pirkit.runtime.session import Session
from tests.execution import parsed

Array = np.ndarray[Any, Any]

APART = "decompose,constant-fold,canonicalize,cse,dce,fuse{horizontal=false}"
"""Kernels that have nothing in common but what they read stay apart."""

VIEWS = "@simplify,fuse{profitable-only=true,horizontal=false}"
"""Views alone are in no kernel."""


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each segment has that is made."""
    found: list[int] = []
    made = segment.LaunchSegment.__init__

    def init(self: segment.LaunchSegment, values: Any, members: Any, moving: Any) -> None:
        found.append(len(members))
        made(self, values, members, moving)

    monkeypatch.setattr(segment.LaunchSegment, "__init__", init)
    return found


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def built(function: Any, given: tuple[Array, ...], pipeline: str = APART) -> tuple[Any, Executable]:
    exe = compile(trace(function, given).program, pipeline=pipeline)
    names = [port.name for port in exe.plan.inputs]
    return lambda *arrays: list(exe.run(dict(zip(names, arrays, strict=True))).values()), exe


def separate(exe: Executable, given: tuple[Array, ...]) -> list[Array]:
    """The results of the instructions one by one."""
    values, key = exe._feed({p.name: a for p, a in zip(exe.plan.inputs, given, strict=True)})
    found: list[Array] = []
    session: Session = exe._sessions.made(key, exe._mode.__class__(run=_one_by_one), exe.counters)
    session.feed(exe._slots, values)
    session.run()
    found = [np.array(session.value(o.source)) for o in exe.plan.outputs]
    return found


def _one_by_one(frame: Any, steps: Any) -> None:
    for call in steps.calls:
        call[0](*call[1:])


def three(x: Any, y: Any) -> Any:
    """Two kernels and a product that is small with vectors of any width."""
    a = ops.tanh(x) + 1.0
    b = ops.exp(y) * 2.0
    return a, b, ops.transpose(a, [1, 0]) @ ops.sigmoid(b * y)


def test_kernels_that_stand_together_are_one_call(counted: list[int]) -> None:
    given = normal(12, 20), normal(12, 8, seed=1)
    call, exe = built(three, given)
    first = call(*given)
    assert counted == [3]
    *kernels, product = zip(first, separate(exe, given), strict=True)
    for ours, theirs in kernels:
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(*product, rtol=1e-6)  # alone it is numpy's, with its order of sums
    again = call(*(a * 2 for a in given))
    assert not any(np.shares_memory(a, b) for a in first for b in again)


def test_arrays_in_memory_of_any_kind(counted: list[int]) -> None:
    given = normal(12, 20), normal(12, 8, seed=1)
    call, _ = built(three, given)
    wanted = call(*given)
    transposed = tuple(np.asfortranarray(a) for a in given)
    for ours, theirs in zip(call(*transposed), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert counted[0] == 3


def lookup_result(x: Any, i: Any, j: Any) -> Any:
    a = ops.tanh(x) * 0.5
    b = ops.gather(ops.exp(x), i, 0) + 1.0
    c = ops.gather(ops.sin(x), j, 0) + 2.0
    return a, b, c


def test_the_first_of_the_demands_that_are_broken_is_told(counted: list[int]) -> None:
    x, right, wrong = normal(40, 60), np.arange(40), np.full(40, 40)
    call, exe = built(lookup_result, (x, right, right))
    call(x, right, right)
    assert counted[0] == 3
    gathers = [c for c in exe.plan.body if "gather" in str(c) or len(getattr(c, "inputs", ())) == 2]
    assert len(gathers) == 2
    spans = [str(c.span) for c in gathers]
    for i, j, span in ((wrong, right, 0), (right, wrong, 1), (wrong, wrong, 0)):
        for array in (x, np.asfortranarray(x)):
            with pytest.raises(RuntimeFault, match="an index does not lie") as known:
                call(array, i, j)
            assert str(known.value.span) == spans[span]
    for ours, theirs in zip(call(x, right, right), separate(exe, (x, right, right)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_views_of_what_moves_go_before_the_kernels(counted: list[int]) -> None:
    def function(x: Any, y: Any) -> Any:
        a = ops.tanh(x) + 1.0
        b = ops.exp(ops.reshape(y, [60, 20])) * 2.0
        return a, b, ops.reshape(a, [60, 40]), ops.transpose(ops.reshape(b, [40, 30]), [1, 0])

    given = normal(40, 60), normal(40, 30, seed=1)
    call, exe = built(function, given, VIEWS)
    found = call(*given)
    assert max(counted) == 2
    for ours, theirs in zip(found, separate(exe, given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_copy_of_what_a_kernel_writes_is_made_behind_it(counted: list[int]) -> None:
    given = normal(40, 60), normal(40, 30, seed=1)
    _, exe = built(lambda x, y: (ops.tanh(x) + 1.0, ops.exp(y) * 2.0), given)
    first, second = cast("tuple[Call, Call]", exe.plan.body)
    result, transposed, copy = first.outputs[0], len(exe.plan.slots), len(exe.plan.slots) + 1
    metas = [TensorMeta((60, 40), dt.float32), TensorMeta((40, 60), dt.float32)]
    views = (
        Call("pd_op.transpose", (result,), (transposed,), {"perm": (1, 0)}),
        Call("pd_op.reshape", (transposed,), (copy,), {"shape": (40, 60)}),
    )
    plan = replace(
        exe.plan,
        slots=(*exe.plan.slots, *metas),
        body=(first, *views, second),
        outputs=(*exe.plan.outputs, Output("copy", copy, metas[1])),
    )
    behind = Executable(plan, exe.library)
    for scale in (1.0, 2.0):
        x, y = (g * np.float32(scale) for g in given)
        a, _, b = behind.run({"x0": x, "x1": y}).values()
        np.testing.assert_array_equal(b, a.T.reshape(40, 60))
    assert counted == [1, 1]


def test_a_turned_view_of_what_a_kernel_writes_is_read_behind_it(counted: list[int]) -> None:
    given = normal(40, 60), normal(60, 40, seed=1)
    _, exe = built(lambda x, y: (ops.tanh(x) + 1.0, ops.exp(y) * 2.0), given)
    first, second = cast("tuple[Call, Call]", exe.plan.body)
    transposed = len(exe.plan.slots)
    view = Call("pd_op.transpose", (first.outputs[0],), (transposed,), {"perm": (1, 0)})
    plan = replace(
        exe.plan,
        slots=(*exe.plan.slots, TensorMeta((60, 40), dt.float32)),
        body=(first, view, replace(second, inputs=(transposed,))),
    )
    behind = Executable(plan, exe.library)
    for scale in (1.0, 2.0):
        x, y = (g * np.float32(scale) for g in given)
        a, b = behind.run({"x0": x, "x1": y}).values()
        np.testing.assert_allclose(b, np.exp(a.T) * 2, rtol=1e-6)
    assert counted[:2] == [1, 1]


WRITES = """
pir.program @main(%x "x" : tensor<40x60xf32>, %i "i" : tensor<40xi64>) {
  %w = pir.parameter() {parameter_name = "w"} : () -> tensor<40x60xf32>
  %e = pd_op.exp(%x) : (tensor<40x60xf32>) -> tensor<40x60xf32>
  %g = pd_op.gather(%e, %i) {axis = 0 : i32}
    : (tensor<40x60xf32>, tensor<40xi64>) -> tensor<40x60xf32>
  %t = pd_op.tanh(%w) : (tensor<40x60xf32>) -> tensor<40x60xf32>
  %u = pd_op.add(%t, %w) : (tensor<40x60xf32>, tensor<40x60xf32>) -> tensor<40x60xf32>
  %o = pd_op.assign_out_(%u, %w) : (tensor<40x60xf32>, tensor<40x60xf32>) -> tensor<40x60xf32>
  pir.shadow_output(%g) {output_name = "g"} : (tensor<40x60xf32>) -> ()
}"""


def test_nothing_runs_behind_a_broken_demand() -> None:
    held = {"w": np.ones((40, 60), np.float32)}
    program = Program(parsed(WRITES), held, "test")
    exe = compile(program, pipeline=f"@simplify,functionalize,{APART}")
    x = normal(40, 60)
    with pytest.raises(RuntimeFault, match="an index does not lie"):
        exe(x=x, i=np.full(40, 40))
    np.testing.assert_array_equal(exe.params["w"], held["w"])
    exe(x=x, i=np.arange(40))
    np.testing.assert_allclose(exe.params["w"], np.tanh(1) + 1, rtol=1e-6)
