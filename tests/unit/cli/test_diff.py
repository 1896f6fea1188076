"""`pirkit diff`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pirkit.cli.main import main
from pirkit.frontend.compile import run_passes
from pirkit.frontend.files import load, save

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
FILE = str(CORPUS / "transformer_encoder" / "program.txt")
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def diff(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["pirkit", "diff", *arguments])
        return main(), capsys.readouterr().out

    return call


def test_formats_and_numbers_of_values_do_not_count(diff: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other.mlir")
    save(load(FILE), other)
    assert diff(FILE, other) == (0, "")


def test_what_a_pass_removed_is_all_that_is_shown(diff: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other.mlir")
    save(run_passes(load(FILE), "cse"), other)
    code, out = diff(FILE, other)
    assert code == 1
    assert out.endswith("2 removed, 0 added, 2 changed\n")
    assert sum(line.startswith("-  ") for line in out.splitlines()) == 4
    code, out = diff(FILE, other, "--json")
    assert code == 1
    assert json.loads(out)["removed"] == 2
