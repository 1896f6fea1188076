"""Kernels for CUDA devices.

First those of the CPU that take every function from the array module, then those written for
devices alone. What is in neither runs on the CPU, with copies there and back: of the primitives,
what :data:`~pirkit.runtime.kernels.cupy.host_fallback.ON_HOST` lists. Importing the package
registers them; all have run on a stand-in for cupy, and not on a GPU.
"""

# pyright: reportUnusedImport=false
from msgspec.structs import replace

from pirkit.runtime.kernels.cupy import (  # noqa: F401
    convolutions,
    elementary,
    gathering,
    matrices,
    scan,
    sorting,
    special,
    windows,
)
from pirkit.runtime.registry import CPU, GPU, KERNELS

for _kernel in tuple(KERNELS.kernels(backend=CPU)):
    if _kernel.portable:
        KERNELS.add(replace(_kernel, key=replace(_kernel.key, backend=GPU)))
