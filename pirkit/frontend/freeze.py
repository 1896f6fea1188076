"""Programs whose weights are known: what depends on them alone is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from pirkit.dialect.program import Program
from pirkit.passes import run_pipeline
from pirkit.passes.hoist_constants import SUFFIX
from pirkit.runtime.executor import Executable
from pirkit.runtime.tensor.allocator import HOST

Array = np.ndarray[Any, Any]

FREEZE: Final = (
    "inline-vec,absorb-attributes,constant-fold,absorb-attributes,canonicalize,cse,dce,"
    "functionalize,fold-batch-norm,block-channels,dce,constant-fold,hoist-constants,dce"
)


def freeze(program: Program, run: Callable[[Program, str], Executable]) -> Program:
    """The program with its weights as constants: folded, and computed with once.

    ``run`` compiles a program and gives its executable. Batch norm in inference and constant scales
    become part of filters and weights (`fold-batch-norm`), and whatever else depends on weights
    alone becomes a weight (`hoist-constants`). Parameters that the program writes stay what they
    are. A program without weights is not changed.
    """
    if not program.params:
        return program
    made = program.copy()
    run_pipeline(made.module, FREEZE, verify_each=False)
    for name, apart in made.programs.items():
        if not name.endswith(SUFFIX):
            continue
        single = Program(made.module.clone(), made.params, made.source)
        exe = run(single, name)
        made.params.update(_owned(exe.run({})))
        apart.detach()
        apart.erase()
    return made


def _owned(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Copies in rows: an output may lie in memory that the executable uses again, or be a view."""
    return {name: _aligned(array) for name, array in outputs.items()}


def _aligned(array: Array) -> Array:
    """A copy in rows; a large one begins with a page, and may lie in huge ones."""
    copy = HOST.empty(array.shape, array.dtype)
    copy[...] = array
    return copy
