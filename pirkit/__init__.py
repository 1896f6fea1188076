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
    "DenseTensor": "pirkit.runtime.tensor.dense",
    "Executable": "pirkit.runtime.executor",
    "PirkitError": "pirkit.diag.errors",
    "Program": "pirkit.frontend.files",
    "ProgramBuilder": "pirkit.frontend.program_builder",
    "Tensor": "pirkit.runtime.tensor.dense",
    "checkpoint": "pirkit.frontend.checkpoint",
    "compile": "pirkit.frontend.compile",
    "compile_whole": "pirkit.frontend.native_program",
    "config": "pirkit.frontend.configuration",
    "cond": "pirkit.frontend.control_flow",
    "custom_jvp": "pirkit.frontend.custom_rules",
    "custom_vjp": "pirkit.frontend.custom_rules",
    "fori_loop": "pirkit.frontend.control_flow",
    "from_dlpack": "pirkit.runtime.tensor.conversion",
    "from_numpy": "pirkit.runtime.tensor.conversion",
    "grad": "pirkit.frontend.transforms",
    "hessian": "pirkit.frontend.jacobians",
    "hvp": "pirkit.frontend.derivative_products",
    "jacfwd": "pirkit.frontend.jacobians",
    "jacrev": "pirkit.frontend.jacobians",
    "jet": "pirkit.frontend.transforms",
    "jit": "pirkit.frontend.jit",
    "jvp": "pirkit.frontend.transforms",
    "laplacian": "pirkit.frontend.derivative_products",
    "linearize": "pirkit.frontend.derivative_products",
    "load": "pirkit.frontend.files",
    "loads": "pirkit.frontend.files",
    "parameters": "pirkit.frontend.function_programs",
    "quantize": "pirkit.frontend.quantize",
    "run_passes": "pirkit.frontend.compile",
    "save": "pirkit.frontend.files",
    "scan": "pirkit.frontend.control_flow",
    "seed": "pirkit.frontend.eager",
    "stop_gradient": "pirkit.frontend.custom_rules",
    "threads": "pirkit.frontend.configuration",
    "tensor": "pirkit.runtime.tensor.conversion",
    "to_static": "pirkit.frontend.to_static",
    "trace": "pirkit.frontend.function_programs",
    "value_and_grad": "pirkit.frontend.transforms",
    "vjp": "pirkit.frontend.transforms",
    "vmap": "pirkit.frontend.vmap",
    "where": "pirkit.frontend.traced_value",
    "while_loop": "pirkit.frontend.control_flow",
}

_MODULES: Final = {
    "numpy": "pirkit.numpy",
    "ops": "pirkit.ops",
    "optim": "pirkit.optim",
    "random": "pirkit.random",
    "split": "pirkit.split",
    "tree": "pirkit.frontend.tree",
}

__all__ = [
    "DenseTensor",
    "Executable",
    "PirkitError",
    "Program",
    "ProgramBuilder",
    "Tensor",
    "__version__",
    "checkpoint",
    "compile",
    "compile_whole",
    "cond",
    "config",
    "custom_jvp",
    "custom_vjp",
    "fori_loop",
    "from_dlpack",
    "from_numpy",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jet",
    "jit",
    "jvp",
    "laplacian",
    "linearize",
    "load",
    "loads",
    "numpy",
    "ops",
    "optim",
    "parameters",
    "quantize",
    "random",
    "run_passes",
    "save",
    "scan",
    "seed",
    "split",
    "stop_gradient",
    "tensor",
    "threads",
    "to_static",
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
    "where",
    "while_loop",
]


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
