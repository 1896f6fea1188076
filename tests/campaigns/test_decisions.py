"""What fusion, the split and the memory plan decide is what `decisions.txt` says."""

from __future__ import annotations

from functools import cache

import pytest

from tests.campaigns.decisions import (
    FILE,
    SEEDS,
    SPLIT,
    of_captured,
    of_joint,
    of_kernels,
    of_loops,
    of_plans,
    of_policies,
    of_random,
    of_split,
)

AGAIN = "if it is meant, run `python -m tests.campaigns.decisions` and look at the difference"


@cache
def written() -> frozenset[str]:
    return frozenset(FILE.read_text().splitlines())


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_random_programs(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_random(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_random_programs_within_limits(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_policies(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("name", SPLIT)
def test_captured_programs(name: str) -> None:
    assert [line for line in of_captured(name) if line not in written()] == [], AGAIN


def test_scheduled_loops() -> None:
    assert [line for line in of_loops() if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_scheduled_loops_of_kernels(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_kernels(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_memory_plans(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_plans(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_random_programs_that_are_split(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_split(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), 4))
def test_joint_programs_that_are_split(block: int) -> None:
    found = [line for seed in SEEDS[block : block + 4] for line in of_joint(seed)]
    assert [line for line in found if line not in written()] == [], AGAIN
