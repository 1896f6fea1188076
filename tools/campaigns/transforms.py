"""Pairs of transforms around each function of the table of transforms, compared with jax.

    python -m tools.campaigns transforms --seed 0 --start 0 --count 1152 --out transforms.jsonl

Functions and transforms are those of `tests/frontend/test_transform_table.py`; a seed orders the
1,152 cases, so that a part of them is a sample. ``--only`` is a function.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from tests.frontend import test_transform_table as rows
from tools.campaigns.driver import Campaign, Found

FUNCTIONS: Final = (
    rows.smooth, rows.branched, rows.counted, rows.scanned, rows.stopped, rows.by_jvp, rows.mapped,
    rows.of_a_derivative,
)  # fmt: skip
TRANSFORMS: Final = (*rows.NESTED, "vjp", "linearize", "hessian")
_FEW: Final = 20
"""Cases after which jax drops what it has compiled, which fills the memory."""


@cache
def ordered(seed: int, only: str) -> list[tuple[Any, str, str]]:
    """All cases in the order of a seed: a function, the outer transform and the inner one."""
    chosen = [f for f in FUNCTIONS if only in ("", f.__name__)]
    cases = [(f, outer, inner) for f in chosen for outer in TRANSFORMS for inner in TRANSFORMS]
    random.Random(seed).shuffle(cases)
    return cases


def _case(seed: int, number: int, only: str) -> tuple[Any, str, str]:
    cases = ordered(seed, only)
    return cases[number % len(cases)]


def examine(seed: int, number: int, only: str) -> list[Found]:
    """Wrong where numbers differ from jax's, uncoded where an exception is none of pirkit's."""
    function, outer, inner = _case(seed, number, only)
    told = describe(seed, number, only)
    jax = rows.jax_library()
    if number % _FEW == 0:
        jax.api.clear_caches()

    def build(library: Any) -> Callable[[Any], Any]:
        within = rows.around(library, inner, function(library))
        return rows.around(library, outer, rows.summed(library, within))

    wanted = build(jax)(rows.X)
    try:
        rows.compare(build(rows.OURS)(rows.X), wanted)
    except rows.PirkitError as error:
        return [Found("refused", told, "transforms", str(error))]
    except AssertionError as error:
        return [Found("wrong", told, "transforms", str(error))]
    except Exception as error:
        return [Found("uncoded", told, "transforms", f"{type(error).__name__}: {error}")]
    return []


def describe(seed: int, number: int, only: str) -> str:
    """The case in a few words."""
    function, outer, inner = _case(seed, number, only)
    return f"{outer} of {inner} of {function.__name__}"


CAMPAIGN: Final = Campaign("transforms", examine, describe, seconds=120, range=100)
