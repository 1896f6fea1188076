"""The ``pirkit-reduce`` command: minimizes a program that shows a bug."""

from __future__ import annotations

import sys
from typing import Final

from pirkit.cli.arguments import ArgumentParser, natural, seconds
from pirkit.cli.commands import run_command
from pirkit.diag.entry import run_main
from pirkit.diag.errors import ArgumentError

BUILTIN: Final = ("error", "numbers", "slower")


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit-reduce",
        description="Make a program smaller as long as an oracle holds, and print it.",
    )
    parser.add_version()
    parser.add_argument("file", metavar="FILE", help="a program; - is standard input")
    parser.add_argument(
        "oracle",
        nargs="+",
        metavar="ORACLE",
        help="error: the same error code; numbers: wrong numbers of a pass or a kernel; slower:"
        " more time after the passes; or after `--` a command that exits as it does for FILE,"
        " {} being the smaller file",
    )
    parser.add_argument("-p", "--pipeline", default="", help="passes that the oracle runs")
    parser.add_load(parser)
    parser.add_argument(
        "--backend",
        default="cpu",
        choices=("reference", "cpu", "gpu"),
        help="kernels that `numbers` compares with the reference, and that `slower` times",
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of random inputs"
    )
    parser.add_argument(
        "--times", type=seconds, default=1.5, metavar="N", help="the ratio that `slower` looks for"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, metavar="N", help="stop after about that CPU time"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write to this file, atomically")
    return parser


def _run() -> int:
    parser = _parser()
    arguments = parser.parse_command_line()
    if arguments.load:
        run_command("pass_files:load_passes", arguments)
    _require_oracle(arguments.oracle, parser.given(arguments))
    return run_command("reduce_file:reduce_file", arguments)


_USED_BY: Final = {"--times": ("slower",), "--seed": ("numbers", "slower"),
                   "--backend": ("numbers", "slower")}  # fmt: skip
"""Flags of some built-in oracles."""


def _require_oracle(oracle: list[str], given: set[str]) -> None:
    """Raise ArgumentError (PK0701) for a second oracle, and a flag that this oracle ignores."""
    if oracle[0] in BUILTIN and len(oracle) > 1:
        raise ArgumentError(
            f"there are two oracles, `{oracle[0]}` and `{' '.join(oracle[1:])}`",
            help=f"it is `pirkit-reduce FILE {oracle[0]}`, or `pirkit-reduce FILE -- CMD...`",
        )
    for flag in sorted(given & _USED_BY.keys()):
        if oracle[0] not in _USED_BY[flag]:
            raise ArgumentError(
                f"{flag} does nothing for the oracle `{oracle[0]}`",
                help=f"it is for {' and '.join(f'`{name}`' for name in _USED_BY[flag])}",
            )


if __name__ == "__main__":
    sys.exit(main())
