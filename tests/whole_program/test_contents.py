"""Constants of native programs, demands on data, and write-backs that write nothing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import Program
from pirkit.frontend.tracing import trace
from pirkit.runtime.native.program_json import pack_program, unpack_program
from tests.execution import parsed

Array = np.ndarray[Any, Any]

TABLE = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
PLACES = np.array([[0, 6, 3], [2, 2, 5]])


def embedded(places: Any, table: Any) -> Any:
    return ops.tanh(ops.embedding(places, table))


def given(places: Array) -> dict[str, Array]:
    return {"x0": places, "x1": TABLE}


def test_elements_that_are_no_places_are_an_error_of_the_call() -> None:
    whole = pirkit.compile(trace(embedded, (PLACES, TABLE)).program, fast_math=True)
    assert whole.native is not None, whole.reasons
    for wrong in (7, -1):
        bad = PLACES.copy()
        bad[1, 1] = wrong
        with pytest.raises(RuntimeFault, match=r"an index does not lie in \[0, 7\)") as raised:
            whole.run(given(bad))
        assert raised.value.code == "PK0901"
        (found,) = whole.run(given(PLACES)).values()
        np.testing.assert_allclose(found, np.tanh(TABLE[PLACES]), rtol=1e-5)


def test_a_bound_call_is_refused_before_results_are_written() -> None:
    native = pirkit.compile(trace(embedded, (PLACES, TABLE)).program, fast_math=True).native
    assert native is not None
    places, out = PLACES.copy(), np.empty((2, 3, 5), np.float32)
    run = native.bind([places, TABLE], [out])
    run()
    np.testing.assert_allclose(out, np.tanh(TABLE[PLACES]), rtol=1e-5)
    places[0, 0] = 9
    with pytest.raises(RuntimeFault):
        run()
    places[0, 0] = 0
    run()
    np.testing.assert_allclose(out, np.tanh(TABLE[PLACES]), rtol=1e-5)


def test_gradients_of_embeddings_are_native() -> None:
    def slope(places: Any, table: Any) -> Any:
        return pirkit.grad(lambda t: (embedded(places, t) ** 2).sum())(table)

    program = trace(slope, (PLACES, TABLE)).program
    whole = pirkit.compile(program, fast_math=True)
    assert whole.native is not None, whole.reasons
    y = np.tanh(TABLE[PLACES].astype(np.float64))
    wanted = np.zeros(TABLE.shape)
    np.add.at(wanted, PLACES, 2 * y * (1 - y * y))
    np.testing.assert_allclose(whole.run(given(PLACES))["y0"], wanted, rtol=1e-4, atol=1e-5)


CONSTANT = """
builtin.module {
  pir.program @main {
    %0 = pd_op.data() {dtype = #pir.dtype<int64>, name = "x", place = #pir.place<undefined:0>, shape = array<i64: 2, 2>} : () -> tensor<2x2xi64>
    %1 = pd_op.full_int_array() {dtype = #pir.dtype<int64>, value = array<i64: 4, -1>} : () -> tensor<2xi64>
    %2 = pd_op.add(%0, %1) : (tensor<2x2xi64>, tensor<2xi64>) -> tensor<2x2xi64>
    pir.shadow_output(%2) {output_name = "y"} : (tensor<2x2xi64>) -> ()
    pir.shadow_output(%1) {output_name = "z"} : (tensor<2xi64>) -> ()
  }
}
"""  # noqa: E501  as it is printed


def test_constants_are_part_of_a_program() -> None:
    whole = pirkit.compile(Program(parsed(CONSTANT), {}, "<constant>"), fast_math=True)
    assert whole.native is not None, whole.reasons
    kept = [step.function for step in whole.native.steps]
    keys = [str(k) for k in range(len(kept))]
    again = unpack_program(pack_program(whole.native, keys), lambda key: kept[int(key)])
    assert again is not None
    x = np.arange(4).reshape(2, 2)
    for native in (whole.native, again):
        for _ in range(2):
            y, z = native(x)
            np.testing.assert_array_equal(y, np.add(x, [4, -1]))
            np.testing.assert_array_equal(z, [4, -1])
            z[...] = 0  # results are the caller's


def test_marks_and_constants_outside_of_the_memory_are_refused() -> None:
    native = pirkit.compile(trace(embedded, (PLACES, TABLE)).program, fast_math=True).native
    assert native is not None
    functions = [step.function for step in native.steps]
    whole, steps = pack_program(native, [str(k) for k in range(len(functions))])
    names = [f.name for f in fields(native)]

    def read(steps: Any = steps, **changed: Any) -> Any:
        data = [changed.get(name, held) for name, held in zip(names, whole, strict=True)]
        return unpack_program([data, steps], lambda key: functions[int(key)])

    assert read() is not None
    assert read(flags=native.memory) is None
    assert read(contents=[[native.memory, "eJxjAAAAAQAB"]]) is None
    assert read(contents=[[0, "eJw"]]) is None
    key, operands, (first, _) = steps[0]
    assert read([[key, operands, [first, native.memory + 1]], *steps[1:]]) is None


@pytest.mark.parametrize("pipeline", ["dce", "@default"])
def test_a_parameter_that_gets_its_own_content_is_not_written(pipeline: str) -> None:
    text = """
builtin.module {
  pir.program @main {
    %0 = pd_op.data() {dtype = #pir.dtype<float32>, name = "x", place = #pir.place<undefined:0>, shape = array<i64: 2>} : () -> tensor<2xf32>
    %1 = pd_op.assign_out_(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %2 = pd_op.exp(%1) : (tensor<2xf32>) -> tensor<2xf32>
    pir.shadow_output(%2) {output_name = "y"} : (tensor<2xf32>) -> ()
  }
}
"""  # noqa: E501  as it is printed
    made = run_passes(Program(parsed(text), {}, "<own>"), pipeline)
    assert "assign_out_" not in str(made)
    whole = pirkit.compile(Program(parsed(text), {}, "<own>"), fast_math=True)
    assert whole.native is not None, whole.reasons
