"""Work without the cycle collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def collection_paused() -> Generator[None]:
    """No cycle collector inside: for what reads or transforms programs.

    It makes objects most of which stay. Each collection would walk them for nothing, more of them
    every time, and the cost would grow faster than the program.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def importing() -> Generator[None]:
    """The same for imports, whose objects count as old at once: all of them stay.

    Else the first two collections after that would walk them. Where nothing is imported nothing
    ages: what others made meanwhile would wait for a full collection, which may never come.
    """
    with collection_paused():
        known = len(sys.modules)
        try:
            yield
        finally:
            # what the program froze is its own business
            if len(sys.modules) != known and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()


def imported(name: str) -> ModuleType:
    """A module, imported without the cycle collector."""
    with importing():
        return import_module(name)


def is_imported(name: str) -> bool:
    """Whether a module is imported to its end, and not just now by this thread or another."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def uncollected(work: Callable[P, T]) -> Callable[P, T]:
    """The same work, with Python's cycle collector paused."""

    @wraps(work)
    def without(*args: P.args, **kwargs: P.kwargs) -> T:
        with collection_paused():
            return work(*args, **kwargs)

    return without
