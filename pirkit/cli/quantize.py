"""``pirkit quantize``: stores weights in fewer bits, and prints a table of the accuracy."""

from __future__ import annotations

import argparse

from pirkit.cli.input_files import read_inputs
from pirkit.cli.torch_archives import load_program
from pirkit.diag.errors import ArgumentError
from pirkit.diag.span import Span
from pirkit.frontend.compile import compile
from pirkit.frontend.files import save
from pirkit.frontend.quantize import quantize


def run(arguments: argparse.Namespace) -> int:
    """Quantize a program, print the report, and write the program if a file is named."""
    if arguments.static and not arguments.activations:
        raise ArgumentError(
            "--static does nothing without --activations",
            help="`pirkit quantize FILE --activations int8 --static --calibrate INPUTS`",
        )
    program = load_program(arguments.file)
    inputs = read_inputs(arguments.calibrate, compile(program, pipeline=""))
    made, report = quantize(
        program, inputs, weights=arguments.weights, activations=arguments.activations,
        static=arguments.static, keep=arguments.keep,
    )  # fmt: skip
    if not program.params:
        raise ArgumentError(
            "the program has no weights to store in fewer bits",
            span=Span(arguments.file),
            help="weights are read from a file beside the program, as in model.json and"
            " model.pdiparams, or are in it, as in .onnx and .pt2",
        )
    print(report)
    if arguments.output:
        save(made, arguments.output)
    return 0
