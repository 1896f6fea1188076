"""What a run of a cached plan, which imports no pass, finds in the kernel library."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.runtime import dtype as dt
assert "pirkit.passes" not in sys.modules
found = KernelLibrary().choices("pd_op.slogdet_grad", dt.float64, {})
print([choice.kernel.source for choice in found])
"""


def test_gradient_ops_are_decomposed_when_a_plan_runs() -> None:
    """Their rule comes with the passes, so its table alone does not know it."""
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert told.stdout == "['its decomposition']\n"
