"""pirkit: a compiler toolkit for PIR programs.

The names below are loaded when they are first used, so that ``import pirkit`` costs nothing::

    prog = pirkit.load("program.txt")
    prog = pirkit.run_passes(prog, "cse,dce")
    exe = pirkit.compile(prog, backend="cpu")
    outputs = exe(x=x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pirkit.diag.gc_pause import imported
from pirkit.diag.version import VERSION as __version__

if TYPE_CHECKING:
    from pirkit import ops, split
    from pirkit.diag.errors import PirkitError
    from pirkit.frontend.compile import compile, run_passes
    from pirkit.frontend.eager import seed
    from pirkit.frontend.files import Program, load, save
    from pirkit.frontend.native_program import compile_whole
    from pirkit.frontend.traced_value import where
    from pirkit.frontend.transforms import (
        grad,
        hessian,
        jacfwd,
        jacrev,
        jet,
        jvp,
        value_and_grad,
        vjp,
    )
    from pirkit.runtime.executor import Executable
    from pirkit.runtime.tensor.creation import from_dlpack, from_numpy, tensor
    from pirkit.runtime.tensor.dense import DenseTensor, Tensor

_HOMES: Final = {
    "DenseTensor": "pirkit.runtime.tensor.dense",
    "Executable": "pirkit.runtime.executor",
    "PirkitError": "pirkit.diag.errors",
    "Program": "pirkit.frontend.files",
    "Tensor": "pirkit.runtime.tensor.dense",
    "compile": "pirkit.frontend.compile",
    "compile_whole": "pirkit.frontend.native_program",
    "from_dlpack": "pirkit.runtime.tensor.creation",
    "from_numpy": "pirkit.runtime.tensor.creation",
    "grad": "pirkit.frontend.transforms",
    "hessian": "pirkit.frontend.transforms",
    "jacfwd": "pirkit.frontend.transforms",
    "jacrev": "pirkit.frontend.transforms",
    "jet": "pirkit.frontend.transforms",
    "jvp": "pirkit.frontend.transforms",
    "load": "pirkit.frontend.files",
    "run_passes": "pirkit.frontend.compile",
    "save": "pirkit.frontend.files",
    "seed": "pirkit.frontend.eager",
    "tensor": "pirkit.runtime.tensor.creation",
    "value_and_grad": "pirkit.frontend.transforms",
    "vjp": "pirkit.frontend.transforms",
    "where": "pirkit.frontend.traced_value",
}

__all__ = [
    "DenseTensor",
    "Executable",
    "PirkitError",
    "Program",
    "Tensor",
    "__version__",
    "compile",
    "compile_whole",
    "from_dlpack",
    "from_numpy",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jet",
    "jvp",
    "load",
    "ops",
    "run_passes",
    "save",
    "seed",
    "split",
    "tensor",
    "value_and_grad",
    "vjp",
    "where",
]


def __getattr__(name: str) -> Any:
    if name in ("ops", "split"):
        return imported(f"pirkit.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pirkit' has no attribute {name!r}")
    value = getattr(imported(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
