"""``pirkit-opt --bisect``: the pass, the rewrite, the rule or the kernel that breaks a program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import ArgumentError
from pirkit.frontend.bisection import bisect
from pirkit.frontend.derivative_check import wrong_derivative
from pirkit.frontend.kernel_check import check_module
from pirkit.frontend.numeric_check import expanding
from pirkit.passes import parse_pipeline, run_pipeline

_DIFFERENTIATE: Final = {"autodiff", "expand-gradients", "split", "taylor"}
"""Passes whose result is as wrong as a derivative rule, without being wrong themselves."""


def bisect_parts(modules: Sequence[ModuleOp], arguments: argparse.Namespace) -> int:
    """Print the pass or the kernel that breaks each part; exit code 3 if there is one."""
    if not parse_pipeline(arguments.pipeline):
        raise ArgumentError(
            "--bisect needs a pipeline", help="`pirkit-opt FILE -p PASSES --bisect`"
        )
    found: list[str | None] = []
    for module in modules:
        passes = parse_pipeline(expanding(module, arguments.pipeline))
        culprit = bisect(module, passes, arguments.seed)
        if culprit is None and any(p.name in _DIFFERENTIATE for p in passes):
            culprit = wrong_derivative(module, arguments.seed)
        found.append(str(culprit) if culprit else _wrong_kernel(module, arguments))
    nothing = "no pass breaks the program, and no kernel computes wrong numbers"
    print("\n// -----\n".join(text or nothing for text in found))
    return 3 if any(found) else 0


def _wrong_kernel(module: ModuleOp, arguments: argparse.Namespace) -> str | None:
    """The error on the backend after the pipeline, as text, or None."""
    source = module.clone()
    run_pipeline(module, expanding(module, arguments.pipeline))
    report = check_module(module, arguments.backend, arguments.seed, source=source)
    if report is None:
        return None
    return "\n".join(("no pass breaks the program", *report.lines(arguments.show_kernel)))
