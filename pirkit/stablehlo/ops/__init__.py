"""The rules, a file for each family of operations; importing one enters its rules."""

# pyright: reportUnusedImport=false
from pirkit.stablehlo.ops import (
    contractions,
    control,
    elementwise,
    gathers,
    integers,
    libraries,
    reductions,
    sorting,
    views,
    windows,
)

__all__ = [
    "contractions", "control", "elementwise", "gathers", "integers", "libraries", "reductions",
    "sorting", "views", "windows",
]  # fmt: skip
