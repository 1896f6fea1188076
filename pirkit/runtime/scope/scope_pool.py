"""A pool of scopes."""

from __future__ import annotations

import threading
import weakref
from typing import Final

from msgspec import Struct

from pirkit.diag.forks import renewed
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.scope.scope import Scope

MAX_IDLE_SCOPES: Final = 2
"""Largest number of idle scopes in a pool."""


class PoolCount(Struct, frozen=True):
    """The number of scopes in use and idle, and the bytes that those in use keep alive."""

    live: int
    idle: int
    made: int
    """Scopes created since the pool was created."""
    nbytes: int


class ScopePool:
    """Lends scopes, and keeps at most two idle ones.

    The pool has only weak references to lent scopes, so one that is dropped instead of returned is
    garbage collected. Thread-safe.
    """

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        # Re-entrant: the garbage collector may return a scope during a call of the same thread.
        self._lock = renewed(threading.RLock())
        self._idle: list[Scope] = []
        self._live: dict[int, weakref.ref[Scope]] = {}
        self._made = 0

    def take(self) -> Scope:
        """An empty scope, which belongs to the caller until it is returned by ``give``."""
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
        """Return a scope, which is emptied; returning it twice has no effect."""
        with self._lock:
            if self._live.pop(id(scope), None) is None:
                return
            scope.clear()
            if len(self._idle) < MAX_IDLE_SCOPES:
                self._idle.append(scope)

    def count(self) -> PoolCount:
        """The current counts. Counting bytes visits all values of the scopes in use."""
        with self._lock:
            live = [scope for ref in list(self._live.values()) if (scope := ref()) is not None]
            nbytes = sum(scope.nbytes for scope in live)
            return PoolCount(len(live), len(self._idle), self._made, nbytes)
