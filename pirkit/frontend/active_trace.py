"""The recorder in use, for ops that have no traced operand from which to take it.

These are random ops. In a function that is compiled, or in the body of a loop, they are recorded,
so that each run draws anew. In a function that is traced for a single call they draw immediately.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from pirkit.dialect.opdef import OpDef


class Records(Protocol):
    """What can record calls of ops: in practice a `tracing.Recorder`."""

    def call(self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Record a call of an op with these arguments; returns its results as traced values."""
        ...


ACTIVE: Final[ContextVar[Records | None]] = ContextVar("ACTIVE", default=None)
"""The recorder that random ops call; None where they draw at once."""


@contextmanager
def recording_draws(records: Records) -> Generator[None]:
    """Let ``records`` record random ops, which are not computed, in a ``with`` statement."""
    token = ACTIVE.set(records)
    try:
        yield
    finally:
        ACTIVE.reset(token)
