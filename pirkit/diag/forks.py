"""Locks across forks: a child process has only the thread that forked.

A lock that another thread held in the parent would stay locked for ever. What it guards has to be
in order after each bytecode instruction, because the fork may come at any of them; where it is not,
as inside LLVM, the fork takes the lock first (`taken_by_forks`).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Lock, RLock, get_ident
from time import monotonic, sleep
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


_WORK: Final[list[int]] = []
"""Threads that are in the middle of what no fork may cut, once for each time that they began it."""
_BEGIN: Final = renewed(Lock())
_PATIENCE: Final = 10.0
"""Seconds that a fork waits for other threads; one may wait for what the forking thread holds."""


@contextmanager
def no_fork() -> Generator[None]:
    """Forks of other threads wait while the body runs."""
    with _BEGIN:
        _WORK.append(get_ident())
    try:
        yield
    finally:
        _WORK.remove(get_ident())


_FORK: Final[list[ExitStack]] = []
"""What the fork that is under way holds, if there is one."""
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
        _BEGIN.acquire()
        if monotonic() > end or not {*_WORK} - {get_ident()}:
            break  # with the lock, so that nobody begins now
        _BEGIN.release()
        sleep(0.001)
    held = ExitStack()
    held.callback(_BEGIN.release)
    for lock in reversed(_TAKEN):
        held.enter_context(lock)
    _FORK.append(held)


def _after() -> None:
    _FORK.pop().close()


def _in_child() -> None:
    _after()
    _renew()
    _WORK[:] = [thread for thread in _WORK if thread == get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
