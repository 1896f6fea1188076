"""The ``pirkit-run`` command: runs programs, and checks captured cases against Paddle's numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from pirkit.cli.arguments import ArgumentParser
from pirkit.diag.entry import run_main
from pirkit.diag.errors import UsageError

if TYPE_CHECKING:
    from pirkit.frontend.cases import Report
    from pirkit.runtime.executor import Executable


FUSED_BY: Final = ("native", "nest", "interpret")
PROGRAMS: Final = (".mlir", ".txt", ".json")


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    arguments = _parser().parse_args()
    if arguments.check and arguments.paths and all(map(_is_program, arguments.paths)):
        return _check_programs(arguments)
    if arguments.check:
        return _check(arguments)
    if len(arguments.paths) != 1:
        raise UsageError("give one program, or --check and the folders of cases")
    return _run_program(arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit-run",
        description="Run a program, or check captured cases against the numbers Paddle computed.",
    )
    parser.add_version()
    parser.add_argument("paths", nargs="*", metavar="PROGRAM|DIR", help="a program, or cases")
    both = parser.add_argument_group("how")
    both.add_argument(
        "-p", "--pipeline", help="passes to apply first: @default, or @simplify but on the CPU"
    )
    both.add_argument(
        "--backend", default="cpu", choices=("reference", "cpu", "gpu"), help="kernels to run"
    )
    both.add_argument(
        "--fused", choices=FUSED_BY, help="what runs fused kernels; the others are interpreters"
    )
    both.add_argument("--json", action="store_true", help="print JSON instead of a table")
    run = parser.add_argument_group("running a program")
    run.add_argument("-f", "--format", default="auto", help="format of the program")
    run.add_argument("--params", metavar="P", help="weights: .pdiparams, .npz or .safetensors")
    run.add_argument("--inputs", metavar="I", help="inputs: .npz, or random:SEED")
    run.add_argument("--outputs", metavar="O", help="write the outputs to this .npz")
    run.add_argument("--entry", metavar="NAME", help="program of the module to run")
    run.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times")
    run.add_argument("--threads", type=int, metavar="N", help="threads of one run")
    run.add_argument("--no-fallback", action="store_true", help="refuse ops the device cannot run")
    run.add_argument("--trace", action="store_true", help="print each instruction with its time")
    run.add_argument("--timing", action="store_true", help="print how long the runs took")
    check = parser.add_argument_group("checking cases")
    check.add_argument(
        "--check",
        action="store_true",
        help="compare with the reference, each kernel of a program; folders are captured cases",
    )
    check.add_argument(
        "--from",
        dest="source",
        default="main",
        choices=("main", "split", "json"),
        help="main: the training program, differentiated by pirkit; split: Paddle's forward and "
        "backward programs; json: the inference export",
    )
    check.add_argument("--jobs", type=int, default=1, metavar="N", help="processes to use")
    return parser


# --- running a program ---------------------------------------------------------------------------


def _run_program(arguments: argparse.Namespace) -> int:
    from pirkit.cli.torch_archives import load_program  # noqa: PLC0415
    from pirkit.frontend.arrays import read_npz, write_npz  # noqa: PLC0415  not for --version
    from pirkit.frontend.compile import compile  # noqa: PLC0415
    from pirkit.runtime.native.compile_stats import COMPILE_STATS  # noqa: PLC0415

    start = time.perf_counter()
    program = load_program(arguments.paths[0], format=arguments.format, params=arguments.params)
    exe = compile(
        program,
        backend=arguments.backend,
        pipeline=arguments.pipeline,
        entry=arguments.entry,
        threads=arguments.threads,
        fallback=not arguments.no_fallback,
        fused=arguments.fused,
    )
    compiled = time.perf_counter() - start
    given: str = arguments.inputs or ""
    if given.startswith("random:"):
        inputs = _random_inputs(exe, given.removeprefix("random:"))
    else:
        inputs = read_npz(given) if given else {}
    outputs: dict[str, Any] = {}
    times: list[float] = []
    for _ in range(max(arguments.repeat, 1)):
        begin = time.perf_counter()
        outputs = exe.run(inputs)
        times.append(time.perf_counter() - begin)
    if arguments.outputs:
        write_npz(arguments.outputs, outputs)
    if arguments.timing:
        print(
            f"compile {compiled:.3f} s, run median {median(times):.6f} s of {len(times)}\n"
            f"native code: {COMPILE_STATS}",
            file=sys.stderr,
        )
    if arguments.trace:
        print(exe.trace(inputs), end="", file=sys.stderr)
    _print_outputs(outputs, arguments.json)
    return 0


def _random_inputs(exe: Executable, seed: str) -> dict[str, Any]:
    """Random inputs, and random weights if the program has none."""
    from pirkit.frontend.random_inputs import (  # noqa: PLC0415  not for --version
        random_inputs,
        random_weights,
    )

    if not seed.isdigit():
        raise UsageError(f"--inputs random:SEED needs a number, not {seed!r}")
    exe.params = {**random_weights(exe.plan.params, int(seed)), **exe.params}
    return random_inputs(exe.plan.inputs, int(seed))


def _print_outputs(outputs: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: value.tolist() for name, value in outputs.items()}))
        return
    for name, value in outputs.items():
        print(f"{name}: {value.dtype}{list(value.shape)}")
        print(value)


# --- checking cases ------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace) -> int:
    from pirkit.diag.progress import track  # noqa: PLC0415  not for --version

    if not arguments.paths:
        raise UsageError("--check needs the folders of captured cases")
    tasks = [
        (path, arguments.source, arguments.pipeline, arguments.backend)
        for path in _folders(arguments.paths)
    ]
    reports: list[Report] = []
    if arguments.jobs > 1 and len(tasks) > 1:
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

        with ProcessPoolExecutor(arguments.jobs) as pool:
            reports.extend(track(pool.map(_check_one, tasks), "checking", total=len(tasks)))
    else:
        reports.extend(track(map(_check_one, tasks), "checking", total=len(tasks)))
    if arguments.json:
        print(json.dumps([vars(report) for report in reports], indent=1))
    else:
        _print_reports(reports)
    return 1 if any(report.failed for report in reports) else 0


def _is_program(path: str) -> bool:
    return path.endswith(PROGRAMS) and os.path.isfile(path)


def _check_programs(arguments: argparse.Namespace) -> int:
    """Check each instruction of programs on a backend; exit code 1 if one is wrong."""
    from pirkit.cli.torch_archives import load_program  # noqa: PLC0415
    from pirkit.frontend.arrays import read_npz  # noqa: PLC0415  not for --version
    from pirkit.frontend.compile import run_passes  # noqa: PLC0415
    from pirkit.frontend.kernel_check import check_kernels, check_whole  # noqa: PLC0415
    from pirkit.lowering.prim import default_pipeline  # noqa: PLC0415

    given: str = arguments.inputs or ""
    seed = given.removeprefix("random:") if given.startswith("random:") else "0"
    inputs = read_npz(given) if given and not given.startswith("random:") else {}
    wanted = arguments.pipeline
    pipeline = default_pipeline(arguments.backend) if wanted is None else wanted
    is_wrong = False
    for path in arguments.paths:
        program = load_program(path, format=arguments.format, params=arguments.params)
        lowered = run_passes(program, pipeline) if pipeline else program
        entry = lowered.entry(arguments.entry)
        report = check_kernels(entry, arguments.backend, int(seed), inputs, lowered.params)
        print("\n".join(report.lines()))
        entire = None
        if arguments.backend == "cpu" and arguments.entry is None:
            entire = check_whole(program, int(seed), inputs)
        if entire is not None:
            print(f"@{entry.symbol} by `compile_whole`: {entire}")
        is_wrong = is_wrong or bool(report) or entire is not None
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
    from pathlib import Path  # noqa: PLC0415

    from pirkit.diag.errors import PirkitError  # noqa: PLC0415
    from pirkit.frontend.cases import Report, check_case  # noqa: PLC0415

    path, source, pipeline, backend = task
    try:
        return check_case(path, source, pipeline=pipeline, backend=backend)
    except PirkitError as error:
        return Report(Path(path).name, "FAIL", message=str(error))


def _print_reports(reports: list[Report]) -> None:
    from rich.console import Console  # noqa: PLC0415  rich is slow to import
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

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
