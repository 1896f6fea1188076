"""Tensors made from numbers and shapes."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.creation import (  # noqa: F401
    constants,
    creation,
    ranges,
)
