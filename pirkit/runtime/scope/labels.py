"""Labels: names of slots. A slot is one storage; it may have several names, which never move."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pirkit.diag.errors import UsageError


class Labels:
    """The names of a scope's slots.

    Built once for a program and then read-only; runs use slot numbers. Several names of one storage
    (a parameter, and the result that is written into it) are labels of one slot.
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._first: list[str] = []

    def add(self, name: str) -> int:
        """The slot of a name; a new slot for a new name."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = len(self._first)
            self._first.append(name)
        return slot

    def alias(self, name: str, slot: int) -> int:
        """Add a name to a slot. Raises UsageError if another slot has the name."""
        held = self._slots.setdefault(name, slot)
        if held != slot:
            raise UsageError(
                f"the name `{name}` is on the storage of `{self.name(held)}`, "
                f"and cannot be on that of `{self.name(slot)}` as well",
                help="a name belongs to one storage; one storage may have many names",
            )
        return slot

    def slot(self, name: str) -> int:
        """The slot of a name. Raises UsageError for an unknown name."""
        slot = self._slots.get(name)
        if slot is None:
            near = difflib.get_close_matches(name, self._slots, n=1)
            raise UsageError(
                f"the scope has no variable {name!r}",
                help=f"did you mean {near[0]!r}?" if near else None,
            )
        return slot

    def name(self, slot: int) -> str:
        """The first name that a slot was given."""
        return self._first[slot]

    def names(self, slot: int) -> tuple[str, ...]:
        """All names of a slot, the first one first."""
        return tuple([n for n, s in self._slots.items() if s == slot])

    def __len__(self) -> int:
        """Number of slots."""
        return len(self._first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __contains__(self, name: object) -> bool:
        return name in self._slots
