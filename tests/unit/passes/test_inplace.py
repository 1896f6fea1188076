"""Programs that write in place where they may: the numbers of every captured case stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from pirkit.frontend.cases import check_case

FOLDER = Path(__file__).parents[2] / "corpus" / "paddle"
CASES = sorted(p for p in FOLDER.iterdir() if p.is_dir())


@pytest.mark.parametrize("source", ["main", "split"])
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_numbers_stay_those_of_paddle(case: Path, source: str) -> None:
    report = check_case(case, source, pipeline="@default,inplace")
    assert report.status == "pass", report.message
