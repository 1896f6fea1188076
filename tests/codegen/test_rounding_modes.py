"""Code that is generated in another rounding mode has the constants that it has otherwise."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PROGRAM: Final = """
import ctypes, json, sys
import numpy as np
import pirkit
from pirkit import ops

modes = ctypes.CDLL(None)
x = np.linspace(-80, 80, 1001).astype(np.float32)
f = pirkit.jit(lambda x: ops.sin(x) + ops.cos(x) * 2.0)
g = pirkit.jit(lambda x: ops.tanh(ops.cos(x)).sum(1))
modes.fesetround(int(sys.argv[1]))
kept = modes.fegetround()
def values():
    return [np.asarray(v).tolist() for v in (f(x), g(x.reshape(77, 13)), ops.sin(x))]

found = values()
if modes.fegetround() != kept:
    sys.exit("the mode is another one")
modes.fesetround(0)
print(json.dumps([*found, *values()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers of modes are those of glibc")
def test_the_constants_of_code_do_not_depend_on_the_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = "1024" if platform.machine() == "x86_64" else str(2 << 22)
    found: list[list[list[float]]] = []
    for number, mode in enumerate((down, "0")):
        monkeypatch.setenv("PIRKIT_CACHE_DIR", str(tmp_path / str(number)))
        command = [sys.executable, "-c", PROGRAM, mode]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    changed, usual = found
    assert changed[3:] == usual[3:]  # the same code, once the mode is the usual one again
    for one, other in zip(changed[:3], usual[:3], strict=True):
        assert one == pytest.approx(other, abs=1e-3)
