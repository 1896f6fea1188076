"""The ``pirkit-lsp`` command: a language server for programs, over standard input and output."""

from __future__ import annotations

from pirkit.cli.arguments import ArgumentParser
from pirkit.cli.commands import run_command
from pirkit.diag.entry import run_main


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    return run_command("language_server:serve", _parser().parse_args())


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit-lsp",
        description="A server of the Language Server Protocol, which editors start: errors as you "
        "type, documentation of ops, types, definitions, uses, completion, and an outline.",
    )
    parser.add_version()
    parser.add_load(parser)
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="talk over standard input and output, as it always does",
    )
    return parser
