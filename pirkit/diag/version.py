"""The version of pirkit. In a file of its own, so that ``--version`` imports nothing else."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
