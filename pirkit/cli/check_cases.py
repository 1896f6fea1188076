"""``pirkit-run --check``: compares programs and captured cases with the reference."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pirkit.cli.input_files import Arrays, is_random, read_inputs, seed_of
from pirkit.cli.reporting import json_text
from pirkit.cli.torch_archives import load_program
from pirkit.diag.errors import ArgumentError, PirkitError
from pirkit.diag.progress import track
from pirkit.diag.span import Span
from pirkit.frontend.cases import Report, check_case
from pirkit.frontend.compile import compile, run_passes
from pirkit.frontend.kernel_check import check_kernels, check_whole
from pirkit.frontend.numeric_check import expanding
from pirkit.lowering.prim import default_pipeline


def check_cases(arguments: argparse.Namespace) -> int:
    """Check captured cases and print a table; exit code 1 if one fails."""
    if not arguments.paths:
        raise ArgumentError(
            "--check needs programs, or the folders of captured cases",
            help="`pirkit-run --check net.mlir` compares each kernel with the reference",
        )
    folders = list(_folders(arguments.paths))
    if not folders:
        raise ArgumentError(
            f"there is nothing to check: {arguments.paths[0]} is no program and no folder",
            span=Span(arguments.paths[0]),
            help="a program is a file .mlir, .txt, .json or .onnx; a captured case is a folder",
        )
    tasks = [(path, arguments.source, arguments.pipeline, arguments.backend) for path in folders]
    reports: list[Report] = []
    if arguments.jobs > 1 and len(tasks) > 1:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            reports.extend(track(pool.map(_check_one, tasks), "checking", total=len(tasks)))
    else:
        reports.extend(track(map(_check_one, tasks), "checking", total=len(tasks)))
    if arguments.json:
        print(json_text([vars(report) for report in reports], indent=1))
    else:
        _print_reports(reports)
    return 1 if any(report.failed for report in reports) else 0


def check_programs(arguments: argparse.Namespace) -> int:
    """Check each instruction of programs on a backend; exit code 1 if one is wrong."""
    given: str = arguments.inputs or "random:0"
    is_drawn = is_random(given) and "," not in given
    seed = seed_of(given) if is_drawn else 0
    wanted = arguments.pipeline
    pipeline = default_pipeline(arguments.backend) if wanted is None else wanted
    is_wrong = False
    rows: list[dict[str, object]] = []
    for path in arguments.paths:
        program = load_program(path, format=arguments.format, params=arguments.params)
        inputs: Arrays = {}
        if not is_drawn:
            exe = compile(program, backend="reference", pipeline="", entry=arguments.entry)
            inputs = read_inputs(given, exe, arguments.params)
        passes = expanding(program.module, pipeline)
        lowered = run_passes(program, passes) if passes else program
        entry = lowered.entry(arguments.entry)
        report = check_kernels(entry, arguments.backend, seed, inputs, lowered.params)
        entire = None
        if arguments.backend == "cpu" and arguments.entry is None and not report.ended:
            entire = check_whole(program, seed, inputs)
        lines = [*report.lines()]
        if entire is not None:
            lines.append(f"@{entry.symbol} as one native call: {entire}")
        if not arguments.json:
            print("\n".join(lines))
        right = not report and entire is None
        rows.append({"program": path, "entry": entry.symbol, "right": right, "report": lines})
        is_wrong = is_wrong or bool(report) or entire is not None
    if arguments.json:
        print(json_text(rows, indent=1))
    return 1 if is_wrong else 0


def _folders(paths: list[str]) -> Iterator[str]:
    """The paths without plain files, which ``corpus/*`` also matches; each one is reported."""
    for path in paths:
        if os.path.isfile(path):
            print(f"skipping {path}: a case is a folder", file=sys.stderr)
        else:
            yield path


def _check_one(task: tuple[str, str, str | None, str]) -> Report:
    """One case; an error of the case is a row of the table, not the end of the command."""
    path, source, pipeline, backend = task
    try:
        return check_case(path, source, pipeline=pipeline, backend=backend)
    except PirkitError as error:
        return Report(Path(path).resolve().name, "FAIL", message=str(error))


def _print_reports(reports: list[Report]) -> None:
    groups = list(dict.fromkeys(g for report in reports for g in report.errors))
    table = Table(box=None, pad_edge=False)
    for heading in ("case", "status"):
        table.add_column(heading, no_wrap=True)
    for heading in (*groups, "tolerance", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    colours = {"pass": "green", "FAIL": "red", "skip": "yellow"}
    for report in reports:
        errors = [f"{report.errors[g]:.1e}" if g in report.errors else "" for g in groups]
        table.add_row(
            Text(report.name),
            Text(report.status, style=colours[report.status]),
            *errors,
            f"{report.tolerance:.0e}" if report.tolerance else "",
            f"{report.seconds:.2f}",
        )
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(table)
    for report in reports:
        if report.message:
            console.print(Text(f"{report.status} {report.name}: {report.message}"), soft_wrap=True)
    passed = sum(r.status == "pass" for r in reports)
    skipped = sum(r.status == "skip" for r in reports)
    failed = sum(r.failed for r in reports)
    console.print(f"{passed} passed, {failed} failed, {skipped} skipped")
