"""Mutation testing: small defects, one at a time, and whether the tests notice.

    python tools/mutants.py --seed 1 --count 40 --out mutants.jsonl

A mutant changes one comparison, sign, bound, flag, mask or capacity of a file of one room. It runs
in a copy of the tracked files, so the tree is never mutated, with the tests that import the file or
are named like it, under a limit of time. A file of results is continued. At the end come the counts
of each room, and the mutants that no test noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = {
    "passes": ("pirkit/passes/{functionalize,cse,dce,inplace,constant_fold,canonicalize}.py",),
    "rules": ("pirkit/dialect/rules/index_maps/*.py", "pirkit/dialect/rules/elementwise/*.py"),
    "split": ("pirkit/split/*.py",),
    "liveness": ("pirkit/lowering/liveness.py", "pirkit/analysis/alias.py"),
    "planner": ("pirkit/runtime/{planning,arena}.py",),
    "fusion": ("pirkit/lowering/fusion/*.py",),
    "emitters": ("pirkit/lowering/codegen/lower/*.py", "pirkit/lowering/codegen/emit/*.py"),
    "cache": ("pirkit/runtime/native/cache.py", "pirkit/frontend/compile_cache.py"),
    "readers": ("pirkit/frontend/safetensors_files.py", "pirkit/frontend/paddle/*.py"),
    "vmap": ("pirkit/frontend/batching*.py",),
}
TESTS: Final = 4
"""Files of tests for one mutant, those named like the file first."""
ALSO: Final = {
    "passes": "tests/unit/passes/test_equivalence.py tests/ir tests/campaigns/test_programs.py",
    "rules": "tests/fusion/test_cases.py tests/fusion/test_random.py",
    "split": "tests/split/test_random.py",
    "liveness": "tests/unit/passes/test_equivalence.py",
    "planner": "tests/unit/runtime",
    "fusion": "tests/fusion/test_cases.py tests/fusion/test_random.py",
    "emitters": "tests/codegen/test_emitted.py tests/codegen/test_fused.py",
    "cache": "tests/codegen/test_cache.py",
    "readers": "tests/frontend/test_paddle_text.py tests/frontend/test_json_damage.py",
    "vmap": "tests/frontend/test_transform_table.py tests/campaigns/test_programs.py",
}
"""Tests of a room, whatever they import."""

_COMPARE: Final = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: Final = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def mutated(node: ast.AST) -> ast.AST | None:
    """The node with a defect; None if it has nothing to change."""
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in _COMPARE:
            return ast.Compare(left, [_COMPARE[type(op)]()], [right])
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return ast.BinOp(left, _BINARY[type(op)](), right)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _CALLS:
            return ast.Call(ast.Name(_CALLS[name]), arguments, keywords)
        case _:
            return None


def places(source: str) -> list[tuple[ast.AST, str]]:
    """What a file offers: nodes with their mutants, outside of docstrings and types."""
    found: list[tuple[ast.AST, str]] = []

    def visit(node: ast.AST) -> None:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    other = mutated(child)
                    if other is not None:
                        found.append((child, ast.unparse(other)))
                    visit(child)

    visit(ast.parse(source))
    return found


def replaced(source: str, node: ast.AST, text: str) -> str:
    """The source with the text of a node replaced, in parentheses so that it stays one operand."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    data = source.encode()
    first = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
    last = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
    return (data[:first] + f"({text})".encode() + data[last:]).decode()


def files(room: str) -> list[Path]:
    """The files of a room."""
    found: list[Path] = []
    for pattern in ROOMS[room]:
        head, brace, rest = pattern.partition("{")
        names, _, tail = rest.partition("}")
        patterns = [f"{head}{name}{tail}" for name in names.split(",")] if brace else [pattern]
        found += [path for p in patterns for path in sorted(ROOT.glob(p))]
    return [p for p in found if p.name != "__init__.py"]


def tests_of(room: str, path: Path) -> list[str]:
    """Files of tests that are named like a file or import it, and those of its room."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    ranked: list[tuple[int, str]] = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        alike = path.stem in test.stem or test.stem[5:] in (path.stem, f"{path.stem}s")
        imports = f"{module} " in test.read_text()
        if alike or imports:
            ranked.append((not alike, str(test.relative_to(ROOT))))
    return list(dict.fromkeys([*(name for _, name in sorted(ranked)[:TESTS]), *ALSO[room].split()]))


def outcome(copy: Path, tests: list[str], seconds: float) -> str:
    """``passed``, ``failed``, or ``timeout``: the mutant hangs, or the machine is busy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PIRKIT_TEST_SHARE": "3", "PIRKIT_CACHE_DIR": str(copy / ".c")}
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:  # fmt: skip
        try:
            return "passed" if child.wait(seconds) == 0 else "failed"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return "timeout"


def mutants(seed: int) -> Iterator[tuple[str, Path, int]]:
    """Room, file, and place, room after room."""
    draw = random.Random(seed)
    while True:
        for room in ROOMS:
            path = draw.choice(files(room))
            found = places(path.read_text())
            if found:
                yield room, path, draw.randrange(len(found))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=120, help="limit of one run of tests")
    parser.add_argument("--out", type=Path, help="results, one JSON object a line; continued")
    options = parser.parse_args()
    done: list[dict[str, str]] = []
    if options.out and options.out.exists():
        done = [json.loads(line) for line in options.out.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        tracked = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in tracked.stdout.splitlines():
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        for number, (room, path, place) in enumerate(mutants(options.seed)):
            if number >= options.count:
                break
            if number < len(done):
                continue
            done.append(_one(copy, room, path, place, options.seconds))
            if options.out:
                with options.out.open("a") as out:
                    print(json.dumps(done[-1]), file=out)
    print(report(done))
    return 0


def _one(copy: Path, room: str, path: Path, place: int, seconds: float) -> dict[str, str]:
    """The result of one mutant."""
    source = path.read_text()
    node, text = places(source)[place]
    where = path.relative_to(ROOT)
    (copy / where).write_text(replaced(source, node, text))
    try:
        found = outcome(copy, tests_of(room, path), seconds)
    finally:
        (copy / where).write_text(source)
    line: int = node.lineno  # type: ignore[attr-defined]
    was = ast.unparse(node)
    return {"room": room, "at": f"{where}:{line}", "change": f"{was} -> {text}", "is": found}


def report(done: list[dict[str, str]]) -> str:
    """The score of each room, and what survived."""
    lines = ["| room | mutants | noticed | too slow | survived |", "|---|--:|--:|--:|--:|"]
    for room in (*ROOMS, "all"):
        own = [d for d in done if room in ("all", d["room"])]
        counts = [sum(d["is"] == kind for d in own) for kind in ("failed", "timeout", "passed")]
        if own:
            lines.append(f"| {room} | {' | '.join(map(str, [len(own), *counts]))} |")
    lines += ["", *(f"{d['at']}: {d['change']}" for d in done if d["is"] == "passed")]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
