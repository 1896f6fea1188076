"""Rules of ops that move, join or reinterpret elements; sizes for other rules."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.movement import (  # noqa: F401
    movement,
    padding,
    rearranging,
    reshape,
    size_ops,
    triangular,
)
