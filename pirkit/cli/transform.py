"""``pirkit-opt FILE``: reads each part of a file, runs the passes, writes the result."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from xdsl.dialects import builtin as mlir

from pirkit.cli.expect import differences, expected_in, found_in, require_expected
from pirkit.cli.reporting import chrome_trace
from pirkit.cli.reproducer_settings import settings_of
from pirkit.cli.torch_archives import load_program, read_source
from pirkit.diag.errors import ArgumentError, InternalError, PirkitError
from pirkit.diag.source import register_source
from pirkit.dialect.op_ids import give_ids
from pirkit.dialect.operation import ProgramOp, with_nested
from pirkit.dialect.program import Program
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.files import WRITERS, parse, save, write_file

if TYPE_CHECKING:
    from pirkit.cli.report.recording import PartReport
    from pirkit.passes import PipelineResult

_SPLIT: Final = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


def transform(arguments: argparse.Namespace) -> int:
    """Read the parts of the file, transform each, and print it; the exit code."""
    name = "<stdin>" if arguments.file == "-" else arguments.file
    text = read_source(arguments.file)
    if arguments.file == "-":
        register_source(name, text)
    if arguments.run_reproducer:
        _take_settings(arguments, text, name)
    parts = list(parts_of(text, arguments.split_input_file))
    if len(parts) > 1 and (arguments.dump or _is_model(arguments)):
        raise ArgumentError(
            f"{'--dump' if arguments.dump else '-t onnx'} is for one program, and there are"
            f" {len(parts)} parts",
            help="leave out --split-input-file, and run pirkit-opt for each part",
        )
    if arguments.bisect:
        from pirkit.cli.bisect import bisect_parts  # noqa: PLC0415  imports all kernels

        return bisect_parts([_read(part, name, arguments) for part in parts], arguments)
    if arguments.expect_diagnostics:
        return _expect(parts, name, arguments)
    printed: list[str] = []
    results: list[PipelineResult] = []
    reports: list[PartReport] = []
    for part in parts:
        report = _late("report.command").PartReport() if arguments.report else None
        module, result = _one(part, name, arguments, report)
        results += [result] if result is not None else []
        reports += [report] if report is not None else []
        printed.append(_print(module, arguments) if not _is_model(arguments) else "")
        if _is_model(arguments):
            _save_model(module, arguments)
    if arguments.report:
        title = f"{name}: {arguments.pipeline}"
        pages = list(zip(reports, results, strict=False))
        write_file(arguments.report, _late("report.command").page(title, pages))
    if arguments.timing:
        write_file(arguments.timing, chrome_trace([r.timings for r in results]))
    entire = "// -----\n".join(printed)
    if _is_model(arguments):
        return 0
    if arguments.output and arguments.output != "-":
        write_file(arguments.output, entire)
    else:
        sys.stdout.write(entire)
    return 0


def _is_model(arguments: argparse.Namespace) -> bool:
    """Whether a file of ONNX is written, which has weights, rather than its text."""
    return arguments.target == "onnx" and str(arguments.output or "").endswith(".onnx")


def _save_model(module: mlir.ModuleOp, arguments: argparse.Namespace) -> None:
    program = Program(module)
    if arguments.file != "-":
        program.params = load_program(arguments.file).params
    save(program, arguments.output)


def _take_settings(arguments: argparse.Namespace, text: str, name: str) -> None:
    if arguments.pipeline:
        raise ArgumentError("a reproducer names its own pipeline",
                         help="leave out -p, or --run-reproducer to run others")  # fmt: skip
    settings = settings_of(text, name)
    arguments.pipeline = settings["pipeline"]
    arguments.seed = int(settings.get("seed", 0))
    arguments.check = "each" if settings.get("check") == "yes" else arguments.check


def _read(part: str, name: str, arguments: argparse.Namespace) -> mlir.ModuleOp:
    module = parse(
        part,
        format=arguments.format,
        name=name,
        outputs=[word for word in arguments.outputs.split(",") if word],
    )
    if arguments.entry:
        entry = Program(module, source=name).entry(arguments.entry)
        for other in [op for op in module.ops if op is not entry]:
            other.detach()
            other.erase()
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
    result = None
    if arguments.pipeline:
        from pirkit.cli.pipeline_run import run_passes  # noqa: PLC0415  imports all passes

        if report is not None:
            report.begin(module)
        result = run_passes(module, arguments, lambda: _read(part, name, arguments), report)
        if report is not None:
            report.end(module)
        _number(module, arguments)  # operations that passes have added
    if arguments.check is not None:
        _late("kernel_views").check_kernels(module, arguments)
    return module, result


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
        return _late("kernel_views").why_not(module, arguments.why_not)
    if arguments.count:
        return _count(module, as_json=arguments.json)
    text = WRITERS[arguments.target](module)
    if arguments.why_kernel:
        text += _late("kernel_views").explain_kernels(module)
    return text if text.endswith("\n") else text + "\n"


def _count(module: mlir.ModuleOp, *, as_json: bool) -> str:
    """How often each op occurs in each program, the most frequent first."""
    counts = {
        program.symbol: Counter(op.name for op in with_nested(program) if op is not program)
        for program in module.ops
        if isinstance(program, ProgramOp)
    }
    if as_json:
        return json.dumps(counts) + "\n"
    lines: list[str] = []
    for name, ops in counts.items():
        lines += [f"{ops.total():>8,}  @{name}"]
        lines += [f"{number:>8,}  {op}" for op, number in ops.most_common()]
    return "".join(f"{line}\n" for line in lines)


def _late(name: str) -> ModuleType:
    """A module of the commands that imports the code generator, for options that need it."""
    return import_module(f"pirkit.cli.{name}")


def _verify_roundtrip(module: mlir.ModuleOp) -> None:
    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        if print_mlir(parse_mlir(text, "<roundtrip>"), generic=generic) != text:
            form = "generic" if generic else "readable"
            raise InternalError(f"the {form} form of the program does not round-trip")


def parts_of(text: str, split: bool) -> Iterator[str]:
    """The text or its parts between lines ``// -----``.

    Parts are padded with blank lines, so that line numbers agree with the file.
    """
    if not split:
        yield text
        return
    start = 0
    for m in (*_SPLIT.finditer(text), None):
        end = len(text) if m is None else m.start()
        if m is not None and _is_in_string(text[start:end]):
            continue
        yield "\n" * text.count("\n", 0, start) + text[start:end]
        start = end if m is None else m.end()


def _is_in_string(part: str) -> bool:
    """True if a string is open at the end: only those of Paddle's text may hold line breaks."""
    quotes = part.count('"') - part.count('\\"')
    return part.lstrip().startswith("{") and quotes % 2 == 1
