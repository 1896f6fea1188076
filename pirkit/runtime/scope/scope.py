"""A scope: the variables of one run, and of the runs that go on from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.steps import SavedValues
from pirkit.runtime.tensor.dense import DenseTensor

Value = Any
"""What a slot holds: a tensor, or its meta alone; a list of arrays; a stack; or None."""


class Scope:
    """A value for each slot, shared with whoever put it there.

    Nothing is copied on the way in: a tensor in a scope is the caller's, and so is its version.
    ``keep`` notes versions, ``verify`` tells whether there was a write since. One thread at a time
    may use a scope.
    """

    __slots__ = ("__weakref__", "_values", "_versions", "labels")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._values: list[Value] = [None] * len(labels)
        self._versions: dict[int, int] = {}

    # --- by slot ---

    def share(self, slot: int, value: Value) -> None:
        """Put a value into a slot. Nothing is copied."""
        self._values[slot] = value

    def get(self, slot: int) -> Value:
        """What is in a slot. RuntimeFault (PK0904) if nothing is."""
        value = self._values[slot]
        if value is None:
            raise RuntimeFault(f"the variable {self.labels.name(slot)!r} is empty", code="PK0904")
        return value

    def drop(self, slots: Iterable[int]) -> None:
        """Empty some slots."""
        for slot in slots:
            self._values[slot] = None
            self._versions.pop(slot, None)

    def keep(
        self, slots: Iterable[int], shapes: Iterable[int] = (), watched: Iterable[int] = ()
    ) -> None:
        """Keep these slots and empty all others; of ``shapes`` keep the meta only.

        Notes the versions of the ``watched`` ones, so that ``verify`` can compare.
        """
        held = [(slot, self._values[slot]) for slot in slots]
        held += [(slot, _without_data(self._values[slot])) for slot in shapes]
        self.clear()
        for slot, value in held:
            self._values[slot] = value
        for slot in watched:
            self._versions[slot] = self._values[slot].version

    def verify(self) -> None:
        """Raise RuntimeFault (PK0907) if a tensor was written after it was kept."""
        for slot, version in self._versions.items():
            now = self._values[slot].version
            if now != version:
                raise RuntimeFault(
                    f"{self.labels.name(slot)!r} was overwritten after the forward run: it has "
                    f"version {now}, and the backward needs version {version}",
                    code="PK0907",
                    help="run the backward before the write, or write to a copy",
                )

    def clear(self) -> None:
        """Empty the scope: it keeps nothing alive."""
        self._values = [None] * len(self._values)
        self._versions.clear()

    @property
    def nbytes(self) -> int:
        """Bytes that the values keep alive, memory that two of them share counted once."""
        blocks: dict[int, int] = {}
        for value in self._values:
            for array in _arrays(value):
                tensor = DenseTensor(array)
                blocks[tensor.buffer.address] = max(
                    blocks.get(tensor.buffer.address, 0), tensor.buffer.nbytes
                )
        return sum(blocks.values())

    # --- by name, for people ---

    def __getitem__(self, name: str) -> Value:
        return self.get(self.labels.slot(name))

    def __setitem__(self, name: str, value: Value) -> None:
        self.share(self.labels.slot(name), value)

    def version(self, name: str) -> int:
        """How often the variable was written, through this scope or elsewhere."""
        return self.get(self.labels.slot(name)).version


def _without_data(value: Value) -> Value:
    return value.meta if isinstance(value, DenseTensor) else value


def _arrays(value: Value) -> Iterable[Any]:
    if isinstance(value, DenseTensor):
        yield value.array
    elif isinstance(value, list | tuple):
        for each in cast("Iterable[Any]", value):
            yield from _arrays(each)
    elif hasattr(value, "flags"):
        yield value


class Thawed(dict[int, SavedValues]):
    """Copies of stacks that one run may use up; several tokens may stand for one stack."""

    def of(self, value: Value) -> Value:
        """The run's own copy of a stack, what lies on it shared; any other value itself."""
        if not isinstance(value, SavedValues):
            return value
        copy = self.get(id(value))
        if copy is None:
            copy = self[id(value)] = SavedValues()
            copy += [tuple(map(self.of, saved)) for saved in value]
        return copy
