"""Where results live: offsets in one block of memory, reused as soon as nobody reads them."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final, Literal

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector register."""


@dataclass
class Arena:
    """Offsets handed out best fit first; with ``reuse=False`` no byte is handed out twice."""

    reuse: bool = True
    size: int = 0
    """Bytes needed so far."""
    _free: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Free stretches as (offset, bytes), by offset, never adjacent."""

    def take(self, nbytes: int) -> int:
        """Offset of a free stretch of that many bytes."""
        nbytes = _aligned(nbytes)
        fitting = [(size, offset) for offset, size in self._free if size >= nbytes]
        if fitting:
            size, offset = min(fitting)
            self._free.remove((offset, size))
            if size > nbytes:
                insort(self._free, (offset + nbytes, size - nbytes))
            return offset
        if self._free and sum(self._free[-1]) == self.size:  # the last stretch can grow
            offset, _ = self._free.pop()
        else:
            offset = self.size
        self.size = offset + nbytes
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Hand a stretch back."""
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


@dataclass(eq=False)
class Storage:
    """Memory that slots refer to.

    ``caller``: fed in, never written. ``variable``: fed in to be written. ``arena``: a stretch of
    the session's memory. ``fresh``: made anew in each run, since the caller keeps it. ``heap``:
    whatever a kernel returned. ``once``: written when the session is made.
    """

    owner: Owner
    offset: int = 0
    nbytes: int = 0
    slots: set[int] = field(default_factory=set[int])
    """Slots whose value lies in it."""
