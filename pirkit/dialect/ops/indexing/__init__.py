"""Gather and scatter: reads and writes at indices that tensors give."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.indexing import (  # noqa: F401
    gather,
    index_select,
    indexing,
    scatter,
    set_value,
)
