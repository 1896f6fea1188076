"""A pool of sessions, by the shapes of inputs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from pirkit.diag.errors import RuntimeFault
from pirkit.diag.forks import renewed
from pirkit.diag.gc_pause import importing, uncollected
from pirkit.runtime.library import Library
from pirkit.runtime.meta import Meta
from pirkit.runtime.mode import Counters, Mode
from pirkit.runtime.plan import Plan
from pirkit.runtime.tensor.allocator import no_memory

if TYPE_CHECKING:
    from pirkit.runtime.session import Session

MAX_CACHED_SHAPES: Final = 8
"""Number of combinations of input shapes whose sessions are cached."""

Key = tuple[Meta | None, ...]
"""The metas of inputs and parameters, in the order of the plan; None for a non-tensor."""


class SessionPool(Struct, eq=False):
    """The sessions of one plan: one for each concurrent run.

    ``variables`` are the slots of inputs and parameters that runs write in place. Thread-safe.
    """

    plan: Plan
    library: Library
    counters: Counters
    variables: frozenset[int] = frozenset()
    _idle: OrderedDict[Key, list[Session]] = field(
        default_factory=OrderedDict[Key, "list[Session]"]
    )
    _latest: tuple[Key | None, list[Session]] = field(default_factory=lambda: (None, []))
    """The last key and its sessions: comparing is cheaper than a hash lookup."""
    _lock: threading.Lock = field(default_factory=lambda: renewed(threading.Lock()))
    _slots: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self._slots = [p.slot for p in (*self.plan.inputs, *self.plan.params)]

    def take(self, key: Key, mode: Mode) -> Session:
        """A session for inputs of these metas; it belongs to the caller until ``give``."""
        with self._lock:
            known, idle = self._latest
            if key != known:
                idle = self._idle.get(key)
            if idle:
                return idle.pop()
        return self.made(key, mode, self.counters)

    @uncollected
    def made(self, key: Key, mode: Mode, counters: Counters, *, writes: bool = True) -> Session:
        """A new session, which ``writes`` its variables in place or not. Raises RuntimeFault for
        shapes that an op refuses.
        """
        variables = self.variables if writes else frozenset[int]()
        with importing():
            from pirkit.runtime.session import Session  # noqa: PLC0415  one native call has none

        metas = {s: m for s, m in zip(self._slots, key, strict=True) if m is not None}
        self._agree(metas)
        try:
            return Session(self.plan, self.library, metas, counters, mode, variables)
        except MemoryError as error:
            raise no_memory(error) from error

    def _agree(self, metas: Mapping[int, Meta]) -> None:
        """Raise RuntimeFault (PK0903) if inputs have different sizes where a symbol names one."""
        known: dict[str, tuple[int, str]] = {}
        for port in (*self.plan.inputs, *self.plan.params):
            meta = metas.get(port.slot)
            for name, size in zip(port.sizes, getattr(meta, "shape", ()), strict=False):
                if not name:
                    continue
                first, where = known.setdefault(name, (size, port.name))
                if first != size:
                    raise RuntimeFault(
                        f"the size `{name}` is {first} in input {where!r} and {size} in"
                        f" {port.name!r}",
                        code="PK0903",
                        help="a name of a size means one size in the whole program",
                    )

    def give(self, key: Key, session: Session) -> None:
        """Return a session. Sessions of the least recently used shapes are dropped."""
        with self._lock:
            known, idle = self._latest
            if key == known:
                idle.append(session)
                return
            idle = self._idle.setdefault(key, [])
            idle.append(session)
            self._latest = key, idle
            self._idle.move_to_end(key)
            while len(self._idle) > MAX_CACHED_SHAPES:
                self._idle.popitem(last=False)
