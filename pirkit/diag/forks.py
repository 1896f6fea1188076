"""Locks across forks: a child process has only the thread that forked.

A lock that another thread held in the parent would stay locked for ever. What it guards has to be
in order after each bytecode instruction, because the fork may come at any of them; where it is not,
as inside LLVM, the lock is taken before the fork instead (`runtime/native/engine.py`).
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import Final, Protocol, TypeVar, cast
from weakref import WeakSet


class _Renewable(Protocol):
    def _at_fork_reinit(self) -> None: ...


L = TypeVar("L", Lock, RLock)

_LOCKS: Final[WeakSet[_Renewable]] = WeakSet()


def renewed(lock: L) -> L:
    """The same lock; it is free in each child that is forked from now on."""
    _LOCKS.add(cast(_Renewable, lock))
    return lock


def _renew() -> None:
    for lock in _LOCKS:
        lock._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]  as `logging` does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
