"""``pirkit-reduce``: makes the program of a file smaller while its oracle holds."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from pirkit.cli.reduce import BUILTIN
from pirkit.cli.reduce_command import command_oracle
from pirkit.cli.slow_oracle import slower_oracle
from pirkit.diag.errors import ArgumentError, PirkitError
from pirkit.diag.log import LOG
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.delta_reduce import Oracle, reduce, size
from pirkit.frontend.files import READERS, detect_format, read_text, write_file
from pirkit.frontend.kernel_check import check_module
from pirkit.frontend.numeric_check import NumberCheck, expanding
from pirkit.lowering.kernel_watch import PATIENCE
from pirkit.passes import parse_pipeline, run_pipeline

_TRIALS: Final = 20
"""Trials in the given time at least, if a kernel of each never ends."""


def reduce_file(arguments: argparse.Namespace) -> int:
    """Reduce the program of a file and print it; the exit code."""
    text = read_text(arguments.file)
    module = READERS[detect_format(text, arguments.file)](text, arguments.file)
    if arguments.oracle[0] == "slower":
        oracle = slower_oracle(module, arguments)
    elif arguments.oracle[0] in BUILTIN:
        oracle = _oracle(module, arguments)
    else:
        oracle = command_oracle(module, arguments.oracle, arguments.seconds, BUILTIN)
    # Trials without outputs are expected: what passes say of them does not concern the user.
    level = LOG.level
    LOG.setLevel(logging.ERROR)
    try:
        found = reduce(module, oracle, arguments.seconds)
    finally:
        LOG.setLevel(level)
    print(
        f"{size(module)} operations became {size(found.module)} in {found.tried} trials",
        file=sys.stderr,
    )
    if not list(found.module.ops):
        print(
            "note: the oracle holds for an empty module, so its answer does not depend on FILE",
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
    parse_pipeline(arguments.pipeline)

    def code_of(trial: ModuleOp) -> str | None:
        """The code of the error, and for a kernel the files that emit it."""
        try:
            return _attempt(trial, arguments)
        except PirkitError as error:
            return error.code

    wanted = code_of(module.clone())
    if wanted is None:
        raise ArgumentError(
            "there is nothing to reduce: the program shows no error",
            help="name the passes that show it with -p, or test with a command: `-- CMD...`",
        )
    if arguments.oracle[0] == "numbers" and not wanted.startswith(("PK0804", "PK0909")):
        raise ArgumentError(
            f"the numbers do not change; the program ends in {wanted}",
            help="the oracle `error` reduces that",
        )
    return lambda trial: code_of(trial) == wanted


def _attempt(module: ModuleOp, arguments: argparse.Namespace) -> str | None:
    """Verify, run the passes and, for `numbers`, compare: what is wrong with a kernel, or None.

    Raises what else is wrong.
    """
    verify_module(module)
    if arguments.oracle[0] == "error":
        run_pipeline(module, arguments.pipeline)
        return None
    check = NumberCheck.of(module, arguments.seed)
    source = module.clone()
    run_pipeline(module, expanding(module, arguments.pipeline))
    check.require_equal(module, "the pipeline")
    patience = max(1.0, min(PATIENCE, arguments.seconds / _TRIALS))
    report = check_module(module, arguments.backend, arguments.seed, patience, source, ranks=False)
    return None if report is None else f"PK0909 {report.emitters}"
