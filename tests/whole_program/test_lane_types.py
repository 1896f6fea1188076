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
