"""Models of DeepXDE's Paddle backend train in native code as they do in Paddle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("paddle")
pytest.importorskip("deepxde")

NAMES = "poisson resampled decay_and_weights adam_then_lbfgs rmsprop beam burgers inverse".split()


def test_weights_are_those_of_paddle() -> None:
    """One process for all cases: DeepXDE has one backend in each, and Paddle loads slowly."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.deepxde.paddle_cases", *NAMES],
        env={**os.environ, "DDE_BACKEND": "paddle", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    equal = [line for line in found.stdout.splitlines() if line.startswith("equal: ")]
    assert equal == [f"equal: {name}" for name in NAMES], found.stdout + found.stderr
