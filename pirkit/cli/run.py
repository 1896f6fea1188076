"""The ``pirkit-run`` command: runs programs, and checks captured cases against Paddle's numbers."""

from __future__ import annotations

import argparse
import os
from typing import Final

from pirkit.cli.arguments import ArgumentParser, positive, require_suffix
from pirkit.cli.commands import run_command
from pirkit.cli.opt_flags import FORMATS
from pirkit.diag.entry import run_main
from pirkit.diag.errors import ArgumentError

FUSED_BY: Final = ("native", "nest", "interpret")
PROGRAMS: Final = (".mlir", ".txt", ".json", ".onnx")


def main() -> int:
    """Run the command line and return its exit code."""
    return run_main(_run)


def _run() -> int:
    parser = _parser()
    arguments = parser.parse_command_line()
    if arguments.load:
        run_command("pass_files:load_passes", arguments)
    _require_mode(arguments, parser.given(arguments))
    if arguments.check:
        are_programs = arguments.paths and all(map(_is_program, arguments.paths))
        check = "check_programs" if are_programs else "check_cases"
        return run_command(f"check_cases:{check}", arguments)
    if len(arguments.paths) != 1:
        raise ArgumentError(
            f"pirkit-run takes one program, not {len(arguments.paths)}",
            help="`pirkit-run PROGRAM --inputs random:0`, or `pirkit-run --check DIR...`",
        )
    asked = {"--profile": arguments.profile is not None, "--report": arguments.report}
    modes = [flag for flag, given in (asked | {"--compare": arguments.compare}).items() if given]
    if len(modes) > 1:
        raise ArgumentError(
            f"{' and '.join(modes)} do not go together",
            help=f"run pirkit-run once with {modes[0]}, once with {modes[1]}",
        )
    if arguments.report:
        require_suffix("--report", arguments.report, ".html")
    if os.path.splitext(arguments.profile or "")[1] in (".html", ".svg", ".png"):
        raise ArgumentError(
            f"--profile writes a trace or stacks, and {arguments.profile} is named as a picture",
            help="`--report FILE.html` writes a page; `--profile=FILE.json` a trace for Perfetto",
        )
    if arguments.profile is not None:
        return run_command("profile_run:profile_program", arguments)
    if arguments.report:
        return run_command("report.command:report_run", arguments)
    if arguments.compare:
        return run_command("profile_run:compare_pipelines", arguments)
    return run_command("run_program:run_program", arguments)


_IDLE: Final = {
    "--check": "outputs threads freeze no_fallback fused trace timing report compare profile"
    " repeat",
    "--profile": "outputs trace timing",
    "--report": "outputs trace timing",
    "--compare": "outputs trace timing pipeline",
}
"""The modes of a run, and the flags that have no effect in each."""


def _require_mode(arguments: argparse.Namespace, given: set[str]) -> None:
    """Raise ArgumentError (PK0701) for a flag that does nothing with or without another one."""
    alone = sorted(given & {"--from", "--jobs"})
    if alone and not arguments.check:
        raise ArgumentError(
            f"{alone[0]} does nothing without --check",
            help=f"`pirkit-run --check DIR {alone[0]} ...`",
        )
    for mode, idle in _IDLE.items():
        flags = [f"--{name.replace('_', '-')}" for name in idle.split()]
        found = next((flag for flag in flags if mode in given and flag in given), None)
        if found:
            raise ArgumentError(
                f"{found} does nothing with {mode}", help="leave one of the two out"
            )
    if arguments.fused and arguments.backend != "cpu":
        raise ArgumentError(
            f"--fused does nothing with --backend {arguments.backend}",
            help="leave one of the two out",
        )
    if arguments.check and arguments.backend == "reference":
        raise ArgumentError(
            "--check compares with the reference itself", help="give --backend cpu or gpu"
        )


def _is_program(path: str) -> bool:
    return path.endswith(PROGRAMS) and os.path.isfile(path)


_FILES: Final = {
    "--params P": "weights: .pdiparams, .npz or .safetensors",
    "--inputs I": "inputs: .npz, .safetensors, random:SEED, or NAME=FILE.npy,...",
    "--outputs O": "write the outputs to this .npz file",
    "--entry NAME": "program of the module to run",
}
_RUNNING: Final = {
    "--freeze": "treat weights as constants",
    "--no-fallback": "refuse ops without device kernel",
    "--trace": "print each instruction with its time",
    "--profile[=FILE]": "print time, bytes, flops and share of the roofline of each instruction;"
    " --profile=FILE.json writes a trace for Perfetto, any other name stacks for flame graphs",
    "--report HTML": "write a page of passes, kernels, memory and measured times",
}
_CHECKING: Final = {
    "--check": "compare the kernels of a program with the reference, or a case with its numbers"
}


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="pirkit-run",
        description="Run a program, or check captured cases against the numbers Paddle computed.",
    )
    parser.add_version()
    parser.add_argument("paths", nargs="*", metavar="PROGRAM|DIR", help="a program, or cases")
    both = parser.add_argument_group("pipeline and backend")
    both.add_argument(
        "-p", "--pipeline", help="passes to run first: @default on the CPU, else @simplify"
    )
    both.add_argument(
        "--backend", default="cpu", choices=("reference", "cpu", "gpu"), help="whose kernels run"
    )
    both.add_argument(
        "--fused", choices=FUSED_BY, help="what runs fused kernels: native code or an interpreter"
    )
    both.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_load(both)
    run = parser.add_argument_group("running a program")
    run.add_argument(
        "-f", "--format", default="auto", choices=FORMATS, metavar="FORMAT",
        help=f"format of the program: {', '.join(FORMATS)}",
    )  # fmt: skip
    parser.add_flags(run, _FILES)
    run.add_argument("--repeat", type=positive, metavar="N", help="run N times, not once")
    run.add_argument("--threads", type=positive, metavar="N", help="the most threads of a run")
    parser.add_flags(run, _RUNNING)
    run.add_argument(
        "--compare", nargs=2, metavar=("A", "B"),
        help="compare two pipelines, or commits of pirkit as git:REVISION[:PIPELINE]: numbers,"
        " time, instructions, bytes; `native` runs no pipeline",
    )  # fmt: skip
    run.add_argument("--timing", action="store_true", help="print how long the runs took")
    check = parser.add_argument_group("checking cases")
    parser.add_flags(check, _CHECKING)
    check.add_argument(
        "--from", dest="source", default="main", choices=("main", "split", "json"),
        help="main: the training program, differentiated by pirkit; split: Paddle's forward and "
        "backward programs; json: the inference export",
    )  # fmt: skip
    check.add_argument("--jobs", type=positive, default=1, metavar="N", help="processes to use")
    return parser
