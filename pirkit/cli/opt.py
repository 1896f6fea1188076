"""The ``pirkit-opt`` command: reads a program, runs passes, writes it in any format."""

from __future__ import annotations

from pirkit.cli.commands import run_command
from pirkit.cli.opt_flags import FORMATS, TARGETS, make_parser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import UsageError
from pirkit.diag.limits import PROFILES, use_limits

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
        raise UsageError("give a file, or - for standard input", help="see `pirkit-opt --help`")
    if arguments.check not in (None, "", "each"):
        raise UsageError("it is --check or --check=each", code="PK0701")
    with use_limits(PROFILES[arguments.limits]):
        return run_command("transform:transform", arguments)
