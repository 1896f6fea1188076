"""The ``pirkit-opt`` command: reads a program, runs passes, writes it in any format."""

from __future__ import annotations

import argparse
from typing import Final

from pirkit.cli.commands import run_command
from pirkit.cli.opt_flags import FORMATS, TARGETS, make_parser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import UsageError
from pirkit.diag.limits import PROFILES, use_limits

_OF_PIPELINES: Final = ("print_ir", "dump", "report", "stats", "trace_rewrites")
_OF_PIPELINES_OR_EMPTY: Final = ("remarks", "timing")
_COMPANIONS: Final = {"missing": "list_ops", "primitives": "list_ops", "show_kernel": "bisect"}

__all__ = ["FORMATS", "TARGETS", "main"]


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = make_parser().parse_command_line()
    if arguments.load:
        run_command("pass_files:load_passes", arguments)
    if arguments.list_ops or arguments.list_passes or arguments.help_pass is not None:
        return run_command("listings:print_listing", arguments)
    if arguments.file is None:
        raise UsageError(
            "a file is missing", code="PK0701", help="`pirkit-opt FILE -p PASSES`; - reads a pipe"
        )
    if arguments.check not in (None, "", "each", "proof"):
        raise UsageError(
            f"there is no --check={arguments.check}",
            code="PK0701",
            help="--check looks at the result, --check=each behind each pass, --check=proof proves",
        )
    _require_companions(arguments)
    with use_limits(PROFILES[arguments.limits]):
        return run_command("transform:transform", arguments)


def _require_companions(arguments: argparse.Namespace) -> None:
    """Raise UsageError (PK0701) for a flag that does nothing without another one."""
    asked = [n for n in _OF_PIPELINES if getattr(arguments, n)]
    asked += [n for n in _OF_PIPELINES_OR_EMPTY if getattr(arguments, n) is not None]
    lacking = {} if arguments.pipeline or arguments.run_reproducer else dict.fromkeys(asked, "-p")
    if arguments.why_kernel and arguments.target != "plan":
        lacking["why_kernel"] = "-t plan"
    lacking |= {
        flag: f"--{other.replace('_', '-')}"
        for flag, other in _COMPANIONS.items()
        if getattr(arguments, flag) and not getattr(arguments, other)
    }
    for flag, other in lacking.items():
        shown = "--" + flag.removesuffix("_ir").replace("_", "-")
        example = f"{other} cse,dce" if other == "-p" else other
        raise UsageError(
            f"{shown} does nothing without {other}",
            code="PK0701",
            help=f"`pirkit-opt FILE {example} {shown}`",
        )
