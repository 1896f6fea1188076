"""Rules of reductions, scans, sorting and sets."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.reduction import (  # noqa: F401
    reduce_composites,
    reduction,
    scan,
    sets,
    sorting,
    vector_norm,
)
