"""The version of pirkit. In a file of its own, so that ``--version`` imports nothing else."""

from __future__ import annotations

from time import time_ns
from typing import Final

VERSION: Final = "0.1.0"

BEGAN_NS: Final = time_ns()
"""When this process began to read pirkit's files."""
