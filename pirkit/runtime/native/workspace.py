"""Memory that native programs use only while they run, and share one after the other.

A training step runs a forward and a backward, and a process holds programs for several shapes. Each
of them needs memory for temporaries, and none after its call: so it is one block, as large as the
largest of them wants, for each call that runs at the same time.
"""

from __future__ import annotations

from typing import Any, Final, Protocol
from weakref import WeakSet

import numpy as np

from pirkit.runtime.tensor.allocator import no_memory, plain_bytes
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

LINE: Final = 64
"""Bytes of a cache line."""
SHARED_BYTES: Final = 1 << 20
"""Programs with less have memory of their own, as taking a block costs some 2 us."""


def lines(nbytes: int) -> int:
    """Bytes, in whole cache lines."""
    return -(-nbytes // LINE) * LINE


class _User(Protocol):
    needs: int


class Block:
    """Memory for one call at a time, from ``base``, the address of a cache line, on."""

    __slots__ = ("base", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        # numpy allocates it, as numpy requests huge pages for large buffers
        try:
            self.memory: Array = plain_bytes(nbytes + LINE)
        except MemoryError as error:
            raise no_memory(error) from error
        self.base = lines(address_of(self.memory))
        self.nbytes = nbytes


class Workspace:
    """The blocks that no call uses. They are freed with the last user that may ask for them."""

    def __init__(self) -> None:
        self._idle: list[Block] = []
        self._users: WeakSet[_User] = WeakSet()
        self._known = 0

    def join(self, user: _User) -> None:
        self._users.add(user)

    def take(self, nbytes: int) -> Block:
        """A block of at least so many bytes, with anything in it; for `give` after the call."""
        try:
            found = self._idle.pop()
        except IndexError:
            return Block(nbytes)
        if len(self._users) != self._known:  # blocks as large as only dropped programs wanted
            self._known = len(self._users)
            most = max((user.needs for user in [*self._users]), default=0)
            found = found if found.nbytes <= most else None
        if found is not None and found.nbytes >= nbytes:
            return found
        del found  # before the other is made
        return Block(nbytes)

    def give(self, block: Block) -> None:
        self._idle.append(block)


WORKSPACE: Final = Workspace()
