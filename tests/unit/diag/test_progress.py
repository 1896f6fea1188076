"""Progress is for people: it shows on terminals and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from pirkit.diag.progress import track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipe_stays_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track([1, 2, 3], "cases")) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("total", [None, 3])
def test_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(track([1, 2, 3], "cases", total=total)) == [1, 2, 3]
    assert "cases" in stream.getvalue()
