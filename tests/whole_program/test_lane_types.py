"""Numbers of any element type beside rows in lanes: lanes compute them right, or refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.lowering.codegen.math.primitives import TABLE

NUMBERS = ((3, 2, 1), (7, 0, 2), (-5, 3, 1))


def ended(program: Any, inputs: Any, **options: Any) -> Any:
    """The result, or the code of the error, which differs with what refuses."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(pirkit.compile(program, **options)(**inputs)["y"])
    except PirkitError as error:
        return error.code


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "float64"])
@pytest.mark.parametrize("name", TABLE)
def test_an_op_of_single_numbers_beside_rows(name: str, dtype: str) -> None:
    for count in (1, 2, 3):
        b = pirkit.ProgramBuilder()
        operands = [b.input(f"x{k}", (), dtype) for k in range(count)]
        try:
            b.output("y", b(f"pd_op.{name}", *operands))
        except (PirkitError, TypeError, AttributeError):  # takes other operands
            continue
        b.output("rows", b.exp(b.input("z", (4,), "float32")))
        program = b.finish()
        for numbers in NUMBERS:
            given = {f"x{k}": np.array(numbers[k], dtype) for k in range(count)}
            inputs = {**given, "z": np.ones(4, "f4")}
            want = ended(program, inputs, backend="reference")
            found = ended(program, inputs, batch_lanes=True)
            if isinstance(want, str):
                assert isinstance(found, str)
            else:
                assert found.dtype == want.dtype
                np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(1,), (4,), (4, 1), (4, 3)])
@pytest.mark.parametrize("name", ["sum", "any", "mean", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_reductions_beside_lanes_have_a_type_of_their_own(
    name: str, dtype: str, shape: tuple[int, ...]
) -> None:
    """Sums of another element type were stored as that of the operand."""
    given = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for result in (None, "float64", "int64") if name == "sum" else (None,):
        b = pirkit.ProgramBuilder()
        x, beside = b.input("x", shape, dtype), b.input("beside", (4,), "float32")
        attributes = {} if result is None else {"dtype": result}
        try:
            b.output("y", b(f"pd_op.{name}", x, axis=[len(shape) - 1], **attributes))
        except PirkitError:  # no mean of bools
            continue
        b.output("z", b.exp(beside))
        program, inputs = b.finish(), {"x": given, "beside": np.ones(4, "f4")}
        want = pirkit.compile(program, backend="reference")(**inputs)["y"]
        found = pirkit.compile(program, batch_lanes=True)(**inputs)["y"]
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_constants_of_any_type_beside_rows_in_lanes() -> None:
    for dtype, values in (("complex128", (1.5, 2.5, -1.0, 0.0)), ("int64", (1, 2, 3, 4))):
        b = pirkit.ProgramBuilder()
        b.output("c", b.assign_value(shape=(2, 2), dtype=dtype, values=values))
        b.output("y", b.exp(b.input("x", (4,), "float32")))
        found = pirkit.compile(b.finish(), batch_lanes=True)(x=np.zeros(4, "f4"))
        np.testing.assert_array_equal(found["c"], np.reshape(values, (2, 2)))
        np.testing.assert_array_equal(found["y"], np.ones(4))


def test_constants_beside_rows_in_lanes_are_of_their_type() -> None:
    """NaN as an integer, and an integer that float64 does not hold."""
    b = pirkit.ProgramBuilder()
    x = b.input("x", (), "int64")
    b.output("nan", b.increment(x, value=float("nan")))
    b.output("odd", x + b.assign_value(shape=(), dtype="int64", values=(2**53 + 1,)))
    b.output("y", b.exp(b.input("rows", (4,), "float32")))
    program, inputs = b.finish(), {"x": np.array(4), "rows": np.zeros(4, "f4")}
    want = pirkit.compile(program, backend="reference")(**inputs)
    found = pirkit.compile(program, batch_lanes=True)(**inputs)
    assert found["odd"] == want["odd"] == 2**53 + 5
    assert found["nan"] == want["nan"]


@pytest.mark.parametrize("shape", [(2,), (1, 2), (4, 1), (4, 2)])
def test_constants_of_zeros_keep_their_signs_beside_rows(shape: tuple[int, ...]) -> None:
    """0.0 equals -0.0: what differs by the sign is neither one number nor one column."""
    b = pirkit.ProgramBuilder()
    x = b.exp(b.input("x", (4, 2), "float32"))
    zeros = (0.0, 1.0, -0.0, 1.0) if shape == (4, 2) else (0.0, -0.0)
    values = tuple(np.resize(zeros, shape).ravel().tolist())
    b.output("y", x / b.assign_value(shape=shape, dtype="float32", values=values))
    program, inputs = b.finish(), {"x": np.ones((4, 2), "f4")}
    want = pirkit.compile(program, backend="reference")(**inputs)["y"]
    found = pirkit.compile(program, batch_lanes=True)(**inputs)["y"]
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (4, 1), (4, 3)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("name", ["not_equal", "less_than"])
def test_comparisons_of_two_types_convert_both(name: str, dtype: str, shape: Any) -> None:
    """A comparison of bool and int64 was generated in the type of its first operand."""
    b = pirkit.ProgramBuilder()
    flag, number = b.input("flag", (4, 3), "bool"), b.input("number", shape, dtype)
    try:
        b.output("y", b(f"pd_op.{name}", flag, number))
    except PirkitError:  # Paddle mixes these types only with one number
        assert shape
        return
    b.output("rows", b.exp(b.input("z", (4,), "float32")))
    program = b.finish()
    given = np.arange(12).reshape(4, 3) % 3 == 0
    for value in (-1, 0, 1, 2):
        inputs = {"flag": given, "number": np.full(shape, value, dtype), "z": np.ones(4, "f4")}
        want = ended(program, inputs, backend="reference")
        np.testing.assert_array_equal(ended(program, inputs, batch_lanes=True), want)
