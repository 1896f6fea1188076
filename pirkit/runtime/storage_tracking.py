"""Tracks, during memory planning, the storages that the value of each slot may be in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec import Struct, field

from pirkit.runtime.arena import Arena, Storage
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import Operand, Plan


class StorageTracker(Struct):
    """The metas of slots and the storages of their values, at one point of the plan."""

    plan: Plan
    arena: Arena
    metas: dict[int, Meta] = field(default_factory=dict[int, Meta])
    storages: dict[int, set[Storage]] = field(default_factory=dict[int, set[Storage]])
    fills_storage: set[int] = field(default_factory=set[int])
    """Slots whose array covers its entire storage."""
    retired: list[Storage] = field(default_factory=list[Storage])

    def meta(self, operand: Operand) -> Meta | None:
        """The current meta of an operand: the inferred one if there is one, else the declared."""
        if operand is None:
            return None
        if isinstance(operand, int):
            return self.metas.get(operand, self.plan.slots[operand])
        return VecMeta(tuple([cast(TensorMeta, self.meta(i)) for i in operand]))

    def declared(self, operand: Operand) -> Meta | None:
        """The declared meta of an operand, which may be more precise than the inferred one."""
        if operand is None:
            return None
        if isinstance(operand, int):
            return self.plan.slots[operand]
        return VecMeta(tuple([cast(TensorMeta, self.declared(i)) for i in operand]))

    def refer(self, slot: int, *storages: Storage) -> None:
        """Record that the value of the slot may be in these storages, in addition to others."""
        self.storages.setdefault(slot, set()).update(storages)
        for storage in storages:
            storage.slots.add(slot)

    def feed(self, slot: int, meta: Meta, *, is_variable: bool) -> None:
        """Record that the slot has a value of the caller."""
        self.metas[slot] = meta
        self.refer(slot, Storage("variable" if is_variable else "caller"))
        if is_variable:
            self.fills_storage.add(slot)

    def is_variable(self, slot: int) -> bool:
        return any(s.owner == "variable" for s in self.storages.get(slot, ()))

    def is_in_place(self, slot: int) -> bool:
        """True if the slot's value is in the buffer of the caller's variable."""
        return self.is_variable(slot) and slot in self.fills_storage

    def retire(self, slot: int) -> None:
        """The slot gets a new value. Its storage is freed only by ``collect``, as the step that
        computes the new value may read the old one.
        """
        for storage in self.storages.pop(slot, ()):
            storage.slots.discard(slot)
            self.retired.append(storage)
        self.fills_storage.discard(slot)

    def collect(self) -> None:
        """Free the memory of retired values that no slot refers to."""
        for storage in dict.fromkeys(self.retired):
            if not storage.slots and storage.owner == "arena":
                self.arena.give(storage.offset, storage.nbytes)
        self.retired.clear()

    def drop(self, slot: int) -> None:
        self.retire(slot)
        self.collect()

    def touched(self, slots: Iterable[int]) -> frozenset[Storage | int]:
        """Slots, and the storages of their values."""
        found = tuple(slots)
        return frozenset((*found, *(s for i in found for s in self.storages.get(i, ()))))

    def only_storage(self, slot: int) -> Storage | None:
        """The writable storage that the slot fills and shares with no other slot, or None."""
        storages_of_slot = self.storages.get(slot, set())
        if len(storages_of_slot) != 1 or slot not in self.fills_storage:
            return None
        (storage,) = storages_of_slot
        writable = storage.owner not in ("caller", "heap", "once") and storage.slots == {slot}
        return storage if writable else None
