"""Mutation testing: small defects, one at a time, and whether the tests notice.

    python tools/mutants.py --seed 1 --count 200 --out mutants.jsonl

A mutant changes one comparison, sign, bound, flag, mask or capacity inside a function of one room.
It exists in memory only: a process that has imported pirkit and the tests forks, the child replaces
the code objects of the changed functions, and runs the tests that reach the changed line, the
quickest of each file first, until one fails (which must pass without the mutant). Which tests reach
a line is measured once, and stored beside the results (``OUT.lines.jsonl``, or ``--lines``; delete
the lines of files of tests that changed, and all if pirkit changed). This takes 10 minutes of CPU
time for all rooms, and says how far it is. Limits are in CPU time, so a busy machine
changes no result: a mutant that needs much longer hangs, which counts as killed.
With
``--confirm SECONDS`` what survives meets all other tests that reach it, for so long: the quick
score says how much a few tests notice, the other one how much the suite notices.
Tests that start processes of their own do not see the mutant. A file of results is continued. At
the end come the counts of each room, and the mutants that no test noticed, but for those that
``mutants_explained.toml`` explains: they change nothing that a test could ask for.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import itertools
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from importlib import import_module
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
    "passes": "ir unit/passes unit/cli/test_pass_files.py campaigns/test_survivors_of_rooms.py",
    "rules": "fusion/test_{rules,indices,cases,random,dynamic_shapes}.py"
    " fusion/test_{other_sizes,rule_numbers}.py"
    " prim/test_{rules,complex,special}.py fusion/test_{growth,named_sizes,scatter}.py"
    " fusion/test_{bounds,library_spaces,overlapping,shifts,tiles}.py"
    " campaigns/test_{found,generated,mixed,survivors,survivors_of_fusion}.py",
    "split": "split/test_{budget,cases_interface,cases_regions,cases_runs,cases_storage}.py"
    " split/test_{costs,maxflow,output_aliases,own_gradients,poison,properties,reused}.py"
    " split/test_{runnable,runnable_files}.py"
    " split/test_where_backward_begins.py split/test_small_programs.py attacks/test_attacks_json.py"
    " campaigns/test_{decisions,programs,survivors,survivors_of_rooms,survivors_of_split}.py",
    "liveness": "unit/{analysis,lowering} unit/passes/test_equivalence.py"
    " campaigns/test_{decisions,programs,survivors}.py",
    "planner": "unit/{runtime,lowering} campaigns/test_{decisions,programs,survivors}.py"
    " campaigns/test_survivors_of_rooms.py",
    "fusion": "fusion/test_{bounds,cases,certificates,choices,counts,default,dynamic_shapes}.py"
    " fusion/test_{growth,indices,not_fused,precision,print,recompute,refusals,scatter}.py"
    " fusion/test_{kernel_region,library_spaces,named_sizes,overlapping,random,shifts}.py"
    " fusion/test_numbers_of_shapes.py"
    " fusion/test_{tiles,writes}.py ir campaigns/test_survivors_of_fusion.py"
    " campaigns/test_{decisions,found,generated,mixed,programs,survivors,survivors_of_code}.py",
    "emitters": "codegen/test_{conv_loops,emitted,fused,guarded,kernels,numbers,sanitize}.py"
    " codegen/test_{prefetch,scatter,segments,targets,tiled_nest,tiles}.py"
    " codegen/test_{accumulate,register_transpose,streams,work}.py"
    " whole_program/test_{columns,cumulative,batch_lanes,native_loops}.py"
    " campaigns/test_{decisions,found,generated,mixed,programs,survivors,survivors_of_code}.py",
    "cache": "codegen/test_{array_file,cache,parallel_compile}.py"
    " whole_program/test_{cached_plans,cached_programs,frozen_cache}.py"
    " attacks/test_endless_files.py campaigns/test_survivors_of_rooms.py",
    "readers": "frontend/test_{checkpoint,json_damage,json_values,paddle_json,paddle_text}.py"
    " frontend/test_{params,single,tensor_arrays,unfilled,wrong_types}.py unit/frontend attacks"
    " dialect/test_{attribute_names,declared_types,text}.py"
    " campaigns/test_{damaged,survivors,survivors_of_rooms}.py",
    "vmap": "frontend/test_{checkpoint,one_tensor,transform_table}.py campaigns/test_programs.py",
}
"""Folders and files of tests that may notice mutants of a room."""
LIMIT: Final = 60
"""CPU seconds of a mutant at most."""
SURVEY: Final = 4
"""CPU seconds in which the tests of a file are measured."""
LONG: Final = {
    "tests/prim/test_rules.py": 150,
    "tests/fusion/test_named_sizes.py": 20,
    "tests/fusion/test_rule_numbers.py": 30,
    "tests/frontend/test_transform_table.py": 90,
    "tests/campaigns/test_programs.py": 20,
    "tests/campaigns/test_survivors.py": 20,
    "tests/campaigns/test_damaged.py": 60,
    "tests/campaigns/test_decisions.py": 240,
    "tests/campaigns/test_generated.py": 120,
    "tests/campaigns/test_mixed.py": 240,
}
"""The same of files that have tests of their own for each op."""
MORE: Final = {
    "tests/campaigns/test_damaged.py": 8,
    "tests/campaigns/test_decisions.py": 8,
    "tests/campaigns/test_generated.py": 4,
    "tests/campaigns/test_mixed.py": 8,
    "tests/fusion/test_cases.py": 4,
}
"""Files that notice most mutants have so many times the time of others."""
SLOW: Final = 15
"""Tests that take more CPU seconds than this are left out."""
WALL: Final = 8
"""Seconds for each CPU second of the limit after which a child that only waits is stuck."""

_COMPARE: Final = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_BINARY: Final = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.FloorDiv,
}  # fmt: skip
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SCOPES: Final = (ast.ClassDef, ast.FunctionDef)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Mutant(NamedTuple):
    """A place in a file, and how it is changed."""

    room: str
    path: Path
    place: int

    @property
    def lines(self) -> range:
        """The lines of the smallest statement or lambda around it, but for statements in that."""
        tree, node = self._tree, self._nodes[0]
        kinds = (ast.stmt, ast.Lambda)
        around = [s for s in ast.walk(tree) if isinstance(s, kinds) and _within(node, s)]
        found = min(around, key=lambda s: (s.end_lineno or 0) - s.lineno)
        inner = [s.lineno for s in ast.walk(found) if isinstance(s, ast.stmt) and s is not found]
        return range(found.lineno, min([*inner, (found.end_lineno or 0) + 1]))

    @property
    def around(self) -> str:
        """The text of the function at the top of the file around it, or of its lines."""
        lines = self.path.read_text().splitlines()
        tops = [s for s in self._tree.body if isinstance(s, ast.FunctionDef)]
        for top in (s for s in tops if _within(self._nodes[0], s)):
            first = min([top.lineno, *(d.lineno for d in top.decorator_list)])
            return "\n".join(lines[first - 1 : top.end_lineno])
        return "\n".join(lines[self.lines.start - 1 : self.lines.stop - 1])

    @property
    def told(self) -> dict[str, str]:
        node, other = self._nodes
        scopes = [s for s in ast.walk(self._tree) if isinstance(s, _SCOPES) and _within(node, s)]
        change = f"{ast.unparse(node)} -> {ast.unparse(other)}"
        alike = [n for n in self._alike(node, other) if _within(n, (scopes or [node])[-1])]
        if len(alike) > 1:  # which of them
            change += f" #{alike.index(node) + 1}"
        at = f"{self.path.relative_to(ROOT)}:{self.lines.start}"
        names = ".".join([self.path.stem, *(s.name for s in scopes)])
        return {"room": self.room, "at": at, "in": names, "change": change}

    def _alike(self, node: ast.AST, other: ast.AST) -> list[ast.AST]:
        found = [
            n for n, o in places_of(self.path) if type(n) is type(node) and type(o) is type(other)
        ]
        return [n for n in found if ast.unparse(n) == ast.unparse(node)]

    @property
    def _tree(self) -> ast.Module:
        return parsed(self.path)

    @property
    def _nodes(self) -> tuple[ast.AST, ast.AST]:
        return places_of(self.path)[self.place]

    def plant(self) -> bool:
        """Change all functions of this process; False if that is impossible."""
        node, other = self._nodes
        changed = _Replace(node, other).visit(copy.copy(self._tree))
        before = [*_codes(_code(ast.parse(self.path.read_text()), self.path))]
        after = [*_codes(_code(ast.fix_missing_locations(changed), self.path))]
        if [c.co_freevars for c in before] != [c.co_freevars for c in after]:
            return False
        new = {b: a for b, a in zip(before, after, strict=True) if a != b}
        gc.unfreeze()
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        planted = [f for f in functions if f.__code__.co_filename == str(self.path)]
        planted = [f for f in planted if f.__code__ in new]
        for function in planted:
            function.__code__ = new[function.__code__]
        return bool(planted)


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, always the same one."""
    return ast.parse(path.read_text())


@cache
def places_of(path: Path) -> list[tuple[ast.AST, ast.AST]]:
    """The places of a file, always the same nodes."""
    return places(parsed(path))


def _within(node: Any, outer: Any) -> bool:
    start = (outer.lineno, outer.col_offset) <= (node.lineno, node.col_offset)
    return start and (node.end_lineno, node.end_col_offset) <= (
        outer.end_lineno,
        outer.end_col_offset,
    )


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
        case ast.BinOp(left, op, right) if type(op) in _BINARY and not _text(left, right):
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


def _asserts(node: object) -> bool:
    """Whether a node is ``strict=...`` of a zip: it checks a belief, and changes no result."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _text(*nodes: ast.AST) -> bool:
    return any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in nodes)


def places(tree: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Nodes in functions with what they become, outside of messages, types and assertions."""
    found: list[tuple[ast.AST, ast.AST]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        inside |= isinstance(node, _FUNCTIONS)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "args"):
                if name != "args" or isinstance(node, _FUNCTIONS):
                    continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.Raise | ast.JoinedStr) or _asserts(child):
                    continue
                if isinstance(child, ast.AST):
                    other = mutated(child) if inside else None
                    if other is not None:
                        found.append((child, other))
                    visit(child, inside)

    visit(tree, False)
    return found


def spread(names: str) -> list[str]:
    """Names with all that stands in their braces."""
    found: list[str] = []
    for name in names.split():
        head, brace, rest = name.partition("{")
        some, _, tail = rest.partition("}")
        found += [f"{head}{part}{tail}" for part in some.split(",")] if brace else [name]
    return found


def files(room: str) -> list[Path]:
    """The files of a room."""
    found = [path for p in spread(ROOMS[room]) for path in sorted(ROOT.glob(p))]
    return [p for p in found if p.name != "__init__.py"]


def in_child(run: Callable[[], Any], seconds: int) -> tuple[str, Any]:
    """``ended`` and what a forked process gives, ``hang``, or ``died``."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        child = os.fork()
        if not child:
            os.setsid()
            os.environ["PIRKIT_CACHE_DIR"] = str(Path(folder) / "cache")
            os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = folder
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                answer.write_text(json.dumps(run()))
            finally:
                os._exit(0)
        deadline = time.monotonic() + WALL * seconds
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests have left
        if os.WIFSIGNALED(status):
            hangs = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
            return ("hang" if hangs else "died"), None
        return "ended", json.loads(answer.read_text()) if answer.exists() else "none"


class Known(NamedTuple):
    """What a test costs, and the lines of each file that it reaches, as the bits of a number."""

    seconds: float
    reached: dict[str, str]

    def reaches(self, path: Path, lines: range) -> bool:
        bits = int(self.reached.get(str(path.relative_to(ROOT)), "0"), 16)
        return any(bits >> line & 1 for line in lines)

    @property
    def extent(self) -> int:
        """The number of lines that it reaches."""
        return sum(int(bits, 16).bit_count() for bits in self.reached.values())


class Laboratory:
    """Collects all tests once, and examines mutants in forks of this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.items: dict[str, pytest.Item] = {}
        self.failed = ""
        self.known: dict[str, Known] = {}
        self.trusted: set[str] = set()
        self.bad: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        for path in (p for room in ROOMS for p in files(room)):  # only what is loaded is changed
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        gc.freeze()
        self._survey()
        out: Path = self.options.out
        done = results(out)
        seen = {(d["at"], d["change"]) for d in done}
        rooms = self.options.room or list(ROOMS)
        drawn = (
            again(self.options.again) if self.options.again else mutants(self.options.seed, rooms)
        )
        for mutant in itertools.islice(drawn, self.options.count):
            told = mutant.told
            if (told["at"], told["change"]) not in seen:
                with out.open("a") as file:
                    print(json.dumps({**told, **self.examined(mutant)}), file=file)
        return True

    def run(self, names: Iterable[str], before: Callable[[str], bool] = lambda _: False) -> str:
        """Run tests in a child; the name of the first that fails, which ends the run.

        With ``before`` tests go on where it is true for the next one.
        """
        items = [self.items[n] for n in names]
        plugins = items[0].config.pluginmanager
        if reporter := plugins.get_plugin("terminalreporter"):
            plugins.unregister(reporter)
        for item, following in itertools.zip_longest(items, items[1:]):
            if not before(item.nodeid) and self.failed:
                break
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self.failed

    def _survey(self) -> None:
        """Measure which lines each test reaches, a file of tests after another; stored."""
        store: Path = self.options.lines
        found = (
            dict(json.loads(t) for t in store.read_text().splitlines()) if store.exists() else {}
        )
        groups: dict[str, list[str]] = defaultdict(list)
        for name in self.items:
            groups[name.partition("::")[0]].append(name)
        for number, (file, names) in enumerate(groups.items(), 1):
            if file not in found:
                print(f"measuring {file}, {number} of {len(groups)}", file=sys.stderr)
                kind, found[file] = in_child(
                    partial(self._reached, names, LONG.get(file, SURVEY)), 600
                )
                found[file] = found[file] if kind == "ended" and found[file] != "none" else {}
                with store.open("a") as stream:
                    print(json.dumps([file, found[file]]), file=stream)
        self.known = {
            name: Known(*known)
            for tests in found.values()
            for name, known in tests.items()
            if name in self.items
        }

    def _reached(self, names: Sequence[str], seconds: int) -> dict[str, Known]:
        paths = [str(p) for room in ROOMS for p in files(room)]
        watch = coverage.Coverage(data_file=None, include=paths, config_file=False)
        starts: list[tuple[str, float]] = []
        bad: set[str] = set()

        def before(name: str) -> bool:
            bad.add(self.failed)
            self.failed = ""
            starts.append((name, time.process_time()))
            watch.switch_context(name)
            if time.process_time() < seconds:
                return True
            self.failed = "enough"
            return False

        watch.start()
        self.run(random.Random(0).sample(names, len(names)), before)
        before("")
        watch.stop()
        data = watch.get_data()
        bits: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for path in data.measured_files():
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    bits[context][str(Path(path).relative_to(ROOT))] |= 1 << line
        spent = {n: b - a for (n, a), (_, b) in itertools.pairwise(starts)}
        return {
            n: Known(round(s, 3), {p: f"{b:x}" for p, b in bits[n].items()})
            for n, s in spent.items()
            if n not in bad and s < SLOW and bits[n]
        }

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Tests that reach a mutant, within the budget, the quickest of each file first.

        All files have the same time, and those with sums of many programs `MORE` of it.
        """
        lines = mutant.lines
        names = [n for n, k in self.known.items() if k.reaches(mutant.path, lines)]
        spent: dict[str, float] = defaultdict(float)
        turns: list[tuple[float, float, str]] = []
        for name in sorted(names, key=lambda n: (self.known[n].seconds, n)):
            file, seconds = name.partition("::")[0], self.known[name].seconds
            spent[file] += seconds / MORE.get(file, 1)
            turns.append((spent[file], seconds, name))
        total = itertools.accumulate(seconds for _, seconds, _ in sorted(turns))
        found = [
            t[2] for t, s in zip(sorted(turns), total, strict=True) if s < self.options.seconds
        ]
        return found + self._named_in(mutant)

    def _named_in(self, mutant: Mutant) -> list[str]:
        """Tests of ops that the code around a mutant names, where not all tests were measured."""
        words = {word.strip("_") for word in re.findall(r"\w+", mutant.around)}
        ops = ((n, re.search(r"\[(?:OpDef\()?(?:pd_op\.)?(\w+)", n)) for n in self.items)
        found = [n for n, op in ops if op and op[1] in words and n not in self.known]
        return [n for n in found if n not in self.bad and n.partition("::")[0] in LONG][:12]

    def examined(self, mutant: Mutant) -> dict[str, str]:
        """``noticed``, ``hang``, ``died``, ``survived``, ``unreached``, or ``none``: no mutant.

        With ``--confirm`` the same of all other tests for mutants that survived or are unreached.
        """
        names, later = self.tests_of(mutant), self._unmeasured(mutant)
        usual = sum(self.known[n].seconds if n in self.known else 3 for n in names)
        limit = min(LIMIT, int(5 + 1.5 * usual))
        found = self._tried(mutant, names, limit, limit) if names else "unreached"
        if found.startswith("survived") and later:
            found = self._tried(mutant, later, self.options.seconds, LIMIT)
        if not is_left(found) or not self.options.confirm:
            return {"is": found}
        seconds = self.options.confirm
        names = self._others(mutant, set(names))
        return {"is": found, "later": self._tried(mutant, names, seconds, int(seconds) + LIMIT)}

    def _tried(self, mutant: Mutant, names: Sequence[str], seconds: float, limit: int) -> str:
        """What tests notice of a mutant in so many seconds; with a limit to all, for hangs."""

        def run() -> str:
            if not mutant.plant():
                return "none"
            end, count = time.process_time() + seconds, 0

            def before(_: str) -> bool:
                nonlocal count
                if not self.failed and time.process_time() > end:
                    self.failed = "enough"
                count += not self.failed
                return False

            failed = self.run(names, before) if names else ""
            return f"survived {count}" if failed in ("", "enough") else f"noticed {failed}"

        kind, found = in_child(run, limit)
        if kind != "ended":
            return kind
        if not found.startswith("noticed") or self._passes(names, found[8:], 2 * limit):
            return found
        print("fails without a mutant:", found[8:], file=sys.stderr)
        self.known.pop(found[8:], None)
        self.bad.add(found[8:])  # never run again
        return self._tried(mutant, [n for n in names if n != found[8:]], seconds, limit)

    def _others(self, mutant: Mutant, run: AbstractSet[str]) -> list[str]:
        """Tests that may notice a mutant and were not run: of each file those first that reach
        the fewest lines, as they are about this one. Those that were not measured come last."""
        lines = mutant.lines
        names = [n for n, k in self.known.items() if k.reaches(mutant.path, lines) and n not in run]
        spent: dict[str, float] = defaultdict(float)
        turns: list[tuple[float, str]] = []
        for name in sorted(names, key=lambda n: (self.known[n].extent, n)):
            file = name.partition("::")[0]
            spent[file] += self.known[name].seconds
            turns.append((spent[file], name))
        return [*(name for _, name in sorted(turns)), *self._unmeasured(mutant)[::-1]]

    def _unmeasured(self, mutant: Mutant) -> list[str]:
        """Tests that the survey had no time for, of files of which some test reaches the file."""
        path = str(mutant.path.relative_to(ROOT))
        files = {n.partition("::")[0] for n, k in self.known.items() if path in k.reached}
        left = [n for n in self.items if n not in self.known and n not in self.bad]
        left = [n for n in left if n.partition("::")[0] in files]
        return random.Random(path).sample(left, len(left))

    def _passes(self, names: Sequence[str], last: str, limit: int) -> bool:
        """Whether a test passes after others, without a mutant."""
        if last not in self.trusted:
            before = names[: names.index(last) + 1]
            if in_child(lambda: self.run(before), limit) != ("ended", ""):
                return False
            self.trusted.add(last)
        return True


def mutants(seed: int, rooms: Sequence[str]) -> Iterator[Mutant]:
    """A random place of each room in turn."""
    offers: dict[str, list[Mutant]] = defaultdict(list)
    for room in rooms:
        for path in files(room):
            count = len(places_of(path))
            offers[room] += [Mutant(room, path, k) for k in range(count)]
        random.Random(f"{seed} {room}").shuffle(offers[room])
    while any(offers.values()):
        yield from (offers[room].pop() for room in rooms if offers[room])


def is_left(found: str) -> bool:
    """Whether tests have not noticed a mutant."""
    return found.startswith(("survived", "unreached"))


def again(outs: Sequence[Path]) -> Iterator[Mutant]:
    """The mutants of files of results that survived, or that no test reached."""
    found = [d for out in outs for d in results(out) if is_left(d.get("later", d["is"]))]
    wanted = {(d["in"], d["change"]) for d in found}
    changed = {(d["at"].partition(":")[0], d["change"].partition(" -> ")[0]) for d in found}
    for room in ROOMS:
        for path in files(room):
            for place, (node, _) in enumerate(places_of(path)):
                if (str(path.relative_to(ROOT)), ast.unparse(node)) in changed:
                    mutant = Mutant(room, path, place)
                    if (mutant.told["in"], mutant.told["change"]) in wanted:
                        yield mutant


def results(out: Path) -> list[dict[str, str]]:
    """What a file of results holds."""
    return [json.loads(t) for t in out.read_text().splitlines()] if out.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument(
        "--seconds", type=float, default=20, help="CPU seconds of tests for each mutant at most"
    )
    parser.add_argument(
        "--confirm", type=float, default=0, help="CPU seconds of other tests for what survived"
    )
    parser.add_argument("--room", action="append", choices=ROOMS, help="only of this room")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--lines", type=Path, help="which tests reach a line; OUT.lines.jsonl")
    parser.add_argument(
        "--again", type=Path, nargs="+", help="what survived in these results, instead of a draw"
    )
    parser.add_argument("--tests", nargs="+", help="files of tests, instead of those of the rooms")
    options = parser.parse_args()
    options.out = options.out.absolute()
    options.lines = (options.lines or options.out.with_suffix(".lines.jsonl")).absolute()
    options.again = [path.absolute() for path in options.again or ()]
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    flags = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
    own = dict.fromkeys(f"tests/{t}" for r in options.room or ROOMS for t in spread(TESTS[r]))
    tests = options.tests or own
    ended = pytest.main([*flags, *tests], plugins=[Laboratory(options)])
    done = results(options.out)
    print(report(done) if done else "no mutant was examined")
    return int(ended) or int(not done)


def report(done: list[dict[str, str]]) -> str:
    """The scores of each room, quick and with what ``--confirm`` noticed, and what survived
    without an explanation."""
    why = explanations()
    columns = ("killed", "later", "explained", "survived", "unreached")
    lines = [f"| room | mutants | {' | '.join(columns)} | quick | score |", "|---|" + "--:|" * 8]
    verdicts: list[tuple[dict[str, str], str]] = []
    for d in done:
        quick, last = d["is"].split()[0], d.get("later", d["is"]).split()[0]
        if quick == "none":
            continue
        kind = last if is_left(last) else "later" if is_left(quick) else "killed"
        if is_left(last) and (d["in"], d["change"]) in why:
            kind = "explained"
        verdicts.append((d, kind))
    for room in (*ROOMS, "all"):
        own = [kind for d, kind in verdicts if room in ("all", d["room"])]
        if own:
            counts = [own.count(c) for c in columns]
            most = max(1, len(own) - own.count("explained"))
            scores = [f"{100 * n / most:.0f} %" for n in (counts[0], counts[0] + counts[1])]
            lines.append(f"| {room} | {' | '.join(map(str, [len(own), *counts, *scores]))} |")
    left = [(d, kind) for d, kind in verdicts if is_left(kind)]
    return "\n".join(
        [*lines, "", *(f"{d['at']} {d['in']}: {d['change']} ({kind})" for d, kind in left)]
    )


def explanations() -> dict[tuple[str, str], str]:
    """Why mutants change nothing that a test could ask for, by function and change."""
    entries = tomllib.loads((Path(__file__).parent / "mutants_explained.toml").read_text())
    return {(e["in"], e["change"]): e["why"] for e in entries.get("mutant", [])}


if __name__ == "__main__":
    sys.exit(main())
