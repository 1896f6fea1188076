"""What only lends its shape may be poisoned after the forward.

And what is said to be needed is: other contents of it change a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from pirkit.diag.errors import PirkitError
from pirkit.frontend.cases import open_case
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.split import SplitParts, forward_backward
from pirkit.split.save_or_recompute import MODES
from tests.execution import parsed
from tests.split.reference_tape import grow
from tests.split.running import Halves
from tests.split.saved_bytes import of_ours, of_paddle

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
DRAWS = 6
"""Inputs on which a value may show that it is needed: not every branch is taken on each."""

Gradients = dict[str, Any]


def poisoned(value: Any) -> Any:
    """The same shape and dtype, full of what spoils every number."""
    return np.full_like(value, np.nan) if is_floating(value) else value


def others(value: Any) -> Iterator[Any]:
    """Other contents of the same shape and dtype; of a mask and of indices, the other ones."""
    if not isinstance(value, np.ndarray) or not value.size:
        return
    if value.dtype.kind == "b":
        yield ~value
        return
    if value.dtype.kind in "iu":
        yield value + 1
        yield np.zeros_like(value)
        return
    yield poisoned(value)
    rng = np.random.default_rng(5)
    yield (value + rng.uniform(-2, 2, value.shape)).astype(value.dtype)
    yield -value


def is_floating(value: Any) -> bool:
    return getattr(value, "dtype", np.dtype(bool)).kind in "fc" and value.size > 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(25))
def test_poison_in_each_saved_value_of_random_programs(seed: int, mode: str) -> None:
    grown = grow(seed)
    parts = forward_backward(parsed(grown.text), mode=mode)
    left = None
    for draw in range(DRAWS):
        rng = np.random.default_rng((seed, draw))
        params = {n: rng.standard_normal(s) for n, s in grown.params.items()}
        halves = Halves(parts, params)
        outputs = halves.run({n: rng.standard_normal(s) for n, s in grown.inputs.items()})
        pairs = zip(parts.returns, outputs, strict=True)
        seeds = {p: rng.standard_normal(np.shape(o)) for (_, p), o in pairs}
        found = unneeded(halves, seeds)
        left = found if left is None else left & found
        if not left:
            break
    assert not left, "is kept for nothing"


def run_of(folder: Path, parts: SplitParts) -> tuple[Halves, dict[int, Any]]:
    """The halves of a captured program after their forward, and recorded gradients of outputs."""
    case = open_case(folder)
    halves = Halves(parts, case.arrays("params.npz"))
    halves.run(case.step("inputs.npz", 1))
    position = {str(i): where for i, (_, where) in enumerate(parts.returns)}
    seeds = {position[n]: a for n, a in case.step("output_grads.npz", 1).items()}
    return halves, seeds


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMALL)
def test_each_saved_value_of_captured_programs_is_needed(name: str, mode: str) -> None:
    halves, seeds = run_of(FOLDER / name, of_ours(FOLDER / name, mode))
    arguments = inputs_of(halves.parts.backward_program)
    left = {n for n in unneeded(halves, seeds) if not in_branches(arguments[n])}
    assert not left, "is kept for nothing"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SMALL)
def test_poison_in_what_lends_its_shape_to_paddle_s_gradient_ops(name: str, mode: str) -> None:
    """Those ops take more than their results depend on, which is not asked here."""
    halves, seeds = run_of(FOLDER / name, of_paddle(FOLDER / name, mode))
    expected = halves.gradients(seeds)
    for lent in halves.parts.names.no_need_buffers:
        halves.kept[lent] = poisoned(halves.kept[lent])
    assert_same(halves.gradients(seeds), expected)


def unneeded(halves: Halves, seeds: dict[int, Any]) -> set[str]:
    """Change what is kept, one value at a time: the names of those that change no gradient.

    What lends its shape must change none.
    """
    expected, kept = halves.gradients(seeds), dict(halves.kept)
    found: set[str] = set()
    for name, value in kept.items():
        if name in halves.parts.names.no_need_buffers:
            halves.kept = {**kept, name: poisoned(value)}
            assert_same(halves.gradients(seeds), expected)
            continue
        changes = [*others(value)]
        if changes and not any(
            differs(halves, {**kept, name: c}, seeds, expected) for c in changes
        ):
            found.add(name)
    halves.kept = kept
    return found


def differs(
    halves: Halves, kept: dict[str, Any], seeds: dict[int, Any], expected: Gradients
) -> bool:
    halves.kept = kept
    try:
        found = halves.gradients(seeds)
    except PirkitError:
        return True
    return any(not np.array_equal(found[name], want) for name, want in expected.items())


def in_branches(value: SSAValue) -> bool:
    """True if only branches read a value; it may belong to the one that was not taken."""
    inside = [use.operation.parent is not value.owner for use in value.uses]
    return bool(inside) and all(inside)


def assert_same(found: Gradients, expected: Gradients) -> None:
    for name, want in expected.items():
        np.testing.assert_array_equal(found[name], want, err_msg=name)
