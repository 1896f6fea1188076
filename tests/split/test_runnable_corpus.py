"""Two training steps of each captured case: Paddle's own halves, and pirkit's, in one object."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit import DenseTensor, tensor
from pirkit.frontend.captured_case import Case, open_case
from pirkit.frontend.files import load
from pirkit.split import RunnableProgram, SplitParts, forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.split.paddle_parts import paddle_parts
from tests.split.saved_bytes import of_ours

FOLDER = Path(__file__).parents[1] / "corpus" / "paddle"
CASES = sorted(p.parent for p in FOLDER.glob("*/backward.txt"))
WRITING = [p for p in CASES if re.search(r'"pd_op\.\w+_"', (p / "program.txt").read_text("utf-8"))]


def own_parts(folder: Path) -> SplitParts:
    return forward_backward(load(folder / "program.txt"), mode="free")


def runnable(parts_of: Any, folder: Path) -> RunnableProgram:
    step = RunnableProgram(parts_of(folder))
    step.plans()
    return step


@pytest.mark.parametrize("parts_of", [paddle_parts, own_parts], ids=["paddle", "pirkit"])
@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_two_steps_give_the_numbers_of_paddle(folder: Path, parts_of: Any) -> None:
    case = open_case(folder)
    step = runnable(parts_of, folder)
    names = step.names
    weights = {name: tensor(array) for name, array in case.arrays("params.npz").items()}
    trained = {p["name"] for p in case.meta["parameters"] if p["trainable"]}
    for number in (1, 2):
        inputs = case.step("inputs.npz", number)
        outputs = step.forward(
            [tensor(inputs[name]) for name in names.fx], [weights[name] for name in names.fp]
        )
        compare(case, dict(enumerate(outputs)), numbered(case.step("outputs.npz", number)))
        recorded = case.step("params_after.npz", number)
        compare(case, weights, {n: a for n, a in recorded.items() if n not in trained})
        seeds = numbered(case.step("output_grads.npz", number))
        of_inputs, of_params = step.backward([seeds.get(i) for i in range(len(outputs))])
        compare(case, named(names.fx, of_inputs), case.step("input_grads.npz", number))
        compare(case, named(names.fp, of_params), case.step("param_grads.npz", number))
        for name, gradient in zip(names.fp, of_params, strict=True):
            if name in trained and gradient is not None:
                rate = np.asarray(case.meta["learning_rate"], gradient.array.dtype)
                weights[name][...] = weights[name] - gradient * rate
    assert step.count().live == 0


def numbered(arrays: dict[str, Any]) -> dict[int, Any]:
    return {int(name): array for name, array in arrays.items()}


def named(names: Any, gradients: Any) -> dict[str, DenseTensor]:
    return {n: g for n, g in zip(names, gradients, strict=True) if g is not None}


def compare(case: Case, found: Any, expected: Any) -> None:
    """A missing gradient and one of zeros mean the same."""
    for name, want in expected.items():
        have = found[name].numpy() if name in found else np.zeros_like(want)
        assert have.shape == want.shape, name
        assert case.tolerance.error(have, want) <= case.tolerance.rtol, name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("folder", WRITING, ids=lambda path: path.name)
def test_p3_updates_are_computed_where_they_are(folder: Path, mode: str) -> None:
    """No run of a forward half ends with a copy into a parameter or buffer."""
    case, step = open_case(folder), RunnableProgram(of_ours(folder, mode))
    weights, inputs = case.arrays("params.npz"), case.step("inputs.npz", 1)
    step.forward(
        [tensor(inputs[n]) for n in step.names.fx], [tensor(weights[n]) for n in step.names.fp]
    )
    forward, _ = step.plans()
    assert forward.counters.copies == 0
