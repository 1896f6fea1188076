"""Wrong usages of the commands: each gets a code, a place if there is one, and a hint that helps.

Rows of `wrong_usages.txt` are ``command | code, place | words of the hint``.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pirkit.cli.main import main as pirkit
from pirkit.cli.opt import main as opt
from pirkit.cli.reduce import main as reduce
from pirkit.cli.run import main as run
from pirkit.diag.codes import CODES
from tests.unit.cli.wrong_files import write_files

TABLE = Path(__file__).with_name("wrong_usages.txt").read_text(encoding="utf-8")
ROWS = [
    tuple(part.strip() for part in line.split(" | "))
    for line in TABLE.splitlines()
    if line and not line.startswith("#")
]
COMMANDS: dict[str, Callable[[], int]] = {
    "pirkit": pirkit, "pirkit-opt": opt, "pirkit-run": run, "pirkit-reduce": reduce,
}  # fmt: skip
XDSL = re.compile(r"SSA value|could not parse|expect symbol|Traceback|xdsl|argument of type")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    write_files(made)
    return made


def test_there_are_many() -> None:
    assert len(ROWS) >= 150
    assert len({command for command, *_ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("command", "where", "hint"), ROWS, ids=[row[0] for row in ROWS])
def test_a_wrong_usage_is_answered(
    command: str,
    where: str,
    hint: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PIRKIT_CACHE_DIR", str(folder / "cache"))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    exit_code = COMMANDS[sys.argv[0]]()
    shown = capsys.readouterr().err
    code, _, place = where.partition(" ")
    assert f"error[{code}]: " in shown
    assert exit_code == CODES[code].error.exit_code
    places = re.findall(r"^ *--> (.*)$", shown, re.MULTILINE)
    assert places == ([place] if place else [])
    assert hint in shown.partition("= help: ")[2]
    assert not XDSL.search(shown)


@pytest.mark.parametrize("command", ["pirkit-opt matmul.mlir", "pirkit-opt m.pt"])
def test_columns_hold_in_pipes(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    COMMANDS[sys.argv[0]]()
    assert max(map(len, capsys.readouterr().err.splitlines())) <= 40
