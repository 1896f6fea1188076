"""Bugs planted in the sources, one at a time, and whether campaigns and tests find them.

    python tools/plants.py [--code] [--tests | --campaigns] [--out plants.jsonl] [NAME ...]

`plants.toml` names each bug: the file, a text that occurs once in it, what the text becomes, the
campaigns and the tests that ought to notice. Files stay as they are: a hook of the import system
changes the text while a process of its own, and the processes that it starts, import the module.
A campaign counts as having found a bug by a finding that counts (`driver.SEVERE`), or by its end.
``--code`` plants those of `tests/codegen/planted.py` in the code generator and the memory plan
instead, which are functions that are replaced while it runs.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
VARIABLE: Final = "PIRKIT_PLANT"
CASES: Final = 1000
"""Cases of a campaign at most, and the CPU seconds for them and for the tests."""
SECONDS: Final = 40


def plants() -> dict[str, dict[str, str]]:
    """All bugs by name."""
    found = tomllib.loads((ROOT / "tools" / "plants.toml").read_text())
    return {p["name"]: p for p in found["plant"]}


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a changed text."""

    plant: dict[str, str]

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        if text.count(self.plant["old"]) != 1:
            raise SystemExit(f"{self.plant['name']}: its text does not occur once")
        changed = text.replace(self.plant["old"], self.plant["new"])
        return compile(changed, self.path, "exec", dont_inherit=True)


class _Finder(importlib.machinery.PathFinder):
    plant: dict[str, str]

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != cls.plant["file"].removesuffix(".py").replace("/", "."):
            return None
        spec = super().find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.plant = cls.plant
        spec.loader = loader
        return spec


def install(plant: dict[str, str]) -> None:
    """Change a module when this process imports it."""
    _Finder.plant = plant
    sys.meta_path.insert(0, _Finder)


SITE: Final = """
import json, os, sys
sys.path.insert(0, {root!r})
from tools.plants import install
install(json.loads(os.environ[{variable!r}]))
"""


def run(command: list[str], plant: dict[str, str] | None, seconds: int) -> tuple[int, str]:
    """The exit status of a command with a planted bug, 124 if it takes too long, and what it
    prints: the output, and the last line of the errors."""
    with tempfile.TemporaryDirectory() as folder:
        if plant is not None:
            site = SITE.format(root=str(ROOT), variable=VARIABLE)
            (Path(folder) / "sitecustomize.py").write_text(site)
        environment = {
            **os.environ,
            VARIABLE: json.dumps(plant),
            "PYTHONPATH": f"{folder}:{ROOT}",
            "PIRKIT_CACHE_DIR": f"{folder}/cache",
        }
        limited = ["bash", "-c", f'ulimit -t {seconds}; exec "$@"', "plant", *command]
        found = subprocess.run(
            limited, capture_output=True, text=True, env=environment, cwd=ROOT, check=False
        )
    status = 124 if found.returncode in (-9, -24, 137, 152) else found.returncode
    return status, found.stdout + "".join(found.stderr.splitlines(keepends=True)[-1:])


def sliced(words: str, seconds: float = float("inf")) -> int:
    """Examine the cases of a campaign until one has a finding that counts; 1 if one has."""
    driver = import_module("tools.campaigns.driver")  # not before there is the hook
    name, _, only = words.partition(" ")
    campaign = import_module(f"tools.campaigns.{name}").CAMPAIGN
    start = time.process_time()

    def numbers() -> Iterator[int]:
        for number in range(CASES):
            if time.process_time() - start > seconds:
                return
            told(number, ["the process ended"])
            yield number

    def told(number: int, found: list[str]) -> None:
        print(json.dumps({"case": number, "found": found}), flush=True)

    number = 0
    for number, findings in driver.cases(campaign, 99, numbers(), only):
        for f in findings:
            if f.kind in driver.SEVERE:
                told(number, [f.kind, f.way, f.what[:150]])
                return 1
    told(number, [])
    return 0


TESTS: Final = (
    "tests/codegen/test_numbers.py tests/codegen/test_fused.py tests/codegen/test_conv_loops.py"
    " tests/codegen/test_scatter.py tests/whole_program/test_cumulative.py"
    " tests/whole_program/test_small_matrices.py tests/campaigns/test_generated.py"
    " tests/campaigns/test_mixed.py"
)
"""What is asked about bugs of the code generator, in this order, until a test fails."""


def in_code(name: str, words: str, seconds: float) -> int:
    """The same with a bug of the code generator; without a campaign the tests, 1 if one fails."""
    codegen = import_module("tests.codegen.planted")
    with codegen.planted(codegen.PLANTS[name]):
        if words:
            return sliced(words, seconds)
        pytest = import_module("pytest")
        flags = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
        return int(pytest.main([*flags, *TESTS.split()]) != 0)


def examined_in_code(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Whether campaigns and tests find a bug of the code generator, and how."""
    told: dict[str, Any] = {"name": name}
    asked = [
        *([] if options.tests else ["programs", "op_table"]),
        *([] if options.campaigns else [""]),
    ]
    for words in asked:
        slice_of = ["--slice", words, "--seconds", str(options.seconds), name]
        command = [sys.executable, __file__, "--code", *slice_of]
        status, said = run(command, None, 4 * options.seconds)
        lines = [x for x in said.splitlines() if x.startswith(("{", "FAILED", "ERROR"))]
        told[words or "tests"] = [status, *(lines[-1:] or said.splitlines()[-1:])]
    return told


def examined(plant: dict[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """Whether campaigns and tests find a bug, and how."""
    told: dict[str, Any] = {"name": plant["name"], "room": plant["room"]}
    start = time.monotonic()
    if not options.tests:
        for words in plant["campaigns"].split("; "):
            command = [sys.executable, __file__, "--slice", words]
            status, said = run(command, plant, options.seconds)
            told[words] = [status, *said.splitlines()[-1:]]
            if status:
                break
    if not options.campaigns:
        flags = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
        command = [sys.executable, "-m", "pytest", *flags, *plant["tests"].split()]
        status, said = run(command, plant, 4 * SECONDS)
        failed = [x for x in said.splitlines() if x.startswith(("FAILED", "ERROR"))]
        told["tests"] = [status, *(failed[:1] or said.splitlines()[-1:])]
    told["seconds"] = round(time.monotonic() - start)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tests", action="store_true", help="tests only")
    parser.add_argument("--campaigns", action="store_true", help="campaigns only")
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="CPU seconds of a campaign at most"
    )
    parser.add_argument("--out", type=Path, help="results, one a line; it is continued")
    parser.add_argument("--code", action="store_true", help="bugs of the code generator")
    parser.add_argument("--slice", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.slice is not None and options.code:
        return in_code(options.names[0], options.slice, options.seconds)
    if options.slice:
        return sliced(options.slice)
    if options.code:
        sys.path.insert(0, str(ROOT))
    known: Any = import_module("tests.codegen.planted").PLANTS if options.code else plants()
    for name, plant in known.items():
        if options.names and name not in options.names:
            continue
        found = examined_in_code(name, options) if options.code else examined(plant, options)
        line = json.dumps(found)
        print(line, flush=True)
        if options.out:
            with options.out.open("a") as file:
                print(line, file=file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
