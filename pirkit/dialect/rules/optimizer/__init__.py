"""Rules of optimizer steps and loss scaling."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.optimizer import (  # noqa: F401
    adaptive,
    optimizer,
)
