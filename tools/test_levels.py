"""Run the tests of native code for older levels of x86-64, as a CPU of that level would run them.

    python tools/test_levels.py [arguments of pytest]

The highest level that this CPU has is left out: it is what pytest runs by itself.

``PIRKIT_TARGET`` caps pirkit's own code. The CPU dispatch of numpy and its BLAS is capped as well,
because the results of reference rules, and numpy's warnings, depend on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from pirkit.diag.errors import UsageError
from pirkit.runtime.native import target

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ("tests/codegen",)
AVX512: Final = ("X86_V4", "AVX512", "AVX10")
AVX2: Final = ("X86_V3", "AVX", "FMA", "F16C", "XOP")
BEYOND: Final = {"x86-64-v2": (*AVX2, *AVX512), "x86-64-v3": AVX512, "x86-64-v4": ()}
"""The CPU features of numpy, by prefixes of their names, that a level does not have."""
CORES: Final = {"x86-64-v2": "Nehalem", "x86-64-v3": "Haswell"}
"""Level -> the core type for OpenBLAS."""


def environment(level: str) -> dict[str, str]:
    """The environment of a process that behaves as on a CPU of this level."""
    config = cast("dict[str, Any]", np.show_config(mode="dicts"))
    found: list[str] = config.get("SIMD Extensions", {}).get("found", [])
    disabled = [name for name in found if BEYOND[level] and name.startswith(BEYOND[level])]
    variables = {"PIRKIT_TARGET": level}
    if disabled:
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    if level in CORES:
        variables["OPENBLAS_CORETYPE"] = CORES[level]
    return variables


def lacking(level: str) -> str:
    """Why this CPU cannot run a level; the empty string if it can."""
    os.environ["PIRKIT_TARGET"] = level
    target.host.cache_clear()
    try:
        target.host()
    except UsageError as error:
        return error.message
    finally:
        del os.environ["PIRKIT_TARGET"]
    return ""


def main(arguments: list[str]) -> int:
    os.environ.pop("PIRKIT_TARGET", None)
    failed: list[str] = []
    missing = {level: why for level in BEYOND if (why := lacking(level))}
    levels = [level for level in BEYOND if level not in missing]
    for level, why in missing.items():
        print(f"== {level}: skipped: {why} ==", flush=True)
    for level in levels[:-1]:
        print(f"== {level} ==", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *TESTS, *arguments]
        done = subprocess.run(
            command, env={**os.environ, **environment(level)}, cwd=ROOT, check=False
        )
        if done.returncode:
            failed.append(level)
    if failed:
        print(f"== failed: {', '.join(failed)} ==")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
