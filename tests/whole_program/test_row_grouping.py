"""Plans in which products and the kernels between them become one call, once sizes are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.lowering.native_ops import ROWS
from pirkit.runtime.executor import Executable
from pirkit.runtime.plan import Call, Plan
from tests.execution import parsed

Array = np.ndarray[Any, Any]


def normal(*shape: int, kind: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def heads(lead: tuple[int, ...] = (2, 3), kind: str = "float32") -> tuple[Array, ...]:
    shapes = ((130, 24), (140, 24), (140, 16))
    return tuple([normal(*lead, *s, kind=kind, seed=k) for k, s in enumerate(shapes)])


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.matmul(q, k, transpose_y=True) * 0.25
    return ops.matmul(ops.softmax(scores, -1), v)


def names_of(exe: Executable) -> list[str]:
    return [p.name for p in exe.plan.inputs]


def run(exe: Executable, given: tuple[Array, ...]) -> list[Array]:
    return list(exe.run(dict(zip(names_of(exe), given, strict=True))).values())


def rewritten(exe: Executable, given: tuple[Array, ...]) -> Plan:
    _, metas = exe._feed(dict(zip(names_of(exe), given, strict=True)))
    fed = {slot: meta for slot, meta in zip(exe._slots, metas, strict=True) if meta}
    return exe.library.grouped(exe.plan, fed)


def count(plan: Plan) -> int:
    return sum(isinstance(i, Call) and i.kernel == ROWS for i in plan.body)


def agrees(
    function: Any, given: tuple[Array, ...], groups: int = 1, atol: float = 2e-5
) -> Executable:
    program = trace(function, given).program
    exe = pirkit.compile(program, pipeline="taylor,expand-gradients,@default")
    assert count(rewritten(exe, given)) == groups
    exact = pirkit.compile(program, backend="reference", pipeline="taylor,expand-gradients")
    for _ in range(2):
        for found, right in zip(run(exe, given), run(exact, given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=atol)
    return exe


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_attention_is_one_call(kind: str) -> None:
    exe = agrees(attention, heads(kind=kind), atol=2e-5 if kind == "float32" else 1e-12)
    assert len(rewritten(exe, heads(kind=kind)).body) == 1


def test_operands_that_do_not_lie_in_rows() -> None:
    def function(x: Any) -> Any:
        q, k, v = ops.unbind(ops.transpose(ops.reshape(x, [2, 130, 3, 4, 24]), [2, 0, 3, 1, 4]), 0)
        return ops.transpose(attention(q, k, v), [0, 2, 1, 3])

    x = normal(2, 130, 3 * 4 * 24)
    exe = agrees(function, (x,))
    np.testing.assert_array_equal(run(exe, (np.asfortranarray(x),))[0], run(exe, (x,))[0])


def test_what_others_read_is_kept() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(q, k, transpose_y=True) * 0.25
        weights = ops.softmax(scores, -1)
        return ops.matmul(weights, v), ops.cumsum(weights, 1)

    agrees(function, heads())


def test_what_others_read_between_is_there() -> None:
    """The call between two products reads what a group would give only behind it."""

    def function(q: Any, k: Any, v: Any) -> Any:
        weights = ops.softmax(ops.matmul(q, k, transpose_y=True) * 0.25, -1)
        sums = ops.cumsum(weights, 1)
        return ops.matmul(weights, v), sums

    agrees(function, heads(), groups=0)


def test_gradients() -> None:
    def function(g: Any, q: Any, k: Any, v: Any) -> Any:
        return pirkit.grad(lambda *a: (attention(*a) * g).sum(), (0, 1, 2))(q, k, v)

    agrees(function, (normal(2, 4, 130, 16, seed=9), *heads((2, 4))), atol=1e-4)


def test_other_ways_to_run_have_no_groups() -> None:
    given = heads()
    program = trace(attention, given).program
    for exe in (
        pirkit.compile(program, pipeline="@simplify"),
        pirkit.compile(program, backend="reference"),
        pirkit.compile(program, certify=True),
    ):
        assert rewritten(exe, given) is exe.plan
    exe = pirkit.compile(program, pipeline="@default")
    (wanted,) = run(exe, given)
    (threaded,) = run(pirkit.compile(program, pipeline="@default", threads=2), given)
    np.testing.assert_allclose(threaded, wanted, rtol=1e-4, atol=2e-5)
    known = exe.trace(dict(zip(names_of(exe), given, strict=True)))
    assert [e.what for e in known.entries] == ["pd_op.matmul", "pir.map_expr", "pd_op.matmul"]


OPEN = """
pir.program @main(%q "q" : tensor<2x?x24xf32>, %k "k" : tensor<2x?x24xf32>) {
  %s = pd_op.matmul(%q, %k) {transpose_x = false, transpose_y = true}
    : (tensor<2x?x24xf32>, tensor<2x?x24xf32>) -> tensor<2x?x?xf32>
  %p = pd_op.softmax(%s) {axis = -1 : i32} : (tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %y = pd_op.matmul(%p, %k) {transpose_x = false, transpose_y = false}
    : (tensor<2x?x?xf32>, tensor<2x?x24xf32>) -> tensor<2x?x24xf32>
  pir.shadow_output(%y) {output_name = "y"} : (tensor<2x?x24xf32>) -> ()
}"""


def test_open_sizes_are_grouped_for_each_size() -> None:
    program = Program(parsed(OPEN), {}, "test")
    exe = pirkit.compile(program, pipeline="@default")
    exact = pirkit.compile(program, backend="reference")
    for rows, columns, groups in ((130, 140, 1), (200, 100, 1), (4, 3, 0), (0, 3, 0)):
        given = normal(2, rows, 24), normal(2, columns, 24, seed=1)
        assert count(rewritten(exe, given)) == groups
        np.testing.assert_allclose(run(exe, given)[0], run(exact, given)[0], rtol=1e-4, atol=2e-5)


WRITES = """
pir.program @main(%q "q" : tensor<2x130x24xf32>, %k "k" : tensor<2x140x24xf32>) {
  %s = pd_op.matmul(%q, %k) {transpose_x = false, transpose_y = true}
    : (tensor<2x130x24xf32>, tensor<2x140x24xf32>) -> tensor<2x130x140xf32>
  %m = pd_op.softmax(%s) {axis = -1 : i32} : (tensor<2x130x140xf32>) -> tensor<2x130x140xf32>
  %y = pd_op.matmul(%m, %k) {transpose_x = false, transpose_y = false}
    : (tensor<2x130x140xf32>, tensor<2x140x24xf32>) -> tensor<2x130x24xf32>
  %n = pd_op.tanh(%y) : (tensor<2x130x24xf32>) -> tensor<2x130x24xf32>
  pir.shadow_output(%n) {output_name = "y"} : (tensor<2x130x24xf32>) -> ()
}"""


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_what_a_group_reads_is_not_written_before_it_runs(behind: int) -> None:
    """A call that writes an operand in place stands behind the first, second or third member."""
    exe = pirkit.compile(Program(parsed(WRITES), {}, "test"), pipeline="@default")
    given = normal(2, 130, 24), normal(2, 140, 24, seed=1)
    assert count(rewritten(exe, given)) == 1
    first = exe.plan.inputs[0].slot
    body = list(exe.plan.body)
    body.insert(behind, Call("pd_op.relu_", (first,), (first,)))
    plan = replace(exe.plan, body=tuple(body), written=(exe.plan.inputs[0].name,))
    writing = Executable(plan, exe.library)
    np.testing.assert_array_equal(count(rewritten(writing, given)), 0)
    np.testing.assert_allclose(run(writing, given)[0], run(exe, given)[0], rtol=1e-4, atol=2e-5)
    np.testing.assert_array_equal(writing.updates[names_of(exe)[0]], np.maximum(given[0], 0))
