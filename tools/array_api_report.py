"""Runs the official suite of the array API on `pirkit.numpy`, and prints the table of the docs.

    python tools/array_api_report.py PATH_TO_SUITE [--examples N] [--traced] [PYTEST_ARGUMENT...]

The suite is https://github.com/data-apis/array-api-tests, checked out with its submodule. It needs
pytest, hypothesis and ndindex. Not a package, it is not part of CI. ``--traced`` records every
function as a program and runs that.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {False: "pirkit.numpy", True: "tests.frontend.traced_namespace"}
OPERATORS = "not test_has_names and not test_iop and not __"
"""What the suite checks of functions: operators and methods of tensors are never recorded by it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--traced", action="store_true")
    chosen, more = parser.parse_known_args()
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:warnings",
         f"--max-examples={chosen.examples}", "--disable-deadline", "array_api_tests",
         *(["-k", OPERATORS] if chosen.traced else []), *more],
        cwd=chosen.suite,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths),
             "ARRAY_API_TESTS_MODULE": MODULES[chosen.traced],
             "ARRAY_API_TESTS_VERSION": "2024.12"},
        capture_output=True,
        text=True,
    )  # fmt: skip
    row = re.compile(r"^(PASSED|FAILED) array_api_tests/test_(\w+)\.py::(.*?)(?: - .*)?$", re.M)
    rows = row.findall(done.stdout)
    counts = Counter((module, verdict) for verdict, module, _ in rows)
    print("| part | pass | fail |\n|---|---|---|")
    for module in sorted({m for m, _ in counts}):
        print(f"| {module} | {counts[module, 'PASSED']} | {counts[module, 'FAILED']} |")
    print("\n".join(f"{m}: {name}" for verdict, m, name in rows if verdict == "FAILED"))
    print(done.stdout.strip().splitlines()[-1])
    return 0 if rows else done.returncode


if __name__ == "__main__":
    sys.exit(main())
