"""``pirkit-opt --bisect``: the pass, the rewrite or the kernel that breaks a program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import UsageError
from pirkit.frontend.bisection import bisect
from pirkit.frontend.kernel_check import check_module
from pirkit.frontend.numeric_check import expanding
from pirkit.passes import parse_pipeline, run_pipeline


def bisect_parts(modules: Sequence[ModuleOp], arguments: argparse.Namespace) -> int:
    """Print the pass or the kernel that breaks each part; exit code 3 if there is one."""
    if not parse_pipeline(arguments.pipeline):
        raise UsageError(
            "--bisect needs a pipeline", code="PK0701", help="`pirkit-opt FILE -p PASSES --bisect`"
        )
    found: list[str | None] = []
    for module in modules:
        passes = parse_pipeline(expanding(module, arguments.pipeline))
        culprit = bisect(module, passes, arguments.seed)
        found.append(str(culprit) if culprit else _wrong_kernel(module, arguments))
    nothing = "no pass breaks the program, and no kernel computes wrong numbers"
    print("\n// -----\n".join(text or nothing for text in found))
    return 3 if any(found) else 0


def _wrong_kernel(module: ModuleOp, arguments: argparse.Namespace) -> str | None:
    """What is wrong behind the pipeline on the backend, or None."""
    run_pipeline(module, expanding(module, arguments.pipeline))
    report = check_module(module, arguments.backend, arguments.seed)
    if report is None:
        return None
    return "\n".join(("no pass breaks the program", *report.lines(arguments.show_kernel)))
