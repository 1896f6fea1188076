"""Locks across forks: a child process has only the thread that forked.

A lock that another thread held in the parent would stay locked for ever. What it guards has to be
in order after each bytecode instruction, because the fork may come at any of them; where it is not,
as inside LLVM, the fork takes the lock first (`taken_by_forks`).
"""

from __future__ import annotations

import _imp
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from importlib import _bootstrap  # pyright: ignore
from threading import Lock, RLock, get_ident
from time import monotonic, sleep
from typing import Any, Final, Protocol, TypeVar, cast
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


_PATIENCE: Final = 10.0
"""Seconds that a fork waits for other threads; one may wait for what the forking thread holds."""
_IMPORTED: Final = {"pirkit", "llvmlite", "numpy", "xdsl"}
"""Packages of which no module may be half imported; others may run programs while imported."""


def _is_imported_elsewhere() -> bool:
    """Whether another thread imports: its lock of the module would stay locked in the child."""
    locks: dict[str, Callable[[], object]] = cast(Any, _bootstrap)._module_locks
    for name, lock in [*locks.items()]:
        owner = getattr(lock(), "owner", None)
        if owner not in (None, get_ident()) and name.partition(".")[0] in _IMPORTED:
            return True
    return False


_FORK: Final[list[ExitStack]] = []
"""The locks that the current fork holds, if there is one."""
_TAKEN: Final[list[AbstractContextManager[object]]] = []


def taken_by_forks(lock: AbstractContextManager[object]) -> None:
    """Let forks take a lock from now on, before those that were added earlier.

    Modules do not register functions of their own for that: if one is imported while another thread
    forks, its lock would be released after the fork, but not have been taken before.
    """
    _TAKEN.append(lock)


def _before() -> None:
    end = monotonic() + _PATIENCE
    while True:
        held = ExitStack()
        for lock in reversed(_TAKEN):
            held.enter_context(lock)
        _imp.acquire_lock()  # so that no import begins now
        held.callback(_imp.release_lock)
        if monotonic() > end or not _is_imported_elsewhere():
            break
        held.close()
        sleep(0.001)
    _FORK.append(held)


_CHILDREN: Final[list[Callable[[], object]]] = []


def in_children(function: Callable[[], object]) -> None:
    """Call a function in each child that is forked from now on, when locks are free again."""
    _CHILDREN.append(function)


def _after() -> None:
    _FORK.pop().close()


def _in_child() -> None:
    _after()
    _renew()
    for function in _CHILDREN:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
