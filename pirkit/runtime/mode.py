"""The modes and counters of sessions; without the planner, which a native call does not need."""

from __future__ import annotations

from msgspec import Struct

from pirkit.runtime.run_block import Runner, execute


class Counters(Struct):
    """Counters since the executable was created; a run with known shapes changes only ``runs``."""

    runs: int = 0
    sessions: int = 0
    binds: int = 0
    infer_meta: int = 0
    allocations: int = 0
    """Arrays of dynamic shape that were allocated during runs."""


class Mode(Struct, frozen=True):
    """How sessions run: with or without reuse of memory, on how many threads, by which runner.

    With ``limit`` None, steps run in order and each may use the whole thread pool.
    """

    reuse: bool = True
    limit: int | None = None
    run: Runner = execute
    fuses_launches: bool = False
    """Whether a runner of its own gets the same plan and memory as `execute`."""

    @property
    def threads(self) -> int:
        """Largest number of concurrent steps."""
        return self.limit or 1
