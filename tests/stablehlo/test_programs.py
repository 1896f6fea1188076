"""Programs that jax exported: read, run, differentiated, printed; equal to what jax computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.dialect.program import Program

FOLDER = Path(__file__).parent / "programs"
NAMES = sorted(p.stem for p in FOLDER.glob("*.mlir"))
RELATIVE = {"float32": 1e-5, "float64": 1e-12}
"""How far numbers may differ, relative to the largest of an output."""


def signed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Unsigned integers as signed ones of the same bits, which programs have."""
    wide = array.dtype.kind == "u" and array.dtype.itemsize > 1
    return array.view(array.dtype.str.replace("u", "i")) if wide else array


def run(program: Program, given: list[np.ndarray[Any, Any]], **how: Any) -> list[Any]:
    """The outputs for inputs by position."""
    exe = pirkit.compile(program, **how)
    names = [i.name for i in exe.inputs]
    return list(exe.run(dict(zip(names, map(signed, given), strict=True))).values())


def require_equal(found: list[Any], wanted: list[Any], within: float) -> None:
    assert len(found) == len(wanted)
    for mine, other in zip(found, map(signed, wanted), strict=True):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        if other.dtype.kind in "fc":
            largest = float(np.abs(other).max(initial=0)) or 1.0
            np.testing.assert_allclose(mine, other, rtol=0, atol=within * largest)
        else:
            np.testing.assert_array_equal(mine, other)


def recorded(name: str) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as held:
        parts = [[held[f"{kind}_{i}"] for i in range(sum(k.startswith(kind) for k in held))]
                 for kind in ("input", "output")]  # fmt: skip
    return parts[0], parts[1]


@pytest.mark.parametrize("name", NAMES)
def test_equals_jax(name: str) -> None:
    given, wanted = recorded(name)
    program = pirkit.load(FOLDER / f"{name}.mlir")
    within = RELATIVE[name.rpartition(".")[2]]
    require_equal(run(program, given), wanted, within)


@pytest.mark.parametrize("name", ["mlp.float32", "indexing.float32", "branches.float64"])
def test_the_printed_program_is_the_same(name: str) -> None:
    given, wanted = recorded(name)
    program = pirkit.load(FOLDER / f"{name}.mlir")
    again = pirkit.loads(str(program), params=program.params)
    require_equal(run(again, given, backend="reference", pipeline="@simplify"), wanted, 1e-5)
