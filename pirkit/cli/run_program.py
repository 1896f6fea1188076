"""``pirkit-run PROGRAM``: compiles and runs a program, prints and writes its outputs."""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median
from typing import Any

from pirkit.cli.arguments import require_suffix
from pirkit.cli.input_files import read_inputs
from pirkit.cli.reporting import json_text
from pirkit.cli.torch_archives import load_program
from pirkit.dialect.program import Program
from pirkit.frontend.arrays import write_npz
from pirkit.frontend.compile import compile
from pirkit.runtime.executor import Executable
from pirkit.runtime.native.compile_stats import COMPILE_STATS


def compile_as_asked(
    program: Program, arguments: argparse.Namespace, pipeline: str | None
) -> Executable:
    """A program compiled as the command line says."""
    return compile(
        program,
        backend=arguments.backend,
        pipeline=pipeline,
        entry=arguments.entry,
        threads=arguments.threads,
        fallback=not arguments.no_fallback,
        fused=arguments.fused,
        freeze=arguments.freeze or None,
    )


def run_program(arguments: argparse.Namespace) -> int:
    """Run the program of the command line and print its outputs; the exit code."""
    if arguments.outputs:
        require_suffix("--outputs", arguments.outputs, ".npz")
    start = time.perf_counter()
    program = load_program(arguments.paths[0], format=arguments.format, params=arguments.params)
    exe = compile_as_asked(program, arguments, arguments.pipeline)
    compiled = time.perf_counter() - start
    inputs = read_inputs(arguments.inputs or "", exe, arguments.params)
    outputs: dict[str, Any] = {}
    times: list[float] = []
    for _ in range(arguments.repeat or 1):
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
    if not outputs:
        print(
            "note: the program has no outputs; `pirkit-opt FILE --outputs %A` or a"
            " `pir.shadow_output` makes a value one",
            file=sys.stderr,
        )
    _print_outputs(outputs, arguments.json)
    return 0


def _print_outputs(outputs: dict[str, Any], as_json: bool) -> None:
    if as_json:
        lists = {name: value.tolist() for name, value in outputs.items()}
        print(json_text(lists))
        return
    for name, value in outputs.items():
        print(f"{name}: {value.dtype}{list(value.shape)}")
        print(value)
