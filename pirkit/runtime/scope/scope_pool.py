"""Scopes that wait for the next run."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Final

from pirkit.diag.forks import renewed
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.scope import Scope

MAX_IDLE_SCOPES: Final = 2
"""Scopes that a pool keeps when nobody uses them."""


@dataclass(frozen=True, slots=True)
class PoolCount:
    """How many scopes a pool has lent and keeps, and what those that it lent hold."""

    live: int
    idle: int
    made: int
    """Since the pool was made."""
    nbytes: int


class ScopePool:
    """As many scopes as are in use at the same time, and at most two more.

    A scope that is lost instead of given back is forgotten: the pool holds those that it lent
    weakly. May be used from many threads.
    """

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        # The collector may give a scope back in the middle of a call of the same thread.
        self._lock = renewed(threading.RLock())
        self._idle: list[Scope] = []
        self._live: dict[int, weakref.ref[Scope]] = {}
        self._made = 0

    def take(self) -> Scope:
        """An empty scope; it belongs to the caller until it is given back."""
        with self._lock:
            if self._idle:
                scope = self._idle.pop()
            else:
                scope = Scope(self.labels)
                self._made += 1
            key, live = id(scope), self._live
            live[key] = weakref.ref(scope, lambda _: live.pop(key, None))
            return scope

    def give(self, scope: Scope) -> None:
        """Take a scope back and empty it; giving back the same one again does nothing."""
        with self._lock:
            if self._live.pop(id(scope), None) is None:
                return
            scope.clear()
            if len(self._idle) < MAX_IDLE_SCOPES:
                self._idle.append(scope)

    def count(self) -> PoolCount:
        """What the pool has now. Counting bytes takes a walk over all scopes that are in use."""
        with self._lock:
            live = [scope for ref in list(self._live.values()) if (scope := ref()) is not None]
            nbytes = sum(scope.nbytes for scope in live)
            return PoolCount(len(live), len(self._idle), self._made, nbytes)
