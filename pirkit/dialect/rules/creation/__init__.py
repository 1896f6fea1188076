"""Rules of ops that create tensors."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.creation import (  # noqa: F401
    creation,
)
