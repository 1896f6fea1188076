"""The entry points for fuzzers run, in a plain loop where there is no atheris."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

FUZZ = Path(__file__).parents[2] / "fuzz"


@pytest.mark.parametrize(("name", "runs"), [("files", 38), ("op_table", 9), ("programs", 3)])
def test_an_entry_point_runs(name: str, runs: int) -> None:
    command = [sys.executable, str(FUZZ / f"fuzz_{name}.py"), f"-runs={runs}", "-seed=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
