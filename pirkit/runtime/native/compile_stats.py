"""Counts and times of native compilation in this process."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(slots=True)
class CompileStats:
    """Functions ``compiled`` and ``read`` from the disk cache, and the wall time of both, in s.

    ``costs`` are the CPU seconds of each function that this thread emitted and compiled,
    ``linking`` those of linking the ``linked`` images.
    """

    compiled: int = 0
    read: int = 0
    seconds: float = 0.0
    costs: list[float] = field(default_factory=list[float])
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
        return CompileStats(
            self.compiled - before.compiled,
            self.read - before.read,
            self.seconds - before.seconds,
            self.costs[len(before.costs) :],
            self.linked - before.linked,
            self.linking - before.linking,
        )

    def copy(self) -> CompileStats:
        """A snapshot."""
        return replace(self, costs=list(self.costs))

    def __str__(self) -> str:
        return f"{self.compiled} compiled, {self.read} from the cache, {self.seconds * 1e3:.2f} ms"


COMPILE_STATS: Final = CompileStats()
