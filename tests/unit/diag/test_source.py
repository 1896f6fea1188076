"""Excerpts come from files that the user named, and from no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pirkit.diag import span
from pirkit.diag.source import CACHED_TEXTS, register_source, source_line, trust_source


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.txt"
    path.write_bytes(b"first\r\nsecond\nthird \xff")
    return path


def test_file_that_nobody_named_is_not_read(program: Path) -> None:
    assert source_line(str(program), 1) is None


@pytest.mark.parametrize(
    ("number", "line"),
    [(0, None), (1, "first"), (2, "second"), (3, "third \N{REPLACEMENT CHARACTER}"), (4, None)],
)
def test_named_file_is_read_by_line(program: Path, number: int, line: str | None) -> None:
    trust_source(str(program))
    assert source_line(str(program), number) == line


def test_named_folder_admits_its_files_but_not_those_below(program: Path) -> None:
    trust_source(str(program.parent))
    below = program.parent / "below"
    below.mkdir()
    (below / "program.txt").write_text("first")
    assert source_line(str(program), 1) == "first"
    assert source_line(str(below / "program.txt"), 1) is None


def test_link_out_of_a_named_folder_is_not_followed(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "link.txt").symlink_to(program)
    trust_source(str(folder))
    assert source_line(str(folder / "link.txt"), 1) is None


def test_python_source_of_this_process_is_read() -> None:
    assert source_line(str(span.__file__), 1) == '"""Places that a diagnostic can point at."""'


@pytest.mark.parametrize("name", ["nowhere.txt", "a\0b", "", "."])
def test_what_is_no_file_has_no_lines(name: str) -> None:
    trust_source("nowhere.txt")
    assert source_line(name, 1) is None


def test_file_that_cannot_be_opened_has_no_lines(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise PermissionError

    trust_source(str(program))
    monkeypatch.setattr("builtins.open", refuse)
    assert source_line(str(program), 1) is None


def test_binary_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"\0\1\2\n")
    trust_source(str(path))
    assert source_line(str(path), 1) is None


@pytest.mark.parametrize(("number", "line"), [(1, "a"), (2, "b"), (3, ""), (4, None), (0, None)])
def test_registered_text_is_read_by_line(number: int, line: str | None) -> None:
    register_source("<stdin>", "a\r\nb\n")
    assert source_line("<stdin>", number) == line


def test_latest_registered_texts_are_kept() -> None:
    for i in range(CACHED_TEXTS + 1):
        register_source(f"text {i}", "line")
    assert source_line("text 0", 1) is None
    assert source_line("text 1", 1) == "line"
