"""The rules of the house that no other tool checks."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from pirkit.dialect.opdef import all_ops

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pirkit"
parsed = cache(ast.parse)
SOURCES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "legacy", "stuff"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".mlir", ".yml", ".yaml", ".cfg", ".sh", ""}

UNSAFE_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "subprocess"}
STARTS_PROCESSES = {
    "pirkit/cli/compare_commits.py",
    "pirkit/cli/reduce_command.py",
    "pirkit/runtime/native/compile_workers.py",
}
"""The files that start the command that a user names, git and the commits to compare, and the
processes that compile."""
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


LOADS = ("np.load", "numpy.load")


def test_nothing_from_a_file_can_become_code() -> None:
    for path in SOURCES:
        name = relative(path)
        tree = parsed(path.read_text(encoding="utf-8"))
        excused = {"subprocess"} if name in STARTS_PROCESSES else set[str]()
        assert not (UNSAFE_MODULES - excused) & set(imported_modules(tree)), name
        for call in calls(tree):
            where, keywords = f"{name}:{call.lineno}", {k.arg: k.value for k in call.keywords}
            if isinstance(call.func, ast.Name):
                assert call.func.id not in UNSAFE_CALLS or name in WRITES_CODE, where
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) in LOADS:
                assert "allow_pickle" in keywords, where
            if "allow_pickle" in keywords:
                assert getattr(keywords["allow_pickle"], "value", None) is False, where


def test_no_file_has_a_vague_name() -> None:
    assert [relative(p) for p in tracked_files() if p.stem in VAGUE_NAMES] == []


MIRRORS = (
    ("pirkit/dialect/ops", "pirkit/dialect/rules"),
    (
        "pirkit/runtime/kernels/numpy",
        "pirkit/runtime/kernels/cupy",
    ),
)
"""Folders with equal names on purpose: an op and its rules, a kernel for one device and another."""


def test_names_of_files_are_unique_within_a_room() -> None:
    """So that a report may name a file by its last part."""
    for room in ROOMS:
        places: dict[str, set[str]] = {}
        for path in room.rglob("*.py"):
            name = relative(path)
            for folders in MIRRORS:
                for folder in folders:
                    name = name.replace(f"{folder}/", f"{folders[0]}/")
            places.setdefault(path.name, set()).add(name)
        several = [names for names in places.values() if len(names) > 1]
        assert [names for names in several if "__init__.py" not in str(names)] == []


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


def test_every_folder_of_several_files_has_a_readme() -> None:
    bare = [
        relative(folder)
        for folder in sorted(path for path in (PACKAGE, *PACKAGE.rglob("*/")) if path.is_dir())
        if len([f for f in folder.glob("*.py") if f.stem != "__init__"]) > 2
        and not (folder / "README.md").exists()
    ]
    assert bare == []


def test_tables_of_readmes_name_every_file() -> None:
    """A table that begins with `| file` lists all Python files beside it, some by a pattern."""
    missing: list[str] = []
    for readme in sorted(PACKAGE.rglob("README.md")):
        text = readme.read_text(encoding="utf-8")
        if "\n| file |" not in text:
            continue
        listed = {name.removesuffix(".py") for name in re.findall(r"`([\w*]+(?:\.py)?)`", text)}
        missing += [
            relative(path)
            for path in sorted(readme.parent.glob("*.py"))
            if path.stem != "__init__" and not any(fnmatch(path.stem, n) for n in listed)
        ]
    assert missing == []


def test_every_room_has_its_place_in_the_order_of_imports() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["id"] == "rooms")
    placed = [room.strip() for layer in layers for room in layer.split("|")]
    assert sorted(placed) == [room.name for room in ROOMS]


def test_imports_keep_to_their_contracts() -> None:
    """As `make imports` checks, for those who run the tests alone: no circle of files, not even of
    types, and no import upwards. In a process of its own, as the checker disables all loggers.
    """
    check = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from importlinter.cli import lint_imports"
    )
    check += "; sys.exit(lint_imports('pyproject.toml', no_cache=True, no_logo=True))"
    command = [sys.executable, "-c", check]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_few_imports_are_inside_functions() -> None:
    """They keep start-up short, break a circle, or need an optional package; each says which."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in SOURCES
        for node in _inside_functions(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert len(found) < 30, found


def _inside_functions(tree: ast.AST) -> set[ast.AST]:
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return {inner for function in functions for inner in ast.walk(function)}


def test_properties_are_cached_without_locks() -> None:
    """A fork would leave the lock of `functools.cached_property` locked in the child."""
    found = [relative(p) for p in SOURCES if "functools import cached_property" in p.read_text()]
    assert found == ["pirkit/diag/once.py"]


def test_limits_of_numpy_are_read_without_its_locks() -> None:
    """`numpy.finfo` computes these when they are read first, in such a property."""
    late = re.compile(r"finfo\(.*\)\.(tiny|resolution|epsneg|machep|negep|nexp|iexp)\b")
    assert [relative(p) for p in SOURCES if late.search(p.read_text())] == []


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
    "pirkit/lowering/codegen/ir/delinearize.py": "instructions of a nest, by their own names",
    "pirkit/lowering/codegen/lower/split_scatter.py": "ways to combine updates, by attribute",
    "pirkit/lowering/whole_program/axis_classes.py": "what its table adds to that of native code",
    "pirkit/lowering/whole_program/factor_common_matmuls.py": "linear ops that it factors out",
    "pirkit/runtime/tensor/array_api.py": "the names of the array API",
    "pirkit/__init__.py": "the names that users see",
    "pirkit/frontend/known_values.py": "the two ops that ask for derivatives",
    "pirkit/frontend/numpy_updates.py": "methods of numpy's `at`, by numpy's names",
    "pirkit/frontend/paddle/json_writer.py": "ops that Paddle's format cannot hold",
    "pirkit/frontend/python_defaults.py": "defaults of Paddle's Python functions",
    "pirkit/passes/fold_batch_norm.py": "the ops with weights that it folds into",
    "pirkit/analysis/linear_forms.py": "the two ops that ask for derivatives",
    "pirkit/frontend/array_namespace.py": "functions of numpy, by numpy's names",
    "pirkit/lowering/native_ops.py": "what binds each op that native code has of its own",
    "pirkit/lowering/whole_program/matmul.py": "the ops that one pass makes of a matmul",
    "pirkit/passes/autodiff.py": "messages on two ops that have no derivative",
    "pirkit/passes/block_quantized.py": "the ops of one rounding, in their order",
}
"""Files that list names which are names of ops, too, and what they stand for there."""

OTHER_LANGUAGES = ("pirkit/onnx/", "pirkit/stablehlo/", "pirkit/torch/", "pirkit/deepxde/")
"""Rooms whose tables translate the names of another framework."""


def listed_names(node: ast.AST, constants: dict[str, ast.AST]) -> list[str]:
    """The strings that a place lists: a set, list or tuple, the keys of a table of data, a text
    that is split at its blanks, alternatives of a pattern, comparisons joined by `or` or in `if`s
    that answer one after the other, cases of a `match`, and unions of such.

    The keys of a table of functions do not count: a rule about ops that a pass rewrites is code.
    """
    found: list[ast.AST] = []
    match node:
        case ast.Set() | ast.List() | ast.Tuple():
            found = [*node.elts]
        case ast.Dict():
            pairs = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if k is not None]
            found = [k for k, _ in pairs] if all(is_data(v) for _, v in pairs) else []
        case ast.Call(func=ast.Attribute(attr="split", value=ast.Constant(value=str(text)))):
            return text.split()
        case ast.Call(func=ast.Name(id="dict")) if all(is_data(k.value) for k in node.keywords):
            return [k.arg for k in node.keywords if k.arg]
        case ast.BoolOp():
            found = [c for v in node.values if isinstance(v, ast.Compare) for c in v.comparators]
        case ast.Match():
            cases = [c for c in node.cases if all(map(is_answer, c.body))]
            patterns = [p for case in cases for p in ast.walk(case.pattern)]
            found = [p.value for p in patterns if isinstance(p, ast.MatchValue)]
        case ast.BinOp(op=ast.BitOr() | ast.Add()):
            return [
                name for side in (node.left, node.right) for name in listed_names(side, constants)
            ]
        case ast.Constant(value=str(text)) if re.fullmatch(r"[^\s`]+\|[^\s`]+", text):
            return re.findall(r"[\w.]+", text)
        case ast.FunctionDef() | ast.For() | ast.While() | ast.If() | ast.With():
            chains = [choice for s in node.body for choice in choices(s)]
            tests = [s.test for s in chains if is_answer(s.body[-1])]
            found = [c for t in tests if isinstance(t, ast.Compare) for c in t.comparators]
        case ast.IfExp(body=body) if is_data(body):
            tests = [n.test for n in ast.walk(node) if isinstance(n, ast.IfExp)]
            found = [c for t in tests if isinstance(t, ast.Compare) for c in t.comparators]
    found = [constants.get(e.id, e) if isinstance(e, ast.Name) else e for e in found]
    return [e.value for e in found if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def choices(statement: ast.stmt) -> Iterator[ast.If]:
    """An `if` with the `elif`s that follow it."""
    if isinstance(statement, ast.If):
        yield statement
        for other in statement.orelse[:1]:
            yield from choices(other)


def is_data(node: ast.AST) -> bool:
    """True for an expression of constants, and names of constants, alone."""
    data = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.Load,
            ast.BinOp, ast.operator)  # fmt: skip
    return all(
        inner.id.isupper() if isinstance(inner, ast.Name) else isinstance(inner, data)
        for inner in ast.walk(node)
    )


def is_answer(statement: ast.stmt) -> bool:
    """True for a statement that only answers: a `return` or an assignment of constants."""
    return (
        isinstance(statement, ast.Return | ast.Assign)
        and statement.value is not None
        and is_data(statement.value)
    )


@cache
def op_names() -> tuple[frozenset[str], frozenset[str]]:
    """The names of all ops, with and without the dialect."""
    full = frozenset(definition.name for definition in all_ops())
    return full, frozenset(name.partition(".")[2] for name in full)


def op_names_in(source: str) -> list[tuple[int, list[str]]]:
    """Places of a file that list ops: two full names, or more than three without the dialect."""
    ops, short = op_names()
    tree = parsed(source)
    constants: dict[str, ast.AST] = {
        target.id: node.value
        for node in tree.body
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name) and isinstance(getattr(node, "value", None), ast.Constant)
    }
    places = [(node, listed_names(node, constants)) for node in ast.walk(tree)]
    return [
        (getattr(node, "lineno", 0), names[:4])
        for node, names in places
        if sum(n in ops for n in names) > 1 or sum(n in short for n in names) > 3
    ]


def test_facts_about_ops_stand_on_their_records() -> None:
    """Sets of op names outside of the dialect are facts that a plug-in cannot state."""
    found = [
        f"{relative(path)}:{line}: {names}"
        for path in SOURCES
        if not relative(path).startswith(("pirkit/dialect/", "pirkit/runtime/kernels/"))
        if not relative(path).startswith(OTHER_LANGUAGES)
        if relative(path) not in RULES_OF_THEIR_OWN
        for line, names in op_names_in(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        'X = {"pd_op.exp", "pd_op.sin"}',
        'X = ("exp", "sin", "cos", "tanh")',
        'X = frozenset("exp sin cos tanh".split())',
        'COST = {"exp": 10, "sin": 20, "cos": 20, "tanh": 12}',
        'COST = {"pd_op.exp": {"float32": 1.0}, "pd_op.sin": {}}',
        "COST = dict(exp=10, sin=20, cos=20, tanh=12)",
        'x = op.name in ("pd_op.exp", "pd_op.sin")',
        'x = op.name == "pd_op.exp" or op.name == "pd_op.sin"',
        'x = op.name.startswith(("pd_op.exp", "pd_op.sin"))',
        'EXP, X = "pd_op.exp", {"pd_op.exp"} | {"pd_op.sin"}',
        'EXP: str = "pd_op.exp"\nSIN = "pd_op.sin"\nX = [EXP, SIN]',
        'X = re.compile(r"pd_op\\.(exp|sin|cos|tanh)")',
        'def f(n):\n  if n == "pd_op.exp":\n    return 1\n  if n == "pd_op.sin":\n    return 1',
        'COST = {**OTHERS, "pd_op.exp": 2 * FEW, "pd_op.sin": FEW}',
        'x = 1 if name == "pd_op.exp" else 2 if name == "pd_op.sin" else 0',
        'def f(n):\n  if n == "pd_op.exp":\n    x = 1\n  elif n == "pd_op.sin":\n    x = 2',
        'match n:\n    case "pd_op.exp":\n        x = 1\n    case "pd_op.sin":\n        x = 2',
        'match name:\n    case "pd_op.exp" | "pd_op.sin":\n        return True',
    ],
)
def test_planted_sets_of_ops_are_found(planted: str) -> None:
    assert op_names_in(planted)


def test_a_table_of_rules_is_not_a_set_of_facts() -> None:
    assert op_names_in('RULES = {"pd_op.exp": exp_rule, "pd_op.sin": sin_rule}') == []
