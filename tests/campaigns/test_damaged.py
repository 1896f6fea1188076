"""What readers say of damaged files is what `damaged.txt` says."""

from __future__ import annotations

from functools import cache

import pytest

from tests.campaigns.damaged import FILE, lines_of, of_table, sources, tables

AGAIN = "if it is meant, run `python -m tests.campaigns.damaged` and look at the difference"
BLOCKS = 16


@cache
def written() -> frozenset[str]:
    return frozenset(FILE.read_text().splitlines())


@pytest.mark.parametrize("block", range(BLOCKS))
def test_damaged_files(block: int) -> None:
    found = [line for source in sources()[block::BLOCKS] for line in lines_of(source)]
    assert [line for line in found if line not in written()] == [], AGAIN


@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_value_as_each_kind(block: int) -> None:
    found = [of_table(*table) for table in list(tables())[block::BLOCKS]]
    assert [line for line in found if line not in written()] == [], AGAIN
