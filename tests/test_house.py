"""The rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pirkit.dialect.opdef import all_ops

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pirkit"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "legacy", "stuff"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".mlir", ".yml", ".yaml", ".cfg", ".sh", ""}

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "subprocess"}
STARTS_PROCESSES = {
    "pirkit/cli/reduce_command.py",
    "pirkit/runtime/native/compile_workers.py",
}
"""The files that start the command that a user names, and the processes that compile."""
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


WRITES_CODE = {
    "pirkit/frontend/generated_code.py": "functions for one structure of arguments, of `jit`",
}
"""Files that may turn text into code, and what they make of it."""


def test_nothing_from_a_file_can_become_code() -> None:
    for path in SOURCES:
        name = relative(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        excused = {"subprocess"} if name in STARTS_PROCESSES else set[str]()
        assert not (UNSAFE_MODULES - excused) & set(imported_modules(tree)), name
        for call in calls(tree):
            where, keywords = f"{name}:{call.lineno}", {k.arg: k.value for k in call.keywords}
            if isinstance(call.func, ast.Name):
                assert call.func.id not in UNSAFE_CALLS or name in WRITES_CODE, where
            if ast.unparse(call.func) in ("np.load", "numpy.load"):
                assert "allow_pickle" in keywords, where
            if "allow_pickle" in keywords:
                assert getattr(keywords["allow_pickle"], "value", None) is False, where


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


def test_few_imports_are_inside_functions() -> None:
    """They keep start-up short, break a circle, or need an optional package; each says which."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        for node in _inside_functions(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert len(found) < 30, found


def _inside_functions(tree: ast.AST) -> set[ast.AST]:
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {inner for function in functions for inner in ast.walk(function)}


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


RULES_OF_THEIR_OWN = {
    "pirkit/lowering/codegen/math/primitives.py": "instructions, by their own names",
    "pirkit/lowering/codegen/lower/scalar_ops.py": "the rows of its table that integers use too",
    "pirkit/lowering/codegen/math/vecmath_tables.py": "the polynomials that it holds",
    "pirkit/lowering/codegen/ir/loopnest.py": "the names of its own reductions",
    "pirkit/lowering/whole_program/axis_classes.py": "what its table adds to that of native code",
    "pirkit/runtime/tensor/array_api.py": "the names of the array API",
    "pirkit/__init__.py": "the names that users see",
    "pirkit/frontend/known_values.py": "the two ops that ask for derivatives",
    "pirkit/passes/fold_batch_norm.py": "the ops with weights that it folds into",
    "pirkit/torch/aten/elementwise.py": "overloads of torch, by torch's names",
    "pirkit/deepxde/elementwise.py": "functions of torch, by torch's names",
    "pirkit/deepxde/torch_functions.py": "functions of torch, by torch's names",
}
"""Files that list names which are names of ops, too, and what they stand for there."""


def listed_names(node: ast.AST) -> list[str]:
    """The strings of a set, list or tuple, or of a text that is split at its blanks."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return [
            e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)
        ]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "split"
        and isinstance(node.func.value, ast.Constant)
        and isinstance(node.func.value.value, str)
    ):
        return node.func.value.value.split()
    return []


def test_facts_about_ops_stand_on_their_records() -> None:
    """Sets of op names outside of the dialect are facts that a plug-in cannot state."""
    ops = {definition.name for definition in all_ops()}
    short = {name.partition(".")[2] for name in ops}
    found: list[str] = []
    for path in SOURCES:
        where = relative(path)
        if where.startswith(("pirkit/dialect/", "pirkit/runtime/kernels/")):
            continue
        if where in RULES_OF_THEIR_OWN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = listed_names(node)
            if sum(n in ops for n in names) > 1 or sum(n in short for n in names) > 3:
                found.append(f"{where}:{node.lineno}: {names[:4]}")
    assert found == []
