"""Ops that draw random numbers."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.random import (  # noqa: F401
    distributions,
    random,
    random_activation,
    threefry,
)
