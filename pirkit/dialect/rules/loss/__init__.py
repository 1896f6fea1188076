"""Rules of loss functions."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.loss import (  # noqa: F401
    ctc,
    loss,
)
