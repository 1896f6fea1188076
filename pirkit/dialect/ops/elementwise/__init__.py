"""Ops that compute each element from one element of each operand."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.elementwise import (  # noqa: F401
    activation,
    arithmetic,
    binary,
    bitwise,
    complex,
    elementwise,
    logic,
    piecewise,
    rounding,
    selection,
    special_functions,
    unary,
)
