"""Every captured case gives Paddle's numbers, as it is and after the default passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pirkit.frontend.cases import SOURCES, check_case
from pirkit.frontend.compile import DEFAULT_PIPELINE

CASES = sorted(p for p in (Path(__file__).parent / "paddle").iterdir() if p.is_dir())
EXPORTED = {p for p in CASES if (p / "model.json").is_file()}


@pytest.mark.parametrize("pipeline", ["", DEFAULT_PIPELINE], ids=["plain", "default"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_numbers_are_those_of_paddle(case: Path, source: str, pipeline: str) -> None:
    report = check_case(case, source, pipeline=pipeline)
    if source == "json" and case not in EXPORTED:
        assert report.status == "skip"
        return
    assert report.status == "pass", report.message
    assert "output" in report.errors
