"""The ``pirkit-reduce`` command: minimizes a program that shows a bug."""

from __future__ import annotations

import sys

from pirkit.cli.arguments import ArgumentParser, natural, seconds
from pirkit.cli.commands import run_command
from pirkit.diag.entry import run_main


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
        " more time behind the passes; or behind `--` a command that exits as it does for FILE,"
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
        "--times", type=seconds, default=1.5, metavar="N", help="what `slower` calls slower"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=60.0, metavar="N", help="stop after about that time"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write there, atomically")
    return parser


def _run() -> int:
    arguments = _parser().parse_command_line()
    if arguments.load:
        run_command("pass_files:load_passes", arguments)
    return run_command("reduce_file:reduce_file", arguments)


if __name__ == "__main__":
    sys.exit(main())
