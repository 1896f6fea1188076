"""Fused kernels and lists of tensors, as loops use them."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.control import (  # noqa: F401
    fused,
    tensor_array,
)
