"""A small network whose forms are run by fresh processes, and what it gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pirkit
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.split import RunnableProgram, forward_backward

PARTS = """
import sys
import numpy as np, pirkit
from pirkit import ops

folder = sys.argv[1]
arrays = np.load(f"{folder}/arrays.npz", allow_pickle=False)
x, want, seed, gradient = (arrays[name] for name in ("x", "want", "seed", "gradient"))

def network(x):
    return ops.softmax(ops.tanh(ops.matmul(x, x, transpose_y=True)) * 2.0, -1)

def loaded():
    return pirkit.load(f"{folder}/net.pir")

def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)

def run(executable):
    close(executable.run({"x0": x})["y0"], want)

def step(split):
    outputs = split.forward([x])
    close(outputs[0].numpy(), want)
    close(split.backward([seed], outputs)[0][0].numpy(), gradient)

def load_step():
    return pirkit.split.RunnableProgram.load(f"{folder}/step.json")
"""
"""Begin of scripts that run the network; their first argument is the folder it is in."""


def write_network(folder: Path) -> None:
    """The network as a program and as a split one, with its input and its results."""
    x = np.random.default_rng(3).standard_normal((24, 64)).astype("float32")
    seed = x[:, :24]

    def network(x: pirkit.DenseTensor) -> pirkit.DenseTensor:
        return ops.softmax(ops.tanh(ops.matmul(x, x, transpose_y=True)) * 2.0, -1)

    program = trace(network, (x,)).program
    pirkit.save(program, folder / "net.pir")
    split = RunnableProgram(forward_backward(program), backend="reference")
    split.save(folder / "step.json")
    outputs = split.forward([x])
    gradient = split.backward([seed], outputs)[0][0]
    assert gradient is not None
    np.savez(
        folder / "arrays.npz",
        x=x, want=outputs[0].numpy(), seed=seed, gradient=gradient.numpy(),
    )  # fmt: skip
