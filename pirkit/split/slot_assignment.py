"""Assigns slots to the names of a split: both programs run in one scope, over the same slots."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pirkit.runtime.scope.labels import Labels
from pirkit.split.split_result import Names, SplitNames

Slots = tuple[int | None, ...]
"""Slots by position; None marks an empty position."""


class Wiring(Struct, frozen=True):
    """The slots of all names, looked up once; a run uses numbers only.

    Position i of a tuple of slots belongs to position i of the list of ``names``.
    """

    labels: Labels
    forward: Mapping[str, int]
    """Name of the forward program -> slot."""
    backward: Mapping[str, int]
    """Name of the backward program -> slot."""
    inputs: tuple[int, ...]
    params: tuple[int, ...]
    outputs: tuple[int, ...]
    seeds: Slots
    input_grads: Slots
    param_grads: Slots
    saved: tuple[int, ...]
    """Slots that the forward saves for the backward."""
    shapes: tuple[int, ...]
    """Slots of which the backward reads the shape, but not the data."""
    watched: tuple[int, ...]
    """Slots that the backward reads and the caller may write: inputs, parameters and outputs."""

    @property
    def variables(self) -> frozenset[int]:
        """The slots that belong to the caller."""
        return frozenset((*self.inputs, *self.params))


def slot_wiring(names: SplitNames) -> Wiring:
    """Assign a slot to each storage of a split; each of its names is a label on that slot.

    An argument of the backward program has the slot of its partner in the forward program, even if
    their names differ.
    """
    labels = Labels()
    forward = {n: labels.add(n) for n in (*names.fx, *names.fp, *names.fm, *names.fo)}
    backward: dict[str, int] = {}
    pairs = ((names.fx, names.bx), (names.fp, names.bp), (names.fm, names.bm), (names.fo, names.bo))
    for ours, theirs in pairs:
        for name, taken in zip(ours, theirs, strict=True):
            if taken is not None:
                backward[taken] = labels.alias(taken, forward[name])
    taken = frozenset(backward.values())
    for name in (*names.bo_g, *names.bx_g, *names.bp_g):
        if name is not None and name not in backward:
            backward[name] = labels.add(name)
    shapes = frozenset(backward[n] for n in names.no_need_buffers if n in backward)
    inputs, params, outputs = (
        tuple([forward[n] for n in listed]) for listed in (names.fx, names.fp, names.fo)
    )
    saved = tuple(sorted(taken - shapes))
    visible = {*inputs, *params, *outputs}
    return Wiring(
        labels,
        forward,
        backward,
        inputs,
        params,
        outputs,
        _slots(names.bo_g, backward),
        _slots(names.bx_g, backward),
        _slots(names.bp_g, backward),
        saved,
        tuple(sorted(taken & shapes)),
        tuple([slot for slot in saved if slot in visible]),
    )


def _slots(names: Names, slots: Mapping[str, int]) -> Slots:
    return tuple([None if n is None else slots[n] for n in names])
