"""The former name of `compile` with native code of all of a program."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from pirkit.dialect.program import Program
from pirkit.frontend.compile import compile
from pirkit.runtime.executor import Executable

SIMPLIFY: Final = "@simplify"


def compile_whole(
    program: Program,
    *,
    pipeline: str = SIMPLIFY,
    params: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Executable:
    """Deprecated: ``compile(program, fast_math=True)``. The next release removes it."""
    warnings.warn(
        "compile_whole(program) is compile(program, fast_math=True) now; "
        "compile(program, require_native=True) refuses what is not one native call",
        DeprecationWarning,
        stacklevel=2,
    )
    chosen = None if pipeline == SIMPLIFY else pipeline
    return compile(program, pipeline=chosen, params=params, fast_math=True)
