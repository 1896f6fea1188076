"""The reports of ``pirkit-opt`` about kernels; importing this imports the code generator."""

from __future__ import annotations

import argparse

from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import ArgumentError
from pirkit.frontend.kernel_check import check_module
from pirkit.frontend.lowered_text import explain_kernels
from pirkit.lowering.fusion.print import why_not_fused

__all__ = ["check_kernels", "explain_kernels", "why_not"]


def check_kernels(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    """``--check``: raise for the first kernel of the backend that computes wrong numbers."""
    report = check_module(module, arguments.backend, arguments.seed)
    if report is not None:
        report.require_right()


def why_not(module: mlir.ModuleOp, question: str) -> str:
    """``--why-not fuse:%A,%B``: what keeps two values from being fused."""
    about, _, values = question.partition(":")
    names = [name.strip().removeprefix("%") for name in values.split(",")]
    if about != "fuse" or len(names) != 2 or not all(names):
        raise ArgumentError(
            "--why-not names two values",
            help="`--why-not fuse:%A,%B`, with names of the program that is printed",
        )
    return why_not_fused(module, names[0], names[1]) + "\n"
