"""Objects that a process creates once and keeps until it ends: code, threads, handles.

`functools.cache` lets several threads make such a thing at once and forgets all but one of them. A
thread that took an address from a forgotten one calls code that is no longer mapped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import update_wrapper
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar

from pirkit.diag.forks import renewed

T = TypeVar("T")


class once(Generic[T]):
    """Decorator: cache the result of a function without arguments, computed by one thread for all.

    A call that raises or is interrupted caches nothing; the next one computes again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        update_wrapper(self, make)
        self._make = make
        self._made: tuple[T] | None = None
        self._lock = renewed(RLock())

    def __call__(self) -> T:
        made = self._made
        if made is None:
            with self._lock:
                made = self._made
                if made is None:
                    made = self._made = (self._make(),)
        return made[0]


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """That of Python 3.12: without the lock for all objects, which a fork would leave locked.

        Of two threads that compute a value at once both get the first one.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            name, values = self.attrname, instance.__dict__
            return values[name] if name in values else values.setdefault(name, self.func(instance))
