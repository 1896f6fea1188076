"""What does not depend on inputs is computed when a session is made, and nobody writes over it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime.executor import Executable
from tests.execution import parsed

Array = np.ndarray[Any, Any]
F = "tensor<3xf32>"


def executable(body: str, **options: Any) -> Executable:
    text = f'pir.program @main(%x "x" : {F}) {{\n{body}\n}}'
    return compile(Program(parsed(text), {}, "test"), pipeline="", **options)


FULL = (
    "%c = pd_op.full() {shape = array<i64: 3>, value = 2.0 : f64, "
    f"dtype = #pir.dtype<float32>}} : () -> {F}"
)
OUT = f'pir.shadow_output(%y) {{output_name = "y"}} : ({F}) -> ()'
ADD = f"%y = pd_op.add(%x, %c) : ({F}, {F}) -> {F}"


def steps(exe: Executable) -> int:
    (session,) = next(iter(exe._sessions._idle.values()))
    return len(session._steps.calls)


def test_it_costs_nothing_in_a_run() -> None:
    exe = executable("\n".join((FULL, ADD, OUT)))
    for k in range(3):
        np.testing.assert_array_equal(exe(x=np.full(3, k, np.float32))["y"], [k + 2] * 3)
    assert steps(exe) == 1


def test_what_is_written_in_place_is_made_anew() -> None:
    write = f"%d = pd_op.add_(%c, %x) : ({F}, {F}) -> {F}"
    last = f"%y = pd_op.exp(%d) : ({F}) -> {F}"
    exe = executable("\n".join((FULL, write, last, OUT)))
    for k in range(3):
        found = exe(x=np.full(3, k, np.float32))["y"]
        np.testing.assert_allclose(found, np.exp([k + 2.0] * 3), rtol=1e-6)


def test_nor_is_its_memory_given_to_a_result() -> None:
    """`exp` may write over an operand that dies."""
    body = (FULL, f"%e = pd_op.exp(%c) : ({F}) -> {F}", ADD.replace("%c", "%e"), OUT)
    exe = executable("\n".join(body))
    for k in range(3):
        found = exe(x=np.full(3, k, np.float32))["y"]
        np.testing.assert_allclose(found, k + np.exp([2.0] * 3), rtol=1e-6)


def test_the_caller_s_is_new_in_each_run() -> None:
    exe = executable(FULL + f'\npir.shadow_output(%c) {{output_name = "y"}} : ({F}) -> ()')
    first, second = (exe(x=np.zeros(3, np.float32))["y"] for _ in range(2))
    first[...] = 7
    np.testing.assert_array_equal(second, [2, 2, 2])
    np.testing.assert_array_equal(exe(x=np.zeros(3, np.float32))["y"], [2, 2, 2])


def test_traces_tell_of_it() -> None:
    exe = executable("\n".join((FULL, ADD, OUT)))
    known = exe.trace({"x": np.zeros(3, np.float32)})
    assert [entry.what for entry in known.entries] == ["pd_op.full", "pd_op.add"]


SMALL = """
pir.program @main(%x "x" : tensor<4x6xf32>, %w "w" : tensor<4x6xf32>) {
  %t = pd_op.log(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = pd_op.add(%t, %w) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<4x6xf32>) -> ()
}"""


def test_small_inputs_are_read_where_they_are() -> None:
    exe = compile(Program(parsed(SMALL), {}, "test"), pipeline="@default")
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(1, 2, (4, 6)).astype(np.float32) for _ in range(2))
    wanted = exe(x=x, w=w)["y"]
    np.testing.assert_allclose(wanted, np.log(x) + w, rtol=1e-6)
    turned = np.asfortranarray(x)
    np.testing.assert_array_equal(exe(x=turned, w=w[::-1].copy()[::-1])["y"], wanted)
    assert turned.flags.f_contiguous
    (session,) = next(iter(exe._sessions._idle.values()))
    assert not session.places
    assert steps(exe) == 2  # the result, and all the rest


def test_nobody_is_warned() -> None:
    exe = compile(Program(parsed(SMALL), {}, "test"), pipeline="@default")
    bad = np.full((4, 6), -1, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(exe(x=bad, w=bad)["y"]).all()
        assert np.isnan(executable(NUMPY)(x=np.full(3, -1, np.float32))["y"]).all()


NUMPY = f"%y = pd_op.log(%x) : ({F}) -> {F}\n{OUT}"
