"""Weights by name in files: ``.safetensors``, ``.npz``, and ``.pdiparams`` of Paddle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import UsageError
from pirkit.frontend.arrays import read_npz, write_npz
from pirkit.frontend.paddle.params import (
    parameter_metas,
    read_params,
    source_metas,
    unfilled_parameters,
)
from pirkit.frontend.safetensors_files import read_safetensors, write_safetensors

Array = np.ndarray[Any, Any]


def load_params(path: str, module: mlir.ModuleOp) -> dict[str, Array]:
    """Weights by name: ``.npz``, ``.safetensors``, or ``.pdiparams`` (in the module's order).

    A weight that the program declares as bfloat16 is stored in ``.npz`` as its bits in uint16.
    Raises ArtifactError for a file that is missing (PK0506) or damaged.
    """
    if path.endswith(".safetensors"):
        return read_safetensors(path)
    if path.endswith(".npz"):
        return read_npz(path, {name: meta.dtype.name for name, meta in source_metas(module)})
    return {**unfilled_parameters(module), **read_params(path, parameter_metas(module))}


def save_params(path: str, params: Mapping[str, Array]) -> None:
    """Write weights by name to ``.safetensors`` or ``.npz``. Raises UsageError for other names."""
    if path.endswith(".safetensors"):
        write_safetensors(path, params)
    elif path.endswith(".npz"):
        write_npz(path, params)
    else:
        raise UsageError(
            f"weights are written to .safetensors or .npz, not to {path}",
            help="`NAME.json` writes a program of Paddle with its `NAME.pdiparams` beside it",
        )
