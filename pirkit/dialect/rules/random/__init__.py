"""Rules of ops that draw random numbers."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.random import (  # noqa: F401
    random,
)
