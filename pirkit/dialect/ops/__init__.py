"""The op families. Importing this package declares every op."""

# pyright: reportUnusedImport=false
from pirkit.dialect.ops import (  # noqa: F401
    einsum,
    gradients_elementwise,
    gradients_higher,
    gradients_movement,
    gradients_nn,
    linalg,
)
