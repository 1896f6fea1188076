"""Arrays that a function makes while it is traced, as constants of its program.

Such an array, for instance ``np.ones_like(x)`` as a tangent, is an input of the program at first.
If its rows are equal it can be written as a few constants, which passes can simplify and every form
of native code admits. Other arrays stay inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.frontend.tracing import bound_input
from pirkit.passes.replace_ops import replace

MOST_COLUMNS: Final = 16
"""The most columns of a matrix of equal rows that becomes constants, one for each column."""


def write_constants(program: ProgramOp, held: Mapping[str, Any]) -> None:
    """Replace inputs of the program by constants if their arrays in ``held`` have equal rows.

    This holds for finite floats: arrays of one number, and matrices of few columns.
    """
    for op in [cast(PirOp, op) for op in program.block.ops]:
        name: Any = op.attribute("name") if op.name == "pd_op.data" else None
        if name in held:
            b = Builder(program.block, op, location=op.location)
            found = _written(b, b.wrap(op.results[0]), np.asarray(bound_input(held[name])))
            if found is not None:
                replace(op, [found.ssa])


def _written(b: Builder, like: Value, array: np.ndarray[Any, Any]) -> Value | None:
    """An array as constants; None if it is to stay an input."""
    if not like.dtype.is_float or not array.size or not np.isfinite(array).all():
        return None
    bits = array.view(f"u{array.itemsize}")  # by which 0.0 and -0.0 differ
    if (bits == bits.flat[0]).all():
        return b.const(float(array.flat[0]), like.dtype, like.shape)
    if array.ndim != 2 or array.shape[1] > MOST_COLUMNS or not (bits == bits[:1]).all():
        return None
    columns = [b.const(float(v), like.dtype, (array.shape[0], 1)) for v in array[0]]
    return b.concat(columns, axis=1)
