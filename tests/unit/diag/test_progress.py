"""Progress is for people: it shows on terminals and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from pirkit.diag.progress import delayed_bar, track


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


def late(total: int, after: float) -> None:
    with delayed_bar("kernels", total, after=after) as told:
        for done in range(1, total + 1):
            told(done)


def test_a_late_bar_is_shown_when_work_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    late(3, after=60.0)
    assert not shown.getvalue()
    late(3, after=0.0)
    assert "kernels" in shown.getvalue()


def test_a_late_bar_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    late(3, after=0.0)
    assert not capsys.readouterr().err
