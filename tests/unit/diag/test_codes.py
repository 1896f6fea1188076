"""Codes, pages, exception classes and the index belong together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pirkit.diag import errors
from pirkit.diag.advice import ADVICE
from pirkit.diag.codes import CODES, Code
from pirkit.diag.errors import (
    CallError,
    ConstraintError,
    MissingAttributeError,
    PirkitError,
    SubscriptError,
)

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "pirkit" / "diag" / "pages"
SOURCES = sorted((ROOT / "pirkit").rglob("*.py"))


def descendants(cls: type[PirkitError]) -> Iterator[type[PirkitError]]:
    for child in cls.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from descendants(child)


@pytest.mark.parametrize("code", list(CODES.values()), ids=lambda c: c.code)
def test_page_has_title_example_and_fix(code: Code) -> None:
    page = code.page()
    assert page.startswith(f"# {code.code}: {code.title}\n\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["Example", "Fix"]
    assert page.count("```") % 2 == 0
    assert page.isascii(), "pages are shown in every locale"
    assert max(map(len, page.splitlines())) <= 100


def test_every_page_has_a_code() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == list(CODES)


def test_codes_are_in_ascending_order() -> None:
    assert list(CODES) == sorted(CODES)


def test_index_lists_every_code() -> None:
    index = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(PK\d{4})\]\(\S*/\1\.md\) \| (.*?) \| `(\w+)` \|$", index, re.MULTILINE
    )
    assert rows == [(c.code, c.title, c.error.__name__) for c in CODES.values()]


@pytest.mark.parametrize("cls", list(descendants(PirkitError)), ids=lambda c: c.__name__)
def test_every_exception_class_has_a_code(cls: type[PirkitError]) -> None:
    code = CODES[cls.default_code]
    # a VerifyError to users; UsageErrors by their codes
    if cls not in (ConstraintError, CallError, SubscriptError, MissingAttributeError):
        assert code.error is cls


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("InputError", 1),
        ("ParseError", 1),
        ("VerifyError", 1),
        ("LimitError", 1),
        ("UnsupportedError", 1),
        ("ArtifactError", 1),
        ("MismatchError", 1),
        ("RuntimeFault", 1),
        ("UsageError", 2),
        ("PassError", 3),
        ("InternalError", 70),
    ],
)
def test_exit_code(name: str, exit_code: int) -> None:
    assert getattr(errors, name).exit_code == exit_code


def test_every_code_in_the_sources_is_known() -> None:
    unknown = [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"PK\d{4}", node.value)
        and node.value not in CODES
        and node.value != PirkitError.default_code
    ]
    assert unknown == []


def _without_a_hint(path: Path) -> Iterator[str]:
    """Places that make an error of a fixed code that says nothing about what to do."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        cls = getattr(errors, node.func.id, None)
        given = {k.arg: k.value for k in node.keywords}
        if not (isinstance(cls, type) and issubclass(cls, PirkitError)) or {"help", None} & {
            *given
        }:
            continue
        code = given.get("code")
        known = cls.default_code if code is None else getattr(code, "value", None)
        if isinstance(known, str) and known not in ADVICE:
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {known}"


def test_every_error_of_a_fixed_code_says_what_to_do() -> None:
    """By ``help=`` where it is raised, or by the advice for its code."""
    assert [place for path in SOURCES for place in _without_a_hint(path)] == []
