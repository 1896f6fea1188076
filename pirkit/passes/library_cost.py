"""The excess time of a library call over native code, per element.

numpy converts float16 and bfloat16 one by one, computes some functions without vectors or in
several loops over memory, and runs short inner loops if operands are broadcast or if the reduced
axis is not the last one. All other ops are bound by memory bandwidth either way, and cost the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pirkit.dialect.kinds import COSTLY, ELEMENTWISE
from pirkit.dialect.opdef import find
from pirkit.runtime.meta import TensorMeta

HALF_TYPES: Final = frozenset({"float16", "bfloat16"})
_FP16_NS: Final = 1.5
_TO_INT_NS: Final = 2.4
_BROADCAST_NS: Final = 0.15
"""Excess nanoseconds per element for float16 and bfloat16, for a cast from float to integer, and
for an elementwise op with a broadcast operand."""

_EACH_NS: Final[dict[str, dict[str, float]]] = {
    "erf": {"float32": 2.4, "float64": 14.0},
    "sin": {"float64": 7.0},
    "cos": {"float64": 11.0},
    "exp": {"float32": 0.3, "float64": 0.3},
    "expm1": {"float64": 0.4},
    "tanh": {"float32": 0.13, "float64": 0.4},
    "sigmoid": {"float32": 0.65, "float64": 1.2},
    "sqrt": {"float32": 0.2, "float64": 0.7},
    "rsqrt": {"float32": 0.4, "float64": 1.4},
    "sign": {"float32": 0.35, "float64": 0.4},
    "floor_divide": {"float32": 14.0, "float64": 14.0},
    "remainder": {"float32": 8.0, "float64": 8.0},
    "prod": {"float32": 0.35, "float64": 0.35},
    "pad": {"float32": 0.35},
    "sum": {"int32": 0.2, "int64": 0.15},
}
"""Excess per element of ops that numpy computes slower than native code, by dtype of the first
operand. These and the following constants were measured on 33,000 to 1,000,000 elements, on one
thread with AVX-512."""

_WRITTEN_NS: Final[dict[str, float]] = {"scatter_nd_add": 1.4, "put_along_axis": 1.5}
"""Excess per element that is written at a data-dependent index."""

_BY_ROWS: Final = {"max": 0.25, "min": 0.25, "amax": 0.25, "amin": 0.25}
_BY_COLUMNS: Final = {"argmax": 0.5, "argmin": 0.5}
"""Excess per element of reductions that are fast only over a last axis of fewer than _SHORT
elements, and of reductions that are fast over any last axis."""
_SHORT: Final = 16

_PER_RUN: Final = {
    "max": 33.0, "min": 33.0, "amax": 33.0, "amin": 33.0, "sum": 14.0, "prod": 15.0,
}  # fmt: skip
"""Excess per run of reductions whose inner loop restarts for each contiguous run of elements."""
_LONG_RUN: Final = 64
"""Length of a run in elements from which on the restart does not matter."""

_LEAST_NS: Final = 2000.0
"""The least excess of a call for which compiling a kernel for this op alone pays."""


def slower_ns(op: str, operands: Sequence[TensorMeta], result: TensorMeta) -> float:
    """The excess time of one call in nanoseconds; 0 if it is too small to be worth a kernel.

    All sizes of the operands and of the result must be known.
    """
    name = op.removeprefix("pd_op.")
    if name in _WRITTEN_NS:
        found = max(m.numel for m in operands[1:]) * _WRITTEN_NS[name]
    else:
        elements = max(m.numel for m in (*operands, result))
        found = elements * _cost(name, operands, result)
    return found if found >= _LEAST_NS else 0.0


def _cost(name: str, operands: Sequence[TensorMeta], result: TensorMeta) -> float:
    if not operands:
        return 0.0
    x = operands[0]
    if x.dtype.name in HALF_TYPES or result.dtype.name in HALF_TYPES:
        return _FP16_NS
    if name == "cast":
        return _TO_INT_NS if x.dtype.kind == "float" and result.dtype.kind == "int" else 0.0
    same_rows = bool(x.rank and result.rank) and x.shape[-1] == result.shape[-1] > 1
    if name in _PER_RUN and not same_rows and (run := _run(x, result)) < _LONG_RUN:
        return _PER_RUN[name] / run
    if name in _BY_ROWS:
        return _BY_ROWS[name] if same_rows or (x.rank and x.shape[-1] >= _SHORT) else 0.0
    if name in _BY_COLUMNS:
        return _BY_COLUMNS[name] if same_rows else 0.0
    if _is_elementwise(name):
        repeated = any(m.numel not in (1, result.numel) for m in operands)
        return _BROADCAST_NS if repeated else 0.0
    return _EACH_NS.get(name, {}).get(x.dtype.name, 0.0)


def _is_elementwise(name: str) -> bool:
    definition = find(f"pd_op.{name}")
    return definition is not None and definition.kind == ELEMENTWISE and definition.cost < COSTLY


def _run(x: TensorMeta, result: TensorMeta) -> int:
    """The number of contiguous elements that are reduced together: those of the last axes."""
    last = next((n for n in reversed(result.shape) if n != 1), None)
    run = 1
    for n in reversed(x.shape):
        if n == last:
            break
        run *= n
    return max(run, 1)
