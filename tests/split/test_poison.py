"""What is said not to be needed is not: its buffers are poisoned after the forward.

And what is said to be needed is: poisoning that reaches a gradient.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.frontend.cases import open_case
from pirkit.frontend.files import load
from pirkit.split import SplitParts, forward_backward
from pirkit.split.choose import MODES
from pirkit.split.merge import joined
from tests.execution import parsed
from tests.split.paddle_names import names_of
from tests.split.running import Halves
from tests.split.tape import grow

FOLDER = Path(__file__).parents[1] / "corpus" / "paddle"
SMALL = (
    "attention",
    "conv_bn_train",
    "if_else",
    "indexing_mix",
    "lenet",
    "loss_mix",
    "up_and_norms",
)
Gradients = dict[str, Any]


def poisoned(value: Any) -> Any:
    """The same shape and dtype, full of what spoils every number."""
    return np.full_like(value, np.nan) if is_floating(value) else value


def is_floating(value: Any) -> bool:
    return getattr(value, "dtype", np.dtype(bool)).kind in "fc" and value.size > 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMALL)
def test_poison_in_what_lends_its_shape_on_paddle_s_programs(name: str, mode: str) -> None:
    case = open_case(FOLDER / name)
    forward, backward = (load(case.folder / f"{n}.txt").main for n in ("forward", "backward"))
    program, roles = joined(forward, backward, names_of(case.folder))
    parts = forward_backward(program, roles=roles, mode=mode)
    halves = Halves(parts, case.arrays("params.npz"))
    halves.run(case.step("inputs.npz", 1))
    seeds = {int(n): a for n, a in case.step("output_grads.npz", 1).items()}
    expected = halves.gradients(seeds)
    for lent in parts.names.no_need_buffers:
        halves.kept[lent] = poisoned(halves.kept[lent])
    assert_same(halves.gradients(seeds), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(25))
def test_poison_in_each_saved_value_of_random_programs(seed: int, mode: str) -> None:
    grown = grow(seed)
    parts = forward_backward(parsed(grown.text), mode=mode)
    rng = np.random.default_rng(seed)
    params = {n: rng.standard_normal(s) for n, s in grown.params.items()}
    halves = Halves(parts, params)
    outputs = halves.run({n: rng.standard_normal(s) for n, s in grown.inputs.items()})
    seeds = {
        p: rng.standard_normal(np.shape(o))
        for (_, p), o in zip(parts.returns, outputs, strict=True)
    }
    expected, kept = halves.gradients(seeds), dict(halves.kept)
    for name in kept:
        halves.kept = {**kept, name: poisoned(kept[name])}
        if name in parts.names.no_need_buffers:
            assert_same(halves.gradients(seeds), expected)
        elif is_floating(kept[name]):
            assert reaches(halves, seeds, parts), f"{name} is kept for nothing"


def reaches(halves: Halves, seeds: dict[int, Any], parts: SplitParts) -> bool:
    """True if poison shows, or may not: masks are no floats, and one side of a branch is enough."""
    found = halves.gradients(seeds)
    users = {op.name for op in parts.backward_program.block.walk()}
    may_hide = {"pd_op.greater_than", "pd_op.less_than", "pd_op.equal", "pd_op.where", "pd_op.if"}
    return bool(users & may_hide) or any(np.isnan(g).any() for g in found.values())


def assert_same(found: Gradients, expected: Gradients) -> None:
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)


def test_a_budget_is_kept_or_refused_with_the_least_possible() -> None:
    for seed in range(20):
        module = parsed(grow(seed).text)
        most = forward_backward(module).report.bytes
        with pytest.raises(PirkitError) as caught:
            forward_backward(module, budget=-2)
        assert caught.value.code == "PK0807"
        least = int(caught.value.notes[0].split()[3].replace(",", ""))
        for budget in {least, (least + most) // 2, most}:
            parts = forward_backward(module, budget=budget)
            assert parts.report.bytes <= budget
