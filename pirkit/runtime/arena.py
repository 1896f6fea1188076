"""The arena allocator: offsets in one block of memory, by live range."""

from __future__ import annotations

from bisect import insort
from typing import Final, Literal

from msgspec import Struct, field

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector register."""


class Arena(Struct):
    """A best-fit allocator of offsets; with ``reuse=False`` no byte is allocated twice."""

    reuse: bool = True
    size: int = 0
    """The size of the arena so far, in bytes."""
    _free: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Free ranges as (offset, bytes), sorted by offset; adjacent ones are merged."""

    def take(self, nbytes: int) -> int:
        """Allocate a range; returns its offset."""
        nbytes = _aligned(nbytes)
        fitting = [(size, offset) for offset, size in self._free if size >= nbytes]
        if fitting:
            size, offset = min(fitting)
            self._free.remove((offset, size))
            if size > nbytes:
                insort(self._free, (offset + nbytes, size - nbytes))
            return offset
        if self._free and sum(self._free[-1]) == self.size:  # the last free range can grow
            offset, _ = self._free.pop()
        else:
            offset = self.size
        self.size = offset + nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Free a range."""
        nbytes = _aligned(nbytes)
        if not self.reuse or not nbytes:
            return
        insort(self._free, (offset, nbytes))
        merged: list[tuple[int, int]] = []
        for start, size in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((start, size))
        self._free = merged


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


Owner = Literal["caller", "variable", "arena", "fresh", "heap", "once"]


class Storage(Struct, eq=False):
    """A buffer that slots refer to.

    ``owner`` is ``caller`` (an input, never written), ``variable`` (an input that is written),
    ``arena`` (a range of the session's arena), ``fresh`` (allocated in each run, as it escapes to
    the caller), ``heap`` (returned by a kernel), or ``once`` (computed with the session).
    """

    owner: Owner
    offset: int = 0
    nbytes: int = 0
    slots: set[int] = field(default_factory=set[int])
    """The slots whose values are in it."""
