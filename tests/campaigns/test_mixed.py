"""What fusion and the code generator make of programs is what `mixed.txt` says."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from tests.campaigns.mixed import (
    CALLED,
    CAPTURED,
    FILE,
    NESTS,
    SEEDS,
    of_calls,
    of_captured,
    of_fusion,
    of_nests,
    of_scans,
)

AGAIN = "if it is meant, run `python -m tests.campaigns.mixed` and look at the difference"
STEP = 8


@cache
def written() -> frozenset[str]:
    return frozenset(FILE.read_text().splitlines())


def check(lines: Iterable[str]) -> None:
    assert [line for line in lines if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(0, len(SEEDS), STEP))
def test_fusion_and_the_code_of_its_kernels(block: int) -> None:
    check(line for seed in SEEDS[block : block + STEP] for line in of_fusion(seed))


@pytest.mark.parametrize("block", range(0, len(CALLED), STEP))
def test_code_of_library_calls(block: int) -> None:
    check(line for seed in CALLED[block : block + STEP] for line in of_calls(seed))


@pytest.mark.parametrize("name", CAPTURED)
def test_code_of_captured_programs(name: str) -> None:
    check(of_captured(name))


@pytest.mark.parametrize("block", NESTS)
def test_code_of_nests(block: int) -> None:
    check(of_nests(block))


def test_code_of_scans() -> None:
    check(of_scans())
