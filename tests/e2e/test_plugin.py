"""The example plug-in, installed the way a package is: by its entry points."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"

PROGRAM = """
pir.program @main(%x "x" : tensor<2xf32>) {
  %a = fma.multiply_add(%x, %x, %x) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = pd_op.tanh(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = pd_op.exp(%b) : (tensor<2xf32>) -> tensor<2xf32>
  pir.shadow_output(%c) {output_name = "y"} : (tensor<2xf32>) -> ()
}
"""

SCRIPT = """
import sys, warnings
import numpy as np
import pirkit
from pirkit.runtime.fallback import FALLBACKS, FallbackWarning

program = pirkit.load(sys.argv[1])
x = np.array([0.5, -1.0], np.float32)
expected = np.exp(np.tanh(x * x + x))
np.testing.assert_allclose(pirkit.compile(program)(x=x)["y"], expected, rtol=1e-6)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    exe = pirkit.compile(program, backend="simulator")
    for _ in range(3):
        np.testing.assert_allclose(exe(x=x)["y"], expected, rtol=1e-6)
assert sorted(str(w.message).split("`")[1] for w in told) == ["fma.multiply_add", "pd_op.exp"]
assert FALLBACKS == {"fma.multiply_add": 1, "pd_op.exp": 1}, FALLBACKS
from pirkit_fma.kernels import CALLS
assert CALLS == ["tanh"] * 3
try:
    pirkit.compile(program, backend="simulator", fallback=False)
except pirkit.PirkitError as error:
    print(error)
else:
    raise SystemExit("an op without a kernel was accepted")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A search path on which the plug-in is installed."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    info = tmp_path / "pirkit_fma-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pirkit-fma\nVersion: 0.1\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    paths = [str(tmp_path), str(PLUGIN), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def test_plugin_adds_an_op_a_device_and_kernels(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(program)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "has no kernel" in done.stdout
