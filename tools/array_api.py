"""Runs the official suite of the array API on `pirkit.numpy`, computed and recorded.

    python tools/array_api.py [SUITE] [--examples N] [--only computed|recorded] [--update]
                              [PYTEST_ARGUMENT...]

SUITE is a checkout of https://github.com/data-apis/array-api-tests with its submodule; without it
the commit `COMMIT` is fetched into ``build/array-api-tests``. What the suite needs and is missing,
the network too, is named, and nothing is run.

Failures are compared with the written list ``tests/frontend/array_api_failures.txt``, which has a
reason for each: one that is not in it makes the exit status 1. ``--update`` writes the list.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "https://github.com/data-apis/array-api-tests"
COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"
FETCHED = ROOT / "build" / "array-api-tests"
LIST = ROOT / "tests" / "frontend" / "array_api_failures.txt"

WORKERS = 2
REASON = "  # "
"""Between a failure and its reason, in the list."""
NEEDS = ("pytest", "pytest_jsonreport", "hypothesis", "ndindex")

MODULES = {"computed": "pirkit.numpy", "recorded": "tests.frontend.traced_namespace"}
OPERATORS = "not test_has_names and not test_iop and not __"
"""What the suite checks of functions: operators and methods of tensors are never recorded by it."""

ROW = re.compile(r"^(PASSED|FAILED|ERROR) array_api_tests/test_(\w+\.py::.*?)(?: - .*)?$", re.M)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", type=Path, nargs="?")
    parser.add_argument("--examples", type=int, default=10, help="examples for each test")
    parser.add_argument("--only", choices=MODULES, help="the tensors, or the traced values, alone")
    parser.add_argument("--update", action="store_true", help="write the list of failures")
    chosen, more = parser.parse_known_args()
    missing = [m for m in NEEDS if not importlib.util.find_spec(m)]
    if missing:
        print(f"skipped: the suite needs {', '.join(missing)}")
        return 0
    suite = chosen.suite or _fetched()
    if suite is None:
        return 0
    runs = [chosen.only] if chosen.only else list(MODULES)
    listed = LIST.read_text(encoding="utf-8").splitlines() if LIST.exists() else list[str]()
    known = {line.partition(REASON)[0]: line.partition(REASON)[2] for line in listed}
    found: dict[str, set[str]] = {}
    for run in runs:
        verdicts = _verdicts(suite, run, chosen.examples, more)
        if verdicts is None:
            return 2
        found[run] = {f"{run} {name}" for name, verdict in verdicts.items() if verdict != "PASSED"}
        print(f"{run}: {len(verdicts) - len(found[run])} passed, {len(found[run])} failed")
    if chosen.update:
        kept = {line for line in known if line.split(" ")[0] not in runs}
        lines = sorted(kept.union(*found.values()))
        told = [f"{line}{REASON}{known.get(line, 'not looked into')}\n" for line in lines]
        LIST.write_text("".join(told), encoding="utf-8")
        return 0
    failed = set[str]().union(*found.values())
    for line in sorted(failed - known.keys()):
        print(f"new failure: {line}")
    if not more:
        for line in sorted(k for k in known.keys() - failed if k.split(" ")[0] in runs):
            print(f"passes now: {line}")
    return 1 if failed - known.keys() else 0


def _fetched() -> Path | None:
    """The suite at the pinned commit; None, with a word about it, if it cannot be had."""
    git = ["git", "-C", str(FETCHED)]
    steps = [
        ["git", "clone", "--quiet", SOURCE, str(FETCHED)],
        [*git, "checkout", "--quiet", COMMIT],
        [*git, "submodule", "--quiet", "update", "--init"],
    ]
    for step in steps[FETCHED.exists() :]:
        try:
            subprocess.run(step, check=True, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or str(error)
            print(f"skipped: the suite is not here and cannot be fetched: {told.strip()}")
            return None
    return FETCHED


def _verdicts(suite: Path, run: str, examples: int, more: list[str]) -> dict[str, str] | None:
    """What became of each test; None, with pytest's words, if none ran."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:warnings",
         *(["-n", str(WORKERS)] if importlib.util.find_spec("xdist") else []),
         "-p", "no:cacheprovider", "--hypothesis-seed=0", f"--max-examples={examples}",
         "--disable-deadline", "array_api_tests",
         *(["-k", OPERATORS] if run == "recorded" else []), *more],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths),
             "ARRAY_API_TESTS_MODULE": MODULES[run], "ARRAY_API_TESTS_VERSION": "2024.12"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    verdicts = {name: verdict for verdict, name in ROW.findall(done.stdout)}
    if not verdicts:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        return None
    print(done.stdout.strip().splitlines()[-1])
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
