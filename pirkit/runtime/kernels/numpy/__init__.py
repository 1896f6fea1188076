"""Kernels for the CPU, written in numpy. Importing the package registers them."""

from pirkit.runtime.kernels.numpy import (
    elementwise as elementwise,
)
from pirkit.runtime.kernels.numpy import (
    joining as joining,
)
from pirkit.runtime.kernels.numpy import (
    matmul as matmul,
)
from pirkit.runtime.kernels.numpy import (
    movement as movement,
)
from pirkit.runtime.kernels.numpy import (
    padding as padding,
)
from pirkit.runtime.kernels.numpy import (
    view as view,
)
