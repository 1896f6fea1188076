"""Rules of elementwise ops."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.elementwise import (  # noqa: F401
    activation,
    binary,
    complex,
    elementwise,
    special_functions,
)
