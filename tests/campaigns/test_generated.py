"""Generated code, and explanations of fusion, are what `generated.txt` says of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from pirkit.lowering.fusion.fuse_pass import plan_fusion, storage_of
from pirkit.lowering.fusion.groups import Policy
from tests.campaigns.generated import (
    FILE,
    LIMITED,
    SEEDS,
    of_limits,
    of_op,
    of_reasons,
    of_wide,
    ops,
)
from tests.fusion.random_programs import Turner

AGAIN = "if it is meant, run `python -m tests.campaigns.generated` and look at the difference"
BLOCKS = 8


@cache
def written() -> frozenset[str]:
    return frozenset(FILE.read_text().splitlines())


def check(lines: Iterable[str]) -> None:
    assert [line for line in lines if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(BLOCKS))
def test_code_of_ops(block: int) -> None:
    check(line for definition in ops()[block::BLOCKS] for line in of_op(definition))


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_code_of_wide_programs(block: int) -> None:
    check(line for seed in SEEDS[block : block + 4] for line in of_wide(seed))


@pytest.mark.parametrize("block", range(0, len(SEEDS), 8))
def test_reasons(block: int) -> None:
    check(line for seed in SEEDS[block : block + 8] for line in of_reasons(seed))


@pytest.mark.parametrize("block", range(0, len(LIMITED), 3))
def test_limits(block: int) -> None:
    check(line for seed in LIMITED[block : block + 3] for line in of_limits(seed))


@pytest.mark.parametrize("seed", range(8))
def test_no_kernel_exceeds_a_limit(seed: int) -> None:
    """Of ops a kernel has at most as many as the policy says, but for copies of what others hold
    and ops that read nothing; of inputs too, but for one op that has more of its own.
    """
    maker = Turner(seed, depth=14)
    storage = storage_of(maker.program)
    for limit in (1, 2, 3, 5):
        for group in plan_fusion(
            maker.program.block, Policy(ops=limit), storage=storage
        ).partition.groups:
            own = [u for u in group.units.values() if not u.is_free]
            assert len([u for u in own if u.op.results[0] not in group.copies]) <= limit
        for group in plan_fusion(
            maker.program.block, Policy(inputs=limit), storage=storage
        ).partition.groups:
            assert len(group.inputs) <= limit or len(group.units) == 1
