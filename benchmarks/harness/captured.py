"""Captured programs of `tests/corpus/paddle` as workloads of pirkit.

It is run with the pirkit of any checkout, so it uses only what all of them have.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PREFIX = "corpus:"
PROGRAMS = Path(__file__).parents[2] / "tests/corpus/paddle"


def names() -> list[str]:
    """All workloads of this kind."""
    return [f"{PREFIX}{folder.name}" for folder in sorted(PROGRAMS.glob("*/"))]


def build(name: str) -> Callable[[], list[Any]]:
    """The forward program, compiled with the defaults, on the inputs of its first step."""
    import numpy as np

    import pirkit

    folder = PROGRAMS / name.removeprefix(PREFIX)
    with np.load(folder / "params.npz") as file:
        params = {key: file[key] for key in file.files}
    with np.load(folder / "inputs.npz") as file:
        inputs = {key.partition("/")[2]: file[key] for key in file.files if key[4:6] == "1/"}
    executable = pirkit.compile(pirkit.load(folder / "program.txt"), params=params)
    inputs = {port.name: inputs[port.name] for port in executable.plan.inputs}
    return lambda: list(executable.run(inputs).values())
