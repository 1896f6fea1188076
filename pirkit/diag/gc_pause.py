"""Pausing Python's cycle collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import Final, ParamSpec, TypeVar

from pirkit.diag.forks import in_children

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause the cycle collector in the body: for code that reads or transforms programs.

    Such code allocates objects most of which survive. Each collection would traverse them in vain,
    more of them every time, and the cost would grow faster than the program.
    """
    was_enabled = gc.isenabled()
    if was_enabled:
        _PAUSED.append(get_ident())
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            with suppress(ValueError):  # a child process may have run `_resume`
                _PAUSED.remove(get_ident())
            gc.enable()


_PAUSED: Final[list[int]] = []
"""Threads that will resume the collector; in the child of a fork other threads never do."""


def _resume() -> None:
    if any(thread != get_ident() for thread in _PAUSED):
        _PAUSED.clear()
        gc.enable()


in_children(_resume)


@contextmanager
def importing() -> Generator[None]:
    """Pause the collector for an import, and move the new objects to the oldest generation.

    Otherwise the first two collections after the import would traverse them. If no module was
    imported, no object is moved: garbage among them would wait for a full collection.
    """
    with collection_paused():
        known = len(sys.modules)
        try:
            yield
        finally:
            # unfreezing would also release objects that the caller has frozen
            if len(sys.modules) != known and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()


def imported(name: str) -> ModuleType:
    """Import a module with the cycle collector paused."""
    with importing():
        return import_module(name)


def is_imported(name: str) -> bool:
    """True if a module is imported completely, not currently being imported by some thread."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def uncollected(work: Callable[P, T]) -> Callable[P, T]:
    """Decorator: run a function with Python's cycle collector paused."""

    @wraps(work)
    def without(*args: P.args, **kwargs: P.kwargs) -> T:
        with collection_paused():
            return work(*args, **kwargs)

    return without
