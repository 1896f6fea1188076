"""A scope: the variables of a forward run and of the backward runs that continue it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pirkit.diag.errors import RuntimeFault
from pirkit.runtime.arrays import SavedValues
from pirkit.runtime.scope.labels import Labels
from pirkit.runtime.tensor.dense import DenseTensor

Value = Any
"""The content of a slot: a tensor, or only its meta; a list of arrays; a stack; or None."""


class Scope:
    """A value for each slot, shared with the caller that stored it.

    Values are not copied when they are stored: a tensor in a scope is the caller's tensor, with its
    version counter. ``keep`` records versions, ``verify`` detects writes since then. Not
    thread-safe.
    """

    __slots__ = ("__weakref__", "_values", "_versions", "labels")

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self._values: list[Value] = [None] * len(labels)
        self._versions: dict[int, int] = {}

    # --- by slot ---

    def share(self, slot: int, value: Value) -> None:
        """Store a value in a slot, without a copy."""
        self._values[slot] = value

    def get(self, slot: int) -> Value:
        """The value of a slot. Raises RuntimeFault (PK0904) if it is empty."""
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

        Records the versions of the ``watched`` ones for ``verify``.
        """
        held = [(slot, self._values[slot]) for slot in slots]
        held += [(slot, _without_data(self._values[slot])) for slot in shapes]
        self.clear()
        for slot, value in held:
            self._values[slot] = value
        for slot in watched:
            self._versions[slot] = self._values[slot].version

    def verify(self) -> None:
        """Raise RuntimeFault (PK0907) if a watched tensor was written since ``keep``."""
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
        """Empty all slots."""
        self._values = [None] * len(self._values)
        self._versions.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers that the values keep alive; shared buffers count once."""
        blocks: dict[int, int] = {}
        for value in self._values:
            for array in _arrays(value):
                tensor = DenseTensor(array)
                blocks[tensor.buffer.address] = max(
                    blocks.get(tensor.buffer.address, 0), tensor.buffer.nbytes
                )
        return sum(blocks.values())

    # --- by name ---

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
    """Copies of saved stacks, one for each run, as a run pops them; by identity of the stack."""

    def of(self, value: Value) -> Value:
        """A shallow copy of a stack, the same one at each call; any other value itself."""
        if not isinstance(value, SavedValues):
            return value
        copy = self.get(id(value))
        if copy is None:
            copy = self[id(value)] = SavedValues()
            copy += [tuple(map(self.of, saved)) for saved in value]
        return copy
