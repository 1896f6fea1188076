"""Kernels for the CPU, written in numpy. Importing the package registers them."""

from pirkit.runtime.kernels.numpy import (
    elementwise as elementwise,
)
from pirkit.runtime.kernels.numpy import (
    matmul as matmul,
)
