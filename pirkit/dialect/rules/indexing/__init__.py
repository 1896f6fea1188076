"""Rules of gather and scatter."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.indexing import (  # noqa: F401
    indexing,
    scatter,
)
