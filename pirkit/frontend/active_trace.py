"""The program that is being recorded, for ops that have no traced operand to find it by.

Random ops need it: a function that is compiled, or the body of a loop, draws again at each run. One
that is traced for a single call may draw at once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from pirkit.dialect.opdef import OpDef


class Records(Protocol):
    """A recorder of a program."""

    def call(self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Record a call of an op."""
        ...


ACTIVE: Final[ContextVar[Records | None]] = ContextVar("ACTIVE", default=None)


@contextmanager
def recording_draws(records: Records) -> Generator[None]:
    """Random ops are recorded, not computed, for the body of a ``with`` statement."""
    token = ACTIVE.set(records)
    try:
        yield
    finally:
        ACTIVE.reset(token)
