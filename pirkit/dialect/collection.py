"""Reading without the cycle collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(reader: Callable[P, T]) -> Callable[P, T]:
    """The reader with Python's cycle collector paused.

    A reader makes objects that all stay. Each collection would walk them for nothing, more of them
    every time, and the cost of reading would grow faster than the text.
    """

    @wraps(reader)
    def read(*args: P.args, **kwargs: P.kwargs) -> T:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return reader(*args, **kwargs)
        finally:
            if was_enabled:
                gc.enable()

    return read
