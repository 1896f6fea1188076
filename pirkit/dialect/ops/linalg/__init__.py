"""Matmul, factorizations and linear systems."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.linalg import (  # noqa: F401
    eigen,
    einsum,
    factorization,
    linalg,
    lu,
    lu_solve,
    matmul_variants,
    solve,
)
