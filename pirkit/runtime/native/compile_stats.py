"""Counts and times of native compilation in this process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace


class CompileStats(Struct):
    """Functions ``compiled`` and ``read`` from the disk cache, and the wall time of both, in s.

    ``costs`` are the CPU seconds of the latest functions that this thread emitted and compiled,
    ``linking`` those of linking the ``linked`` images.
    """

    compiled: int = 0
    read: int = 0
    seconds: float = 0.0
    costs: deque[float] = field(default_factory=lambda: deque[float](maxlen=4096))
    linked: int = 0
    linking: float = 0.0

    @contextmanager
    def timed(self) -> Generator[None]:
        """Add the wall time of a block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

    def since(self, before: CompileStats) -> CompileStats:
        """The difference from an earlier copy."""
        compiled = self.compiled - before.compiled
        return CompileStats(
            compiled,
            self.read - before.read,
            self.seconds - before.seconds,
            deque(list(self.costs)[max(0, len(self.costs) - compiled) :]),
            self.linked - before.linked,
            self.linking - before.linking,
        )

    def copy(self) -> CompileStats:
        """A snapshot."""
        return replace(self, costs=self.costs.copy())

    def __str__(self) -> str:
        return f"{self.compiled} compiled, {self.read} from the cache, {self.seconds * 1e3:.2f} ms"


COMPILE_STATS: Final = CompileStats()
