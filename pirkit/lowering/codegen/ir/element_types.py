"""Element types of the values of a nest, and the neutral elements of reductions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    Reduce,
    ReduceKind,
)
from pirkit.runtime.dtype import DType, float32

_LOGICAL: Final[dict[ReduceKind | None, ReduceKind | None]] = {"sum": "max", "prod": "min"}

LINE: Final = 64
"""Bytes of a cache line."""


def compute_type(dtype: DType) -> DType:
    """The element type of the arithmetic: float32 for fp16 and bf16, else the type itself."""
    return float32 if dtype.is_float and dtype.itemsize < 4 else dtype


def combination(kind: ReduceKind | None, dtype: DType) -> ReduceKind | None:
    """How elements of a type are combined: the sum of bools is whether any holds."""
    return _LOGICAL.get(kind, kind) if dtype.kind == "bool" else kind


def types_of(kernel: Kernel) -> dict[str, DType]:
    """The compute type of every name."""
    types: dict[str, DType] = {}
    for statement in kernel.statements():
        match statement:
            case Load(name, operand):
                types[name] = compute_type(kernel.operands[operand].dtype)
            case Constant(name, dtype, _) | Compute(name, _, _, dtype):
                types[name] = compute_type(dtype)
            case Index(name, _, dtype):
                types[name] = dtype
            case Reduce(name, _, value):
                types[name] = types[value]
            case _:
                pass
    return types


def identity(kind: ReduceKind, dtype: DType) -> float | int | bool:
    """The neutral element of a reduction."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    if dtype.kind == "bool":
        return kind == "min"
    limits = np.iinfo(dtype.np)
    return int(limits.min if kind == "max" else limits.max)
