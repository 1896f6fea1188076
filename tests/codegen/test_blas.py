"""Which BLAS numpy brings, and a warning where the environment slows it down."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pirkit.runtime.native.blas import CORE_VARIABLE, Blas, blas
from pirkit.runtime.native.target import host

MULTIPLY = """
import warnings
import numpy as np, pirkit
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    x = pirkit.ops.matmul(np.ones((8, 8), "float32"), np.ones((8, 8), "float32"))
    x = pirkit.ops.matmul(np.ones((9, 9), "float32"), np.ones((9, 9), "float32"))
print(*[str(w.message) for w in told if "OPENBLAS" in str(w.message)], sep="\\n")
"""


def known(**variables: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k != CORE_VARIABLE}
    run = subprocess.run(
        [sys.executable, "-c", MULTIPLY], env={**kept, **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout.strip()


def test_what_numpy_brings_is_known_or_the_reason_is_told() -> None:
    found = blas()
    if isinstance(found, Blas):
        assert found.core
        assert found.threads >= 1
    else:
        assert found


def test_old_kernels_are_warned_of_once() -> None:
    found = blas()
    if isinstance(found, str) or not host().x86:
        pytest.skip("no OpenBLAS of x86")
    if host().vector_bits < 256:
        pytest.skip("no kernels are older than this CPU")
    lines = known(OPENBLAS_CORETYPE="Nehalem").splitlines()
    assert len(lines) == 1
    assert "Nehalem (128 bits)" in lines[0]
    assert not known()
