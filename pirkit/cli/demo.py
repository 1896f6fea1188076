"""The programs that come with pirkit: each is read, compiled and run, in a few lines."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from pirkit.cli.arguments import did_you_mean
from pirkit.diag.errors import ArgumentError
from pirkit.frontend.compile import compile
from pirkit.frontend.files import load
from pirkit.frontend.random_inputs import random_inputs, random_weights

FOLDER: Final = Path(__file__).parents[1] / "samples"

SAMPLES: Final = {
    "lenet": ("lenet.json", "a convolutional network, exported by Paddle with its weights"),
    "mlp": ("mlp.json", "a network of two layers, exported by Paddle with its weights"),
    "recurrence": ("recurrence.txt", "a loop whose length is an input, as Paddle prints it"),
}
"""File and description of each program, by name."""


def demo(arguments: argparse.Namespace) -> int:
    """Print what a sample program computes, or the list of them with ``--list``; the exit code."""
    print(listing() if arguments.list else show(arguments.name))
    return 0


def listing() -> str:
    """A line for each program."""
    return "\n".join(
        f"{name:12}{FOLDER / file}\n{'':12}{what}" for name, (file, what) in SAMPLES.items()
    )


def show(name: str) -> str:
    """Show a program's inputs, outputs, plan and results. UsageError for an unknown name."""
    if name not in SAMPLES:
        raise ArgumentError(
            f"there is no sample program `{name}`",
            help=did_you_mean(name, list(SAMPLES)) or "`pirkit demo --list` prints all",
        )
    path = FOLDER / SAMPLES[name][0]
    program = load(path)
    start = perf_counter()
    exe = compile(program)
    if len(program.params) < len(exe.plan.params):
        exe.params.update(random_weights(exe.plan.params, seed=0))
    compiled = perf_counter()
    outputs = exe.run(random_inputs(exe.plan.inputs, seed=0))
    ran = perf_counter()
    numbers = [
        f"{k} = {np.array2string(np.asarray(v), precision=4, threshold=8, edgeitems=2)}"
        for k, v in outputs.items()
    ]
    return "\n".join(
        [
            f"{SAMPLES[name][1]}: {path}",
            repr(program),
            repr(exe),
            f"compiled in {(compiled - start) * 1e3:.0f} ms, run in {(ran - compiled) * 1e3:.1f} ms"
            " with random inputs:",
            *numbers,
            "",
            f"look at it:  pirkit-opt {path} -p @simplify",
            f"run it:      pirkit-run {path} --inputs random:0",
        ]
    )
