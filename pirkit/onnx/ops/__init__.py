"""The rules, a file for each family. Importing this module enters them all in `rules.RULES`."""

# pyright: reportUnusedImport=false
from pirkit.onnx.ops import (  # noqa: F401
    activations,
    contributed,
    creation,
    elementwise,
    fourier,
    indexing,
    matmul,
    normalization,
    quantization,
    recurrent,
    reduction,
    resizing,
    scatter,
    sequences,
    views,
    windows,
)
