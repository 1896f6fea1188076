"""Objects that exist once, while something refers to them: tables of weak references."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import RLock
from typing import Any, Final, Self
from weakref import ReferenceType


class Held(ReferenceType[Any]):
    """A weak reference that knows its key and its table."""

    __slots__ = ("key", "table")

    def __new__(cls, value: Any, table: dict[Any, Held], key: Any) -> Self:
        found = super().__new__(cls, value, _dropped)
        found.table, found.key = table, key
        return found

    def __init__(self, value: Any, table: dict[Any, Held], key: Any) -> None:
        pass  # `__new__` takes them


class _Guard:
    """The lock of the tables; a child that was forked while it was held gets another one.

    It is reentrant: a garbage collection that begins under it calls `_dropped`.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.lock = RLock()


_GUARD: Final = _Guard()


def _dropped(reference: Any, guard: _Guard = _GUARD) -> None:
    with guard.lock:  # at exit the module's names may be gone before its expressions
        if reference.table.get(reference.key) is reference:
            del reference.table[reference.key]


def interned(table: dict[Any, Held], key: Any, make: Callable[[], Any]) -> Any:
    """The one object of a key; a new one if there is none any more."""
    held = table.get(key)
    found = None if held is None else held()
    if found is None:
        with _GUARD.lock:
            held = table.get(key)
            found = None if held is None else held()
            if found is None:
                found = make()
                table[key] = Held(found, table, key)
    return found
