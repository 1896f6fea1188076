"""What ``pirkit quantize`` does: weights in fewer bits, and a table of what that changes."""

from __future__ import annotations

import argparse

from pirkit.cli.input_files import read_inputs
from pirkit.cli.torch_archives import load_program
from pirkit.frontend.compile import compile
from pirkit.frontend.files import save
from pirkit.frontend.quantize import quantize


def run(arguments: argparse.Namespace) -> int:
    """Quantize a program, print the report, and write the program if a file is named."""
    program = load_program(arguments.file)
    inputs = read_inputs(arguments.calibrate, compile(program, pipeline=""))
    made, report = quantize(
        program, inputs, weights=arguments.weights, activations=arguments.activations,
        static=arguments.static, keep=arguments.keep,
    )  # fmt: skip
    print(report)
    if arguments.output:
        save(made, arguments.output)
    return 0
