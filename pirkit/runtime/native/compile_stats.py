"""How much was compiled in this process, and how long that took."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(slots=True)
class CompileStats:
    """Functions that were compiled, those that were ``read`` from the disk, seconds for both.

    ``costs`` are the CPU seconds of each function that this thread wrote and compiled, ``linking``
    those for the ``linked`` images.
    """

    compiled: int = 0
    read: int = 0
    seconds: float = 0.0
    costs: list[float] = field(default_factory=list[float])
    linked: int = 0
    linking: float = 0.0

    @contextmanager
    def timed(self) -> Generator[None]:
        """Count the time of a block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

    def since(self, before: CompileStats) -> CompileStats:
        """What came on top of an earlier copy."""
        return CompileStats(
            self.compiled - before.compiled,
            self.read - before.read,
            self.seconds - before.seconds,
            self.costs[len(before.costs) :],
            self.linked - before.linked,
            self.linking - before.linking,
        )

    def copy(self) -> CompileStats:
        """The numbers as they are now."""
        return replace(self, costs=list(self.costs))

    def __str__(self) -> str:
        return f"{self.compiled} compiled, {self.read} from the cache, {self.seconds * 1e3:.2f} ms"


COMPILE_STATS: Final = CompileStats()
