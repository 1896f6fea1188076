"""What becomes of the cases: kernels, refusals, numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pirkit.dialect.map_expr.verify_kernel import problems
from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Policy
from tests.fusion import golden
from tests.fusion.cases import CASES, built
from tests.fusion.test_random import fused, run


def test_groups_and_reasons_are_those_that_are_known() -> None:
    """`python -m tests.fusion.golden` writes them anew."""
    assert golden.pages() == golden.PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    _, kernels, kinds = CASES[name]
    c, program = built(name)
    found = plan_fusion(program.block, Policy(), storage=storage_of(program))
    refusals = {r.kind for r in found.partition.refusals.values()}
    assert (len(found.kernels), " ".join(sorted(refusals))) == (kernels, kinds)
    assert [p for k in found.kernels for p in problems(k.kernel)] == []
    want = run(program, c.inputs)
    got = run(fused(program, single=True)[0], c.inputs)
    for key in want:
        np.testing.assert_allclose(got[key], want[key], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["c02_seed_unsolvable_is_computed_twice", "c08_sum_with_own_transpose"]
)
def test_without_again_and_tiles_the_conflict_is_shown_and_the_group_cut(
    name: str,
) -> None:
    c, program = built(name)
    found = plan_fusion(program.block, golden.NEITHER)
    assert len(found.kernels) == 2
    (refusal, *_) = found.partition.refusals.values()
    assert refusal.kind == "index-conflict"
    assert refusal.path1 != refusal.path2
    assert refusal.holds()
    want = run(program, c.inputs)
    got = run(fused(program, recompute=0, tile=False, single=True)[0], c.inputs)
    for key in want:
        np.testing.assert_allclose(got[key], want[key], rtol=2e-5, atol=1e-6)


def test_a_refusal_that_concerns_two_pairs_is_told_once() -> None:
    _, program = built("c08_dear_sum_with_own_reverse")
    assert len(plan_fusion(program.block, Policy()).partition.refusals) == 2
    _, context = fused(program)
    output = [r for r in context.remarks if r.kind == "missed"]
    assert len(output) == 1
