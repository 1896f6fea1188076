"""Rules of matmul, factorizations and linear systems."""

# pyright: reportUnusedImport=false
from pirkit.dialect.rules.linalg import (  # noqa: F401
    cofactors,
    eigen,
    factorization,
    linalg,
    matmul_variants,
    series_matrices,
    solve,
)
