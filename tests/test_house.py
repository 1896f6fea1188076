"""The rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pirkit"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "legacy", "stuff"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".mlir", ".yml", ".yaml", ".cfg", ".sh", ""}

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "subprocess"}
STARTS_PROCESSES = {"pirkit/runtime/native/children.py"}
"""The file that starts the processes that compile."""
UNSAFE_CALLS = {"eval", "exec", "__import__"}

# Written in pieces, so that this file does not contain them.
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "tm" + "p"]) + r")/[\w.]"
)
DOWNLOAD_HOSTS = re.compile(
    "|".join(["py" + r"pi\.org", "files.python" + "hosted", "whl" + "/cpu"])
)


def tracked_files() -> Iterator[Path]:
    """The files of the repository; without git, those of the package and of the tests."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        paths = (ROOT / name for name in listed.stdout.split("\0") if name)
        yield from (path for path in paths if path.is_file())
        return
    for folder in ("pirkit", "tests", "docs"):
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file())


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_from_a_file_can_become_code(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    excused = {"subprocess"} if relative(path) in STARTS_PROCESSES else set[str]()
    assert not (UNSAFE_MODULES - excused) & set(imported_modules(tree))
    for call in calls(tree):
        if isinstance(call.func, ast.Name):
            assert call.func.id not in UNSAFE_CALLS, f"line {call.lineno}"
        for keyword in call.keywords:
            if keyword.arg == "allow_pickle":
                allowed = keyword.value
                assert isinstance(allowed, ast.Constant), f"line {call.lineno}"
                assert allowed.value is False, f"line {call.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_npz_files_are_loaded_without_objects(path: Path) -> None:
    for call in calls(ast.parse(path.read_text(encoding="utf-8"))):
        if ast.unparse(call.func) in ("np.load", "numpy.load"):
            assert "allow_pickle" in {k.arg for k in call.keywords}, f"line {call.lineno}"


def test_no_file_has_a_vague_name() -> None:
    assert [relative(p) for p in tracked_files() if p.stem in VAGUE_NAMES] == []


@pytest.mark.parametrize("pattern", [MACHINE_PATHS, DOWNLOAD_HOSTS], ids=["paths", "hosts"])
def test_no_file_names_a_machine(pattern: re.Pattern[str]) -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()[:80]}"
        for path in tracked_files()
        if path.suffix in TEXT_SUFFIXES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_has_a_short_readme(room: Path) -> None:
    lines = (room / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# {room.name}"
    assert len(lines) <= 40
    assert any(line.startswith("**May import**") for line in lines)


def test_every_room_has_its_place_in_the_order_of_imports() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["id"] == "rooms")
    placed = [room.strip() for layer in layers for room in layer.split("|")]
    assert sorted(placed) == [room.name for room in ROOMS]


def test_links_between_pages_lead_somewhere() -> None:
    link = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
    broken = [
        f"{relative(page)} -> {target}"
        for page in tracked_files()
        if page.suffix == ".md"
        for target in link.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
