"""Rules by family; importing a module enters them."""

from pirkit.torch.aten import (
    activations,
    convolution,
    creation,
    elementwise,
    fourier,
    gradients,
    indexing,
    linalg,
    matmul,
    normalization,
    pooling,
    reduction,
    scatter,
    sorting,
    views,
)

__all__ = [
    "activations",
    "convolution",
    "creation",
    "elementwise",
    "fourier",
    "gradients",
    "indexing",
    "linalg",
    "matmul",
    "normalization",
    "pooling",
    "reduction",
    "scatter",
    "sorting",
    "views",
]
