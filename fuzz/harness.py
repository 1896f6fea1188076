"""Runs a fuzz target with atheris, or in a plain loop where it is not installed.

python fuzz/fuzz_files.py -runs=1000      # either way; `-seed=N` is for the loop alone
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def fuzz(target: Callable[[bytes], None], inputs: Callable[[random.Random], bytes]) -> None:
    """Call a target until it raises; ``inputs`` draws what the plain loop calls it with."""
    if importlib.util.find_spec("atheris"):
        import atheris  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

        atheris.Setup(sys.argv, target)
        atheris.Fuzz()
        return
    options = dict(a.lstrip("-").partition("=")[::2] for a in sys.argv[1:] if a.startswith("-"))
    draw = random.Random(int(options.get("seed", 0)))
    for _ in range(int(options.get("runs", 100))):
        target(inputs(draw))


def refuse(found: list[tuple[str, str, str, str]]) -> None:
    """Raises AssertionError for findings that count."""
    from tools.campaigns.driver import SEVERE  # noqa: PLC0415  the path is set above

    severe = [f for f in found if f[0] in SEVERE]
    if severe:
        raise AssertionError(severe)
