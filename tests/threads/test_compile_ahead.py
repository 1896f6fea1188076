"""What calls native programs is compiled by another thread while Python lowers the first one."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from pirkit.diag.errors import InternalError
from pirkit.diag.once import once
from pirkit.runtime.native import program

NAME = "pirkit-compile-ahead"


def begun(monkeypatch: pytest.MonkeyPatch, threads: int, error: Exception | None) -> list[str]:
    """The threads that compile the library, when one is asked to begin twice."""
    found: list[str] = []

    def library() -> None:
        found.append(threading.current_thread().name)
        if error:
            raise error

    monkeypatch.setattr(program, "_library", library)
    monkeypatch.setattr(program, "thread_count", lambda: threads)
    ahead: once[None] = once(cast(Any, program.compile_ahead).__wrapped__)
    ahead()
    ahead()
    for thread in threading.enumerate():
        if thread.name == NAME:
            thread.join()
    return found


@pytest.mark.parametrize("error", [None, InternalError("LLVM refuses")])
def test_one_thread_compiles_it_and_leaves_errors_to_the_call(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    assert begun(monkeypatch, 2, error) == [NAME]


def test_no_thread_where_one_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun(monkeypatch, 1, None) == []
