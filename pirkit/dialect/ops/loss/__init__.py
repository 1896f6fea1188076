"""Loss functions."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.loss import (  # noqa: F401
    ctc,
    loss,
    loss_pointwise,
)
