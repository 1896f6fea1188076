"""Reductions over no elements, fused and alone: their identities, whatever is empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.diag.errors import PirkitError
from pirkit.frontend.op_functions import op_function
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.interpret import Evaluation
from tests.codegen.nests import poisoned, sums

SHAPES = [((3, 3), (0,)), ((3, 3), (1,)), ((3, 3), (0, 1))]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("name", ["any", "sum", "max"])
def test_fused_reductions_of_nothing(name: str, dtype: str) -> None:
    """A slice of no rows in front, along one axis or all, as the reference reduces it."""
    reduced, sliced = op_function(f"pd_op.{name}"), op_function("pd_op.slice")
    for shape, axes in SHAPES:
        x = np.ones(shape, dtype)
        for empty in range(len(shape)):

            def function(x: Any, empty: int = empty, axes: tuple[int, ...] = axes) -> Any:
                none = sliced(x, axes=(empty,), starts=(1,), ends=(1,))
                return reduced(none, axis=axes, keepdim=False)

            try:
                program = trace(function, (x,)).program
                with np.errstate(all="ignore"):
                    want = pirkit.compile(program, backend="reference")(x0=x)["y0"]
            except PirkitError:
                continue  # a maximum of nothing
            for pipeline in ("@fused", "@default"):
                found = pirkit.compile(program, pipeline=pipeline)(x0=x)["y0"]
                np.testing.assert_array_equal(found, want)


def test_the_interpreter_writes_sums_of_nothing() -> None:
    """Its memory was left as it was, which shows only where that is not zero."""
    kernel = sums(3, 0)
    buffers = [poisoned(operand) for operand in kernel.operands]
    Evaluation(kernel, buffers).run()
    assert buffers[1].tolist() == [0, 0, 0]
