"""Reductions, scans, sorting, and sets."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.reduction import (  # noqa: F401
    extrema,
    order_statistics,
    reduction,
    scan,
    sets,
    sorting,
    vector_norm,
)
