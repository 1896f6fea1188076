"""pirkit: a compiler toolkit for PIR programs.

The names below are loaded when they are first used, so that ``import pirkit`` costs nothing::

    prog = pirkit.load("program.txt")
    prog = pirkit.run_passes(prog, "cse,dce")
    exe = pirkit.compile(prog, backend="cpu")
    outputs = exe(x=x)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from pirkit.diag.gc_pause import imported
from pirkit.diag.version import VERSION as __version__

if TYPE_CHECKING:
    from pirkit import numpy, ops, optim, random, split
    from pirkit.diag.errors import PirkitError
    from pirkit.frontend import tree
    from pirkit.frontend.checkpoint import checkpoint
    from pirkit.frontend.compile import compile, run_passes
    from pirkit.frontend.configuration import config, threads
    from pirkit.frontend.control_flow import cond, fori_loop, scan, while_loop
    from pirkit.frontend.custom_rules import custom_jvp, custom_vjp, stop_gradient
    from pirkit.frontend.derivative_products import hvp, laplacian, linearize
    from pirkit.frontend.eager import seed
    from pirkit.frontend.files import Program, load, loads, save
    from pirkit.frontend.function_programs import parameters, trace
    from pirkit.frontend.jacobians import hessian, jacfwd, jacrev
    from pirkit.frontend.jit import jit
    from pirkit.frontend.native_program import compile_whole
    from pirkit.frontend.program_builder import ProgramBuilder
    from pirkit.frontend.quantize import quantize
    from pirkit.frontend.to_static import to_static
    from pirkit.frontend.traced_value import where
    from pirkit.frontend.transforms import grad, jet, jvp, value_and_grad, vjp
    from pirkit.frontend.vmap import vmap
    from pirkit.runtime.executor import Executable
    from pirkit.runtime.tensor.conversion import from_dlpack, from_numpy, tensor
    from pirkit.runtime.tensor.dense import DenseTensor, Tensor

_HOMES: Final = {
    name: f"pirkit.{module}"
    for module, names in {
        "diag.errors": "PirkitError",
        "frontend.checkpoint": "checkpoint",
        "frontend.compile": "compile run_passes",
        "frontend.configuration": "config threads",
        "frontend.control_flow": "cond fori_loop scan while_loop",
        "frontend.custom_rules": "custom_jvp custom_vjp stop_gradient",
        "frontend.derivative_products": "hvp laplacian linearize",
        "frontend.eager": "seed",
        "frontend.files": "Program load loads save",
        "frontend.function_programs": "parameters trace",
        "frontend.jacobians": "hessian jacfwd jacrev",
        "frontend.jit": "jit",
        "frontend.native_program": "compile_whole",
        "frontend.program_builder": "ProgramBuilder",
        "frontend.quantize": "quantize",
        "frontend.to_static": "to_static",
        "frontend.traced_value": "where",
        "frontend.transforms": "grad jet jvp value_and_grad vjp",
        "frontend.vmap": "vmap",
        "runtime.executor": "Executable",
        "runtime.tensor.conversion": "from_dlpack from_numpy tensor",
        "runtime.tensor.dense": "DenseTensor Tensor",
    }.items()
    for name in names.split()
}
"""Each name, with the module that defines it."""

_MODULES: Final = {
    "numpy": "pirkit.numpy",
    "ops": "pirkit.ops",
    "optim": "pirkit.optim",
    "random": "pirkit.random",
    "split": "pirkit.split",
    "tree": "pirkit.frontend.tree",
}

__all__ = [
    "DenseTensor", "Executable", "PirkitError", "Program", "ProgramBuilder", "Tensor",
    "__version__", "checkpoint", "compile", "compile_whole", "cond", "config", "custom_jvp",
    "custom_vjp", "fori_loop", "from_dlpack", "from_numpy", "grad", "hessian", "hvp", "jacfwd",
    "jacrev", "jet", "jit", "jvp", "laplacian", "linearize", "load", "loads", "numpy", "ops",
    "optim", "parameters", "quantize", "random", "run_passes", "save", "scan", "seed", "split",
    "stop_gradient", "tensor", "threads", "to_static", "trace", "tree", "value_and_grad", "vjp",
    "vmap", "where", "while_loop",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return imported(_MODULES[name])
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(
            f"module 'pirkit' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    value = getattr(imported(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
