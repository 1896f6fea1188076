"""The ``pirkit-opt`` command: reads a program, runs passes, writes it in any format."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pirkit.cli.opt_flags import FORMATS, TARGETS, make_parser
from pirkit.cli.split_input import parts_of
from pirkit.diag.entry import run_main
from pirkit.diag.errors import InternalError, PirkitError, UsageError
from pirkit.diag.limits import PROFILES, use_limits

if TYPE_CHECKING:
    from xdsl.dialects import builtin as mlir

    from pirkit.cli.report import PartReport
    from pirkit.passes import PipelineResult

__all__ = ["FORMATS", "TARGETS", "main"]


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = make_parser().parse_command_line()
    listing = _listing(arguments)
    if listing is not None:
        return listing
    if arguments.file is None:
        raise UsageError("give a file, or - for standard input", help="see `pirkit-opt --help`")
    if arguments.check not in (None, "", "each"):
        raise UsageError("it is --check or --check=each", code="PK0701")
    with use_limits(PROFILES[arguments.limits]):
        return _transform(arguments)


def _listing(arguments: argparse.Namespace) -> int | None:
    """Answer a request for information; None if there is none."""
    if arguments.list_ops:
        from pirkit.cli.coverage import list_missing, list_ops  # noqa: PLC0415  imports all ops

        if arguments.missing:
            return list_missing(arguments.json)
        if arguments.primitives:
            from pirkit.cli.primitive_manifest import list_primitives  # noqa: PLC0415  imports all rules

            list_primitives(arguments.json)
            return 0
        list_ops(arguments.json)
    elif arguments.list_passes:
        from pirkit.cli.passes_help import list_passes  # noqa: PLC0415  imports all passes

        list_passes(arguments.json)
    elif arguments.help_pass is not None:
        from pirkit.cli.passes_help import manual  # noqa: PLC0415  imports all passes

        print(manual(arguments.help_pass))
    else:
        return None
    return 0


def _transform(arguments: argparse.Namespace) -> int:
    from pirkit.cli.torch_archives import read_source  # noqa: PLC0415  imports xDSL
    from pirkit.frontend.files import write_file  # noqa: PLC0415  imports xDSL

    name = "<stdin>" if arguments.file == "-" else arguments.file
    text = read_source(arguments.file)
    if arguments.file == "-":
        from pirkit.diag.source import register_source  # noqa: PLC0415

        register_source(name, text)
    if arguments.run_reproducer:
        _take_settings(arguments, text, name)
    parts = list(parts_of(text, arguments.split_input_file))
    if arguments.bisect:
        return _bisect(parts, name, arguments)
    if arguments.expect_diagnostics:
        return _expect(parts, name, arguments)
    printed: list[str] = []
    results: list[PipelineResult] = []
    reports: list[PartReport] = []
    for part in parts:
        report = _new_report() if arguments.report else None
        module, result = _one(part, name, arguments, report)
        results += [result] if result is not None else []
        reports += [report] if report is not None else []
        printed.append(_print(module, arguments))
    if arguments.report:
        from pirkit.cli.report import page  # noqa: PLC0415  only for --report

        title = f"{name}: {arguments.pipeline}"
        write_file(arguments.report, page(title, list(zip(reports, results, strict=False))))
    if arguments.timing:
        from pirkit.cli.reporting import chrome_trace  # noqa: PLC0415

        write_file(arguments.timing, chrome_trace([r.timings for r in results]))
    entire = "// -----\n".join(printed)
    if arguments.output:
        write_file(arguments.output, entire)
    else:
        sys.stdout.write(entire)
    return 0


def _new_report() -> PartReport:
    from pirkit.cli.report import PartReport  # noqa: PLC0415  only for --report

    return PartReport()


def _take_settings(arguments: argparse.Namespace, text: str, name: str) -> None:
    from pirkit.cli.reproducer import settings_of  # noqa: PLC0415  only for --run-reproducer

    if arguments.pipeline:
        raise UsageError("a reproducer names its own pipeline: leave out -p", code="PK0701")
    settings = settings_of(text, name)
    arguments.pipeline = settings["pipeline"]
    arguments.seed = int(settings.get("seed", 0))
    arguments.check = "each" if settings.get("check") == "yes" else arguments.check


def _read(part: str, name: str, arguments: argparse.Namespace) -> mlir.ModuleOp:
    from pirkit.frontend.files import parse  # noqa: PLC0415  imports xDSL

    module = parse(part, format=arguments.format, name=name)
    _number(module, arguments)
    return module


def _number(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    if arguments.ids:
        from pirkit.dialect.op_ids import give_ids  # noqa: PLC0415  only for --ids

        give_ids(module)


def _one(
    part: str, name: str, arguments: argparse.Namespace, report: PartReport | None = None
) -> tuple[mlir.ModuleOp, PipelineResult | None]:
    """Read one part and run the passes over it."""
    module = _read(part, name, arguments)
    if not arguments.pipeline:
        _check_kernels(module, arguments)
        return module, None
    from pirkit.cli.pipeline_run import run_passes  # noqa: PLC0415  not needed to print a program

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
    from pirkit.frontend.kernel_check import check_module  # noqa: PLC0415  runs programs

    report = check_module(module, arguments.backend, arguments.seed)
    if report is not None:
        report.require_right()


def _bisect(parts: list[str], name: str, arguments: argparse.Namespace) -> int:
    """Print the pass or the kernel that breaks each part; exit code 3 if there is one."""
    from pirkit.frontend.bisection import bisect  # noqa: PLC0415
    from pirkit.frontend.files import parse  # noqa: PLC0415
    from pirkit.passes import parse_pipeline  # noqa: PLC0415

    passes = parse_pipeline(arguments.pipeline)
    if not passes:
        raise UsageError("--bisect needs a pipeline: -p PASSES", code="PK0701")
    found: list[str | None] = []
    for part in parts:
        module = parse(part, format=arguments.format, name=name)
        culprit = bisect(module, passes, arguments.seed)
        found.append(str(culprit) if culprit else _wrong_kernel(module, arguments))
    nothing = "no pass breaks the program, and no kernel computes wrong numbers"
    print("\n// -----\n".join(text or nothing for text in found))
    return 3 if any(found) else 0


def _wrong_kernel(module: mlir.ModuleOp, arguments: argparse.Namespace) -> str | None:
    """What is wrong behind the pipeline on the backend, or None."""
    from pirkit.frontend.kernel_check import check_module  # noqa: PLC0415  runs programs
    from pirkit.passes import run_pipeline  # noqa: PLC0415

    run_pipeline(module, arguments.pipeline)
    report = check_module(module, arguments.backend, arguments.seed)
    if report is None:
        return None
    return "\n".join(("no pass breaks the program", *report.lines(arguments.show_kernel)))


def _expect(parts: list[str], name: str, arguments: argparse.Namespace) -> int:
    """Compare the diagnostics of all parts with the comments; nothing is printed if they agree."""
    from pirkit.cli.expect import (  # noqa: PLC0415  only for --expect-diagnostics
        differences,
        expected_in,
        found_in,
        require_expected,
    )

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
    from pirkit.frontend.files import WRITERS  # noqa: PLC0415

    if arguments.verify_roundtrip:
        _verify_roundtrip(module)
    if arguments.why_not:
        return _why_not(module, arguments.why_not)
    text = WRITERS[arguments.target](module)
    if arguments.why_kernel:
        from pirkit.frontend.files import explain_kernels  # noqa: PLC0415

        text += explain_kernels(module)
    return text if text.endswith("\n") else text + "\n"


def _why_not(module: mlir.ModuleOp, question: str) -> str:
    from pirkit.lowering.fusion.print import why_not_fused  # noqa: PLC0415  only for --why-not

    about, _, values = question.partition(":")
    names = [name.strip().removeprefix("%") for name in values.split(",")]
    if about != "fuse" or len(names) != 2 or not all(names):
        raise UsageError("it is --why-not fuse:%A,%B", code="PK0701")
    return why_not_fused(module, names[0], names[1]) + "\n"


def _verify_roundtrip(module: mlir.ModuleOp) -> None:
    from pirkit.dialect.text import parse_mlir, print_mlir  # noqa: PLC0415

    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        if print_mlir(parse_mlir(text, "<roundtrip>"), generic=generic) != text:
            form = "generic" if generic else "readable"
            raise InternalError(f"the {form} form of the program does not round-trip")
