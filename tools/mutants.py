"""Mutation testing: small defects, one at a time, and whether the tests notice.

    python tools/mutants.py --seed 1 --count 200 --out mutants.jsonl

A mutant changes one comparison, sign, bound, flag, mask or capacity inside a function of one room.
It exists in memory only: a process that has imported pirkit and the tests forks, the child replaces
the code objects of the changed functions, and runs the tests that reach the changed line, the
quickest first, until one fails. Which tests reach a line is measured once for each room, and stored
beside the results (``OUT.ROOM.json``; delete it after changing tests). Limits are in CPU time, so a
busy machine changes no result: a mutant that needs more than `LIMIT` seconds hangs, which counts as
noticed. Tests that start processes of their own do not see the mutant. A file of results is
continued. At the end come the counts of each room, and the mutants that no test noticed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import coverage
import pytest

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = {
    "passes": "pirkit/passes/{functionalize,cse,dce,inplace,constant_fold,canonicalize}.py",
    "rules": "pirkit/dialect/rules/{index_maps,elementwise}/*.py",
    "split": "pirkit/split/*.py",
    "liveness": "pirkit/{lowering/liveness,analysis/alias}.py",
    "planner": "pirkit/runtime/{planning,arena}.py",
    "fusion": "pirkit/lowering/fusion/*.py",
    "emitters": "pirkit/lowering/codegen/{lower,emit}/*.py",
    "cache": "pirkit/{runtime/native/cache,frontend/compile_cache}.py",
    "readers": "pirkit/frontend/{safetensors_files,paddle/*}.py",
    "vmap": "pirkit/frontend/batching*.py",
}
TESTS: Final = {
    "passes": "tests/unit/passes tests/ir",
    "rules": "tests/fusion/test_cases.py tests/fusion/test_random.py",
    "split": "tests/split/test_random.py",
    "liveness": "tests/unit/passes/test_equivalence.py",
    "planner": "tests/unit/runtime",
    "fusion": "tests/fusion",
    "emitters": "tests/codegen/test_emitted.py tests/codegen/test_fused.py",
    "cache": "tests/codegen/test_cache.py",
    "readers": "tests/frontend/test_paddle_text.py tests/frontend/test_json_damage.py",
    "vmap": "tests/frontend/test_transform_table.py",
}
"""Tests of a room, beside those that are named like one of its files or import one."""
LIMIT: Final = 60
"""CPU seconds of a mutant; its tests take half as long without it."""
SURVEY: Final = 60
"""CPU seconds in which the tests of a room are measured."""
SLOW: Final = 3
"""Tests that take more CPU seconds than this are left out."""
WALL: Final = 900
"""Seconds of wall time after which a child that computes nothing is stuck."""

_COMPARE: Final = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: Final = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Mutant(NamedTuple):
    """A place in a file, and how it is changed."""

    room: str
    path: Path
    place: int

    @property
    def line(self) -> int:
        node: Any = self._nodes[0]
        return node.lineno

    @property
    def told(self) -> dict[str, str]:
        node, other = self._nodes
        at = f"{self.path.relative_to(ROOT)}:{self.line}"
        change = f"{ast.unparse(node)} -> {ast.unparse(other)}"
        return {"room": self.room, "at": at, "change": change}

    @property
    def _nodes(self) -> tuple[ast.AST, ast.AST]:
        return places(ast.parse(self.path.read_text()))[self.place]

    def plant(self) -> bool:
        """Change all functions of this process; False if that is impossible."""
        tree = ast.parse(self.path.read_text())
        node, other = places(tree)[self.place]
        changed = _Replace(node, other).visit(copy.copy(tree))
        before = [*_codes(_code(ast.parse(self.path.read_text()), self.path))]
        after = [*_codes(_code(ast.fix_missing_locations(changed), self.path))]
        if len(before) != len(after):
            return False
        new = {b: a for b, a in zip(before, after, strict=True) if a != b}
        gc.unfreeze()
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        planted = [f for f in functions if f.__code__.co_filename == str(self.path)]
        planted = [f for f in planted if f.__code__ in new]
        for function in planted:
            function.__code__ = new[function.__code__]
        return bool(planted)


class _Replace(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self.node, self.other = node, other

    def visit(self, node: ast.AST) -> Any:
        if node is self.node:
            return ast.copy_location(self.other, node)
        return super().generic_visit(node)


def _code(tree: ast.AST, path: Path) -> CodeType:
    return compile(tree, str(path), "exec", dont_inherit=True)  # pyright: ignore


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of all functions in a code object, outer ones first."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


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
            return ast.Call(ast.Name(_CALLS[name], ast.Load()), arguments, keywords)
        case _:
            return None


def places(tree: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Nodes in functions with what they become, outside of messages, docstrings and types."""
    found: list[tuple[ast.AST, ast.AST]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        inside |= isinstance(node, _FUNCTIONS)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "args"):
                if name != "args" or isinstance(node, _FUNCTIONS):
                    continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.Raise | ast.JoinedStr):
                    continue
                if isinstance(child, ast.AST):
                    other = mutated(child) if inside else None
                    if other is not None:
                        found.append((child, other))
                    visit(child, inside)

    visit(tree, False)
    return found


def files(room: str) -> list[Path]:
    """The files of a room."""
    head, brace, rest = ROOMS[room].partition("{")
    names, _, tail = rest.partition("}")
    patterns = [f"{head}{name}{tail}" for name in names.split(",")] if brace else [ROOMS[room]]
    found = [path for p in patterns for path in sorted(ROOT.glob(p))]
    return [p for p in found if p.name != "__init__.py"]


def test_files(room: str) -> list[str]:
    """Files of tests that are named like a file of a room or import it, and those of the room."""
    ranked: list[tuple[bool, str]] = []
    names = {p.stem for p in files(room)}
    modules = [".".join(p.relative_to(ROOT).with_suffix("").parts) for p in files(room)]
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        alike = bool({test.stem[5:], test.stem[5:].rstrip("s")} & names)
        text = test.read_text()
        if alike or any(f"{module} " in text for module in modules):
            ranked.append((not alike, str(test.relative_to(ROOT))))
    named = [name for _, name in sorted(ranked)]
    return list(dict.fromkeys([*named, *TESTS[room].split()]))


def in_child(run: Callable[[], Any], seconds: int) -> tuple[str, Any]:
    """``ended`` and what a forked process gives, ``hang``, or ``died``."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        child = os.fork()
        if not child:
            os.setsid()
            os.environ["PIRKIT_CACHE_DIR"] = str(Path(folder) / "cache")
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            answer.write_text(json.dumps(run()))
            os._exit(0)
        deadline = time.monotonic() + WALL
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests have left
        if os.WIFSIGNALED(status):
            hangs = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
            return ("hang" if hangs else "died"), None
        return "ended", json.loads(answer.read_text()) if answer.exists() else "failed: no answer"


def run_tests(names: Sequence[str], *plugins: Any) -> int:
    flags = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    with contextlib.chdir(ROOT):
        return int(pytest.main([*flags, *names], plugins=list(plugins)))


class Survey:
    """Which lines of a room each test reaches, and its CPU seconds."""

    def __init__(self, room: str) -> None:
        self.paths = [str(p) for p in files(room)]
        self.coverage = coverage.Coverage(data_file=None, include=self.paths, config_file=False)
        self.seconds: dict[str, float] = {}
        self.bad: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        if start > SURVEY:
            raise pytest.exit.Exception("enough")
        yield
        self.seconds[item.nodeid] = time.process_time() - start
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.bad.add(report.nodeid)

    def run(self, names: Sequence[str]) -> dict[str, Any]:
        self.coverage.start()
        run_tests(names, self)
        self.coverage.stop()
        data = self.coverage.get_data()
        reached: dict[str, dict[int, list[str]]] = {}
        for path in self.paths:
            lines = data.contexts_by_lineno(path)
            reached[path] = {n: [c for c in cs if c] for n, cs in lines.items()}
        good = {t: s for t, s in self.seconds.items() if t not in self.bad and s < SLOW}
        return {"reached": reached, "seconds": good}


class First:
    """The first test that fails."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def survey(room: str, store: Path) -> dict[str, Any]:
    """The survey of a room, from its file if there is one."""
    if not store.exists():
        kind, found = in_child(lambda: Survey(room).run(test_files(room)), SURVEY * 3)
        if kind != "ended":
            raise SystemExit(f"the tests of {room}: {kind}")
        store.write_text(json.dumps(found))
    return json.loads(store.read_text())


def tests_of(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """The quickest tests that reach the line of a mutant, for half of the limit."""
    seconds = known["seconds"]
    reached = known["reached"].get(str(mutant.path), {}).get(str(mutant.line), [])
    found: list[str] = []
    left = LIMIT / 2
    for name in sorted({t for t in reached if t in seconds}, key=lambda t: (seconds[t], t)):
        left -= seconds[name]
        if left < 0:
            break
        found.append(name)
    return found


def examined(mutant: Mutant, known: dict[str, Any]) -> str:
    """``noticed``, ``hang``, ``died``, ``survived``, ``unreached``, or ``none`` if it is none."""
    names = tests_of(mutant, known)
    if not names:
        return "unreached"

    def run() -> str:
        if not mutant.plant():
            return "none"
        first = First()
        return "survived" if run_tests(["-x", *names], first) == 0 else f"noticed {first.failed}"

    kind, found = in_child(run, LIMIT)
    return found if kind == "ended" else kind


def mutants(seed: int, rooms: Sequence[str]) -> Iterator[Mutant]:
    """Room after room, a random place of a random file, larger files more often."""
    draw = random.Random(seed)
    offers: dict[str, list[Mutant]] = defaultdict(list)
    for room in rooms:
        for path in files(room):
            count = len(places(ast.parse(path.read_text())))
            offers[room] += [Mutant(room, path, k) for k in range(count)]
        draw.shuffle(offers[room])
    while any(offers.values()):
        yield from (offers[room].pop() for room in rooms if offers[room])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--room", action="append", choices=ROOMS, help="only of this room")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    os.environ["PIRKIT_TEST_SHARE"] = "3"
    sys.path.insert(0, str(ROOT))
    done: list[dict[str, str]] = []
    if options.out.exists():
        done = [json.loads(line) for line in options.out.read_text().splitlines()]
    seen = {(d["at"], d["change"]) for d in done}
    rooms = options.room or list(ROOMS)
    run_tests(["--collect-only", *dict.fromkeys(t for r in rooms for t in test_files(r))])
    gc.freeze()
    for number, mutant in enumerate(mutants(options.seed, rooms)):
        if number >= options.count:
            break
        told = mutant.told
        if (told["at"], told["change"]) in seen:
            continue
        known = survey(mutant.room, options.out.with_suffix(f".{mutant.room}.json"))
        done.append({**told, "is": examined(mutant, known)})
        with options.out.open("a") as out:
            print(json.dumps(done[-1]), file=out)
    print(report(done))
    return 0


def report(done: list[dict[str, str]]) -> str:
    """The score of each room, and what survived."""
    lines = ["| room | mutants | noticed | survived | unreached | score |", "|---|" + "--:|" * 5]
    done = [{**d, "is": d["is"].split()[0]} for d in done if d["is"] != "none"]
    for room in (*ROOMS, "all"):
        own = [d["is"] for d in done if room in ("all", d["room"])]
        if own:
            lost = [own.count("survived"), own.count("unreached")]
            noticed = len(own) - sum(lost)
            cells = [len(own), noticed, *lost, f"{100 * noticed / len(own):.0f} %"]
            lines.append(f"| {room} | {' | '.join(map(str, cells))} |")
    left = [d for d in done if d["is"] in ("survived", "unreached")]
    return "\n".join([*lines, "", *(f"{d['at']}: {d['change']} ({d['is']})" for d in left)])


if __name__ == "__main__":
    sys.exit(main())
