"""What scripts print in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping


def printed(script: str, environment: Mapping[str, str]) -> str:
    """The output of a script, with these variables beside those of this process."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def printed_with_threads(script: str, *threads: int) -> set[str]:
    """The outputs of a script with so many threads."""
    names = {"PYTHONPATH": "."}
    return {printed(script, {**names, "PIRKIT_NUM_THREADS": str(n)}) for n in threads}


def printed_twice(script: str, folder: str) -> list[list[str]]:
    """The lines of a script's two runs that share caches on disk, which begin empty."""
    shared = {name: f"{folder}/{name}" for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
    shared["PIRKIT_NATIVE_CACHE"] = ""
    return [printed(script, {**shared, "PYTHONHASHSEED": seed}).splitlines() for seed in ("1", "2")]
