"""Names on slots. A slot is one storage; it may have many names, and no name ever moves."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pirkit.diag.errors import UsageError


class Labels:
    """The names of a scope's slots.

    Made once for a program, then only read: what runs again and again uses the numbers. Names that
    stand for one storage (a parameter and the result that is written into it) are labels on one
    slot, so that giving a value a second name does not take away the first.
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._first: list[str] = []

    def add(self, name: str) -> int:
        """The slot of that name, a new one if the name is new."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = len(self._first)
            self._first.append(name)
        return slot

    def alias(self, name: str, slot: int) -> int:
        """Put another name on a slot. Raises UsageError if the name is on a different one."""
        held = self._slots.setdefault(name, slot)
        if held != slot:
            raise UsageError(
                f"the name `{name}` is on the storage of `{self.name(held)}`, "
                f"and cannot be on that of `{self.name(slot)}` as well",
                help="a name belongs to one storage; one storage may have many names",
            )
        return slot

    def slot(self, name: str) -> int:
        """The slot of a name. Raises UsageError for a name that is none."""
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
