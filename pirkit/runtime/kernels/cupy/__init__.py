"""Kernels for CUDA devices: those of the CPU that take every function from the array module.

What is not here runs on the CPU, with copies there and back.
"""

from dataclasses import replace

from pirkit.runtime.registry import CPU, GPU, KERNELS

for _kernel in tuple(KERNELS.kernels(backend=CPU)):
    if _kernel.portable:
        KERNELS.add(replace(_kernel, key=replace(_kernel.key, backend=GPU)))
