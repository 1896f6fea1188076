"""Converted control flow: equal to plain Python on numpy arrays, with its derivatives."""

from __future__ import annotations

import re
import runpy
import traceback
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.diag.errors import RuntimeFault, TraceError
from pirkit.dialect.operation import span_of
from tests.frontend.static_functions import FUNCTIONS

POINTS: Final = [
    np.array([0.3, 0.7, 1.2]),
    np.array([1.4, -0.6, 0.27]),
    np.array([-1.1, 0.4, -0.8]),
    np.array([0.9, 1.9, -2.3]),
]
CONTROL: Final = ("pd_op.if", "pd_op.while")


def slopes(f: Any, x: Any) -> Any:
    steps = 1e-6 * np.eye(len(x))
    return [(float(f(x + s)) - float(f(x - s))) / 2e-6 for s in steps]


def names(program: Any) -> list[str]:
    return [op.name for op in program.entry(None).block.walk()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_to_python(name: str) -> None:
    f = FUNCTIONS[name]
    static = pirkit.to_static(f)
    both = pirkit.jit(pirkit.value_and_grad(static))
    for x in POINTS:
        expected = float(f(x))
        np.testing.assert_allclose(static(x), expected, rtol=1e-12)
        value, found = both(x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(found, slopes(f, x), rtol=1e-5, atol=1e-7)
    assert len(static.explain().splitlines()) == 1
    assert any(n in CONTROL for n in names(static.lower(POINTS[0]))) or name in PYTHON_ONLY


PYTHON_ONLY: Final = {"smallest"}
"""Functions without a branch in the program."""


def test_there_are_forty() -> None:
    assert len(FUNCTIONS) >= 40
