"""Work without the cycle collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(work: Callable[P, T]) -> Callable[P, T]:
    """What reads or transforms programs, with Python's cycle collector paused.

    It makes objects most of which stay. Each collection would walk them for nothing, more of them
    every time, and the cost would grow faster than the program.
    """

    @wraps(work)
    def without(*args: P.args, **kwargs: P.kwargs) -> T:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return work(*args, **kwargs)
        finally:
            if was_enabled:
                gc.enable()

    return without
