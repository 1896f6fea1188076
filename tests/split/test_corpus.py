"""Every captured training program is split, and the halves give Paddle's numbers in each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.cases import Case, open_case
from pirkit.frontend.files import load
from pirkit.split import forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.split.running import Halves

FOLDER = Path(__file__).parents[1] / "corpus" / "paddle"
CASES = sorted(p.parent for p in FOLDER.glob("*/backward.txt"))
STEPS = (1, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_the_halves_give_the_numbers_of_paddle(folder: Path, mode: str) -> None:
    case = open_case(folder)
    program = load(folder / "program.txt")
    parts = forward_backward(program, mode=mode)
    for module in (parts.forward.module, parts.backward.module):
        verify_module(module)
        text = print_mlir(module)
        assert print_mlir(parse_mlir(text)) == text
    params: dict[str, Any] = case.arrays("params.npz")
    halves = Halves(parts, params)
    trained = {p["name"] for p in case.meta["parameters"] if p["trainable"]}
    for step in STEPS:
        outputs = halves.run(case.step("inputs.npz", step))
        by_number = dict(zip(map(str, range(len(outputs))), outputs, strict=True))
        compare(case, by_number, case.step("outputs.npz", step))
        after = case.step("params_after.npz", step)
        compare(case, params, {n: a for n, a in after.items() if n not in trained})
        position = {str(i): where for i, (_, where) in enumerate(parts.returns)}
        seeds = {position[n]: a for n, a in case.step("output_grads.npz", step).items()}
        found = halves.gradients(seeds)
        for file in ("input_grads.npz", "param_grads.npz"):
            compare(case, found, case.step(file, step), or_zero=True)
        for name in trained & found.keys():
            rate = np.asarray(case.meta["learning_rate"], params[name].dtype)
            params[name] = (params[name] - rate * found[name]).astype(params[name].dtype)


def compare(
    case: Case, found: dict[str, Any], expected: dict[str, Any], *, or_zero: bool = False
) -> None:
    for name, want in expected.items():
        have = np.asarray(found.get(name, np.zeros_like(want)) if or_zero else found[name])
        assert (have.shape, have.dtype) == (want.shape, want.dtype), name
        assert case.tolerance.error(have, want) <= case.tolerance.rtol, name
