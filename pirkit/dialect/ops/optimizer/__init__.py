"""Optimizer steps and loss scaling."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.optimizer import (  # noqa: F401
    adam,
    adaptive,
    loss_scaling,
    merged_optimizer,
    optimizer,
)
