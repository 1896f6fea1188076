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
from pirkit.diag.errors import ArgumentError, InternalError, PirkitError
from pirkit.diag.log import LOG
from pirkit.dialect.operation import location_of, span_of, spans_of, with_nested
from pirkit.dialect.text import print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.delta_reduce import Oracle, outer_operations, reduce, size
from pirkit.frontend.files import READERS, detect_format, read_text, write_file
from pirkit.frontend.kernel_check import check_module
from pirkit.frontend.kernel_report import Report
from pirkit.frontend.numeric_check import NumberCheck, expanding
from pirkit.lowering.kernel_watch import PATIENCE
from pirkit.passes import parse_pipeline, run_pipeline

_TRIALS: Final = 20
"""Trials in the given time at least, if a kernel of each never ends."""
_WRONG: Final = ("PK0804", InternalError.default_code)
"""Codes of wrong numbers, and of bugs such as plans that do not run."""


def reduce_file(arguments: argparse.Namespace) -> int:
    """Reduce the program of a file and print it; the exit code."""
    text = read_text(arguments.file)
    module = READERS[detect_format(text, arguments.file)](text, arguments.file)
    likely = set[int]()
    if arguments.oracle[0] == "slower":
        oracle = slower_oracle(module, arguments)
    elif arguments.oracle[0] in BUILTIN:
        oracle, likely = _oracle(module, arguments)
    else:
        oracle = command_oracle(module, arguments.oracle, arguments.seconds, BUILTIN)
    # Trials without outputs are expected: what passes say of them does not concern the user.
    level = LOG.level
    LOG.setLevel(logging.ERROR)
    try:
        found = reduce(module, oracle, arguments.seconds, likely)
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
    if arguments.output and arguments.output != "-":
        write_file(arguments.output, result)
    else:
        sys.stdout.write(result)
    return 0


def _oracle(module: ModuleOp, arguments: argparse.Namespace) -> tuple[Oracle, set[int]]:
    """The oracle by name, and the numbers of operations that may be enough for it.

    Raises UsageError if it does not hold for the whole program.
    """
    parse_pipeline(arguments.pipeline)
    whole = module.clone()
    for number, op in enumerate(outer_operations(whole)):
        for inner in with_nested(op):
            inner.location = location_of("", number)

    def code_of(trial: ModuleOp, symptom: str = "") -> tuple[str, Report | None]:
        """The code of the error, and for a kernel the report on it."""
        try:
            report = _attempt(trial, arguments, symptom)
            return report.symptom if report else "", report
        except PirkitError as error:
            return error.code, None
        except Exception as error:  # a bug, which is what is reduced, or another one
            return f"{InternalError.default_code} {type(error).__name__}", None

    wanted, report = code_of(whole)
    if not wanted:
        raise ArgumentError(
            "there is nothing to reduce: the program shows no error",
            help="name the passes that show it with -p, or test with a command: `-- CMD...`",
        )
    if arguments.oracle[0] == "numbers" and report is None and wanted[:6] not in _WRONG:
        raise ArgumentError(
            f"the numbers do not change; the program ends in {wanted}",
            help="the oracle `error` reduces that",
        )
    # The passes have changed `whole`, in which the wrong kernel has the places of its operations.
    first = report.faults[0].span if report and report.faults else None
    wrong = [op for op in whole.walk() if first and span_of(op) == first]
    likely = {span.line for op in wrong for span in spans_of(op)}
    return lambda trial: code_of(trial, wanted)[0] == wanted, likely


def _attempt(module: ModuleOp, arguments: argparse.Namespace, symptom: str) -> Report | None:
    """Verify, run the passes and, for `numbers`, compare: the report on a wrong kernel, or None.

    Only what can have the ``symptom`` is compared, if there is one. Raises what else is wrong.
    """
    verify_module(module)
    if arguments.oracle[0] == "error":
        run_pipeline(module, arguments.pipeline)
        return None
    source, passes = module.clone(), expanding(module, arguments.pipeline)
    if symptom in ("", "PK0804"):
        check = NumberCheck.of(module, arguments.seed)
        run_pipeline(module, passes)
        check.require_equal(module, "the pipeline")
    else:
        run_pipeline(module, passes)
    if symptom == "PK0804":
        return None
    patience = max(1.0, min(PATIENCE, arguments.seconds / _TRIALS))
    return check_module(module, arguments.backend, arguments.seed, patience, source, sought=symptom)
