"""How far a computed number may be from the expected one: the table that ``--check`` uses too."""

from __future__ import annotations

from pirkit.runtime.tolerance import (
    EXACT,
    TOLERANCES,
    Tolerance,
    difference,
    drift,
    loosest_of,
    tolerance,
)

__all__ = ["EXACT", "TOLERANCES", "Tolerance", "difference", "drift", "loosest_of", "tolerance"]
