"""The ``pirkit-opt`` command: reads a program, runs passes, writes it in any format."""

from __future__ import annotations

from typing import Final

from pirkit.cli.arguments import require_suffix
from pirkit.cli.commands import run_command
from pirkit.cli.opt_flags import FORMATS, TARGETS, make_parser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import ArgumentError
from pirkit.diag.limits import PROFILES, use_limits

_NEEDS: Final = (
    ("print dump report stats trace_rewrites remarks timing no_verify_each",
     ("--pipeline", "--run-reproducer"), "-p cse,dce"),
    ("missing primitives", ("--list-ops",), "--list-ops"),
    ("show_kernel", ("--bisect",), "--bisect"),
    ("seed backend", ("--check", "--bisect"), "--check"),
)  # fmt: skip
"""Flags, those of which they need one, and how that is written."""

_LISTINGS: Final = ("--list-ops", "--list-passes", "--help-pass")
_PRINTS: Final = (
    ("--target", "--generic", "--locs", "--count", "--why-not", "--bisect"),
    _LISTINGS,
    ("--missing", "--primitives"),
)
"""Flags that select the output, of which a command may have one of each row."""

_IDLE: Final = {
    ("--check", "--bisect"): "--bisect compares the numbers after each pass",
    ("--output", "--bisect"): "--bisect prints what it finds",
    ("--output", "--expect-diagnostics"): "--expect-diagnostics writes no program",
}
"""A flag that does nothing beside another one, and what that one does."""

__all__ = ["FORMATS", "TARGETS", "main"]


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    parser = make_parser()
    arguments = parser.parse_command_line()
    if arguments.load:
        run_command("pass_files:load_passes", arguments)
    given = parser.given(arguments)
    _require_companions(given)
    listing = next((flag for flag in _LISTINGS if flag in given), None)
    if listing:
        if given & {"--file", "--pipeline", "--output"}:
            raise ArgumentError(
                f"{listing} reads no program and runs no passes",
                help=f"`pirkit-opt {listing}`, with --load for passes of a file",
            )
        return run_command("listings:print_listing", arguments)
    if arguments.file is None:
        raise ArgumentError("a file is missing", help="`pirkit-opt FILE -p PASSES`; - reads a pipe")
    if arguments.check not in (None, "", "each", "proof"):
        raise ArgumentError(
            f"there is no --check={arguments.check}",
            help="--check looks at the result, --check=each after each pass, --check=proof proves",
        )
    if arguments.why_kernel and arguments.target != "plan":
        raise ArgumentError(
            "--why-kernel does nothing without -t plan",
            help="`pirkit-opt FILE -t plan --why-kernel`",
        )
    if arguments.report:
        require_suffix("--report", arguments.report, ".html")
    if str(arguments.output).endswith(".onnx") and arguments.target != "onnx":
        raise ArgumentError(
            f"{arguments.output} is named as a file of ONNX, which -t onnx writes",
            help=f"`pirkit-opt FILE -t onnx -o {arguments.output}`",
        )
    generic, locations = arguments.generic and "mlir-generic", arguments.locs and "mlir-locations"
    arguments.target = arguments.target or generic or locations or "mlir"
    arguments.seed, arguments.backend = arguments.seed or 0, arguments.backend or "cpu"
    with use_limits(PROFILES[arguments.limits]):
        return run_command("transform:transform", arguments)


def _require_companions(given: set[str]) -> None:
    """Raise ArgumentError (PK0701) for a flag that does nothing without or beside another one."""
    for flags, needed, example in _NEEDS:
        for flag in (f"--{name.replace('_', '-')}" for name in flags.split()):
            if flag in given and given.isdisjoint(needed):
                raise ArgumentError(
                    f"{flag} does nothing without {example.partition(' ')[0]}",
                    help=f"`pirkit-opt FILE {example} {flag}`",
                )
    for (flag, mode), what in _IDLE.items():
        if {flag, mode} <= given:
            raise ArgumentError(f"{flag} does nothing beside {mode}",
                                help=f"leave it out: {what}")  # fmt: skip
    for row in _PRINTS:
        prints = [flag for flag in row if flag in given]
        if len(prints) > 1:
            raise ArgumentError(
                f"{prints[0]} and {prints[1]} print different things",
                help=f"run pirkit-opt once with {prints[0]}, once with {prints[1]}",
            )
