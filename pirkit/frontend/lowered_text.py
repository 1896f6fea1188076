"""Lowered programs as text: plans, fused kernels, loop nests, LLVM IR and assembly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from xdsl.dialects import builtin as mlir

from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.fusion.print import print_map_exprs
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_text import native_text
from pirkit.lowering.plan_writer import write_plan


def _plans(module: mlir.ModuleOp) -> str:
    return "".join(str(write_plan(p)) for p in module.ops if isinstance(p, ProgramOp))


def _native(stage: str, module: mlir.ModuleOp) -> str:
    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return "".join(native_text(write_plan(p), stage) for p in programs)


LOWERED: Final[Mapping[str, Callable[[mlir.ModuleOp], str]]] = {
    "plan": _plans,
    "map-expr": print_map_exprs,
    **{stage: partial(_native, stage) for stage in ("nest", "llvm", "llvm-locations", "asm")},
}
"""The writers of lowered forms, by the values of ``pirkit-opt -t`` that name these."""


def explain_kernels(module: mlir.ModuleOp) -> str:
    """The text of ``--why-kernel``: which kernel runs each operation of a module, and why."""
    library = KernelLibrary()
    programs = (op for op in module.ops if isinstance(op, ProgramOp))
    return "".join(why_kernels(write_plan(p, library=library), library) for p in programs)
