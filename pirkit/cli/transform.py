"""What ``pirkit-opt FILE`` does: reads each part of a file, runs the passes, writes the result."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from xdsl.dialects import builtin as mlir

from pirkit.cli.expect import differences, expected_in, found_in, require_expected
from pirkit.cli.report import PartReport, page
from pirkit.cli.reporting import chrome_trace
from pirkit.cli.split_input import parts_of
from pirkit.cli.torch_archives import read_source
from pirkit.diag.errors import InternalError, PirkitError, UsageError
from pirkit.diag.source import register_source
from pirkit.dialect.op_ids import give_ids
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.files import WRITERS, parse, write_file

if TYPE_CHECKING:
    from pirkit.passes import PipelineResult


def transform(arguments: argparse.Namespace) -> int:
    """Read the parts of the file, transform each, and print it; the exit code."""
    name = "<stdin>" if arguments.file == "-" else arguments.file
    text = read_source(arguments.file)
    if arguments.file == "-":
        register_source(name, text)
    if arguments.run_reproducer:
        _take_settings(arguments, text, name)
    parts = list(parts_of(text, arguments.split_input_file))
    if arguments.bisect:
        from pirkit.cli.bisect import bisect_parts  # noqa: PLC0415  imports all kernels

        return bisect_parts([_read(part, name, arguments) for part in parts], arguments)
    if arguments.expect_diagnostics:
        return _expect(parts, name, arguments)
    printed: list[str] = []
    results: list[PipelineResult] = []
    reports: list[PartReport] = []
    for part in parts:
        report = PartReport() if arguments.report else None
        module, result = _one(part, name, arguments, report)
        results += [result] if result is not None else []
        reports += [report] if report is not None else []
        printed.append(_print(module, arguments))
    if arguments.report:
        title = f"{name}: {arguments.pipeline}"
        write_file(arguments.report, page(title, list(zip(reports, results, strict=False))))
    if arguments.timing:
        write_file(arguments.timing, chrome_trace([r.timings for r in results]))
    entire = "// -----\n".join(printed)
    if arguments.output:
        write_file(arguments.output, entire)
    else:
        sys.stdout.write(entire)
    return 0


def _take_settings(arguments: argparse.Namespace, text: str, name: str) -> None:
    if arguments.pipeline:
        raise UsageError("a reproducer names its own pipeline: leave out -p", code="PK0701")
    from pirkit.cli.reproducer import settings_of  # noqa: PLC0415  imports the passes

    settings = settings_of(text, name)
    arguments.pipeline = settings["pipeline"]
    arguments.seed = int(settings.get("seed", 0))
    arguments.check = "each" if settings.get("check") == "yes" else arguments.check


def _read(part: str, name: str, arguments: argparse.Namespace) -> mlir.ModuleOp:
    module = parse(part, format=arguments.format, name=name)
    _number(module, arguments)
    return module


def _number(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    if arguments.ids:
        give_ids(module)


def _one(
    part: str, name: str, arguments: argparse.Namespace, report: PartReport | None = None
) -> tuple[mlir.ModuleOp, PipelineResult | None]:
    """Read one part and run the passes over it."""
    module = _read(part, name, arguments)
    if not arguments.pipeline:
        _check_kernels(module, arguments)
        return module, None
    from pirkit.cli.pipeline_run import run_passes  # noqa: PLC0415  imports all passes

    if report is not None:
        report.begin(module)
    watchers = () if report is None else (report,)
    result = run_passes(module, arguments, lambda: _read(part, name, arguments), watchers)
    _check_kernels(module, arguments)
    _number(module, arguments)  # operations that stand in for none
    return module, result


def _check_kernels(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    """With ``--check``, raise for the first kernel of the backend that computes wrong numbers."""
    if arguments.check is None:
        return
    from pirkit.frontend.kernel_check import check_module  # noqa: PLC0415  imports all kernels

    report = check_module(module, arguments.backend, arguments.seed)
    if report is not None:
        report.require_right()


def _expect(parts: list[str], name: str, arguments: argparse.Namespace) -> int:
    """Compare the diagnostics of all parts with the comments; nothing is printed if they agree."""
    wrong: list[str] = []
    for part in parts:
        error, remarks = None, ()
        try:
            module, result = _one(part, name, arguments)
            remarks = result.remarks if result is not None else ()
            _print(module, arguments)
        except PirkitError as caught:
            error = caught
        wrong += differences(list(expected_in(part)), found_in(error, remarks))
    require_expected(wrong)
    return 0


def _print(module: mlir.ModuleOp, arguments: argparse.Namespace) -> str:
    if arguments.verify_roundtrip:
        _verify_roundtrip(module)
    if arguments.why_not:
        return _why_not(module, arguments.why_not)
    text = WRITERS[arguments.target](module)
    if arguments.why_kernel:
        from pirkit.frontend.lowered_text import explain_kernels  # noqa: PLC0415  as above

        text += explain_kernels(module)
    return text if text.endswith("\n") else text + "\n"


def _why_not(module: mlir.ModuleOp, question: str) -> str:
    from pirkit.lowering.fusion.print import why_not_fused  # noqa: PLC0415  as above

    about, _, values = question.partition(":")
    names = [name.strip().removeprefix("%") for name in values.split(",")]
    if about != "fuse" or len(names) != 2 or not all(names):
        raise UsageError("it is --why-not fuse:%A,%B", code="PK0701")
    return why_not_fused(module, names[0], names[1]) + "\n"


def _verify_roundtrip(module: mlir.ModuleOp) -> None:
    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        if print_mlir(parse_mlir(text, "<roundtrip>"), generic=generic) != text:
            form = "generic" if generic else "readable"
            raise InternalError(f"the {form} form of the program does not round-trip")
