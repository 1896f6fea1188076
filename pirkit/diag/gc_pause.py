"""Pausing Python's cycle collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import ParamSpec, TypeVar

from pirkit.diag.forks import no_fork

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def collection_paused() -> Generator[None]:
    """Pause the cycle collector in the body: for code that reads or transforms programs.

    Such code allocates objects most of which survive. Each collection would traverse them in vain,
    more of them every time, and the cost would grow faster than the program.
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
    """Pause the collector for an import, and move the new objects to the oldest generation.

    Otherwise the first two collections after the import would traverse them. If no module was
    imported, no object is moved: garbage among them would wait for a full collection.

    Forks wait for its end: Python's locks of modules would stay locked in the child.
    """
    with no_fork(), collection_paused():
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
