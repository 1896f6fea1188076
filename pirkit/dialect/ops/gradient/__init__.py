"""Paddle's gradient ops."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops.gradient import (  # noqa: F401
    gradients,
    gradients_elementwise,
    gradients_higher,
    gradients_matrices,
    gradients_movement,
    gradients_nn,
    matmul_gradients,
)
