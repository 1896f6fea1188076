"""The ``pirkit-reduce`` command: minimizes a program that shows a bug."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pirkit.cli.arguments import ArgumentParser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import PirkitError, UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from pirkit.frontend.delta_reduce import Oracle


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
        choices=("error", "numbers"),
        help="the same error code, or wrong numbers of a pass or a kernel",
    )
    parser.add_argument("-p", "--pipeline", default="", help="passes that the oracle runs")
    parser.add_argument(
        "--backend",
        default="cpu",
        choices=("reference", "cpu", "gpu"),
        help="kernels that `numbers` compares with the reference, one by one",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of random inputs")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="N", help="stop after about that time"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="write there, atomically")
    return parser


def _run() -> int:
    arguments = _parser().parse_command_line()

    from pirkit.dialect.text import print_mlir  # noqa: PLC0415  imports xDSL
    from pirkit.frontend.delta_reduce import reduce, size  # noqa: PLC0415
    from pirkit.frontend.files import (  # noqa: PLC0415
        READERS,
        detect_format,
        read_text,
        write_file,
    )

    text = read_text(arguments.file)
    module = READERS[detect_format(text, arguments.file)](text, arguments.file)
    oracle = _oracle(module, arguments)
    found = reduce(module, oracle, arguments.seconds)
    print(
        f"{size(module)} operations became {size(found.module)} in {found.tried} trials",
        file=sys.stderr,
    )
    result = print_mlir(found.module)
    if arguments.output:
        write_file(arguments.output, result)
    else:
        sys.stdout.write(result)
    return 0


def _oracle(module: ModuleOp, arguments: argparse.Namespace) -> Oracle:
    """The oracle by name. Raises UsageError if it does not hold for the whole program."""
    from pirkit.passes import parse_pipeline  # noqa: PLC0415  imports xDSL

    parse_pipeline(arguments.pipeline)

    def code_of(trial: ModuleOp) -> str | None:
        """The code of the error, and for a kernel the files that emit it."""
        try:
            return _attempt(trial, arguments)
        except PirkitError as error:
            return error.code

    wanted = code_of(module.clone())
    if wanted is None:
        raise UsageError("there is nothing to reduce: the program shows no error")
    if arguments.oracle == "numbers" and not wanted.startswith(("PK0804", "PK0909")):
        raise UsageError(f"the numbers do not change; the program ends in {wanted}")
    return lambda trial: code_of(trial) == wanted


def _attempt(module: ModuleOp, arguments: argparse.Namespace) -> str | None:
    """Verify, run the passes and, for `numbers`, compare: what is wrong with a kernel, or None.

    Raises what else is wrong.
    """
    from pirkit.dialect.verify import verify_module  # noqa: PLC0415  imports xDSL
    from pirkit.frontend.kernel_check import check_module  # noqa: PLC0415
    from pirkit.frontend.numeric_check import NumberCheck  # noqa: PLC0415
    from pirkit.passes import run_pipeline  # noqa: PLC0415

    verify_module(module)
    if arguments.oracle == "error":
        run_pipeline(module, arguments.pipeline)
        return None
    check = NumberCheck.of(module, arguments.seed)
    run_pipeline(module, arguments.pipeline)
    check.require_equal(module, "the pipeline")
    report = check_module(module, arguments.backend, arguments.seed)
    return None if report is None else f"PK0909 {report.emitters}"


if __name__ == "__main__":
    sys.exit(main())
