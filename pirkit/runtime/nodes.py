"""Planned instructions: calls with their steps, and where each result goes.

A layout is what :mod:`pirkit.runtime.planning` makes of a plan for inputs of known shapes, and what
:mod:`pirkit.runtime.session` turns into callables.
"""

from __future__ import annotations

from dataclasses import dataclass

from pirkit.runtime.arena import Storage
from pirkit.runtime.binding import Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call, Copy, If, Instruction, Stack, While
from pirkit.runtime.registry import Choice

# --- where a result goes -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InArena:
    """A stretch of the session's memory."""

    meta: TensorMeta
    offset: int


@dataclass(frozen=True, slots=True)
class NewArray:
    """New memory in each run, which the caller keeps."""

    meta: TensorMeta


@dataclass(frozen=True, slots=True)
class Constant:
    """Memory of its own, written when the session is made and never again."""

    meta: TensorMeta


@dataclass(frozen=True, slots=True)
class InPlace:
    """The array that is in a slot already."""

    slot: int


@dataclass(frozen=True, slots=True)
class Detour:
    """A stretch of memory under another slot, to be moved to the result's own place."""

    slot: int
    place: InArena


Target = InArena | NewArray | Constant | InPlace | Detour | None
Targets = tuple["Target | tuple[Target, ...]", ...]


# --- planned instructions ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """A call with its step; ``targets`` are where the results go, empty if the step makes them.

    ``detach`` says that results must share no memory with operands; results in ``destinations``
    are copied
    to where the slot is.
    """

    call: Call
    step: Step
    targets: Targets
    choice: Choice
    detach: bool = False
    destinations: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A call whose shapes, or attributes, are known only when it runs."""

    call: Call
    destinations: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Move:
    """Copies elements into targets that stay where they are: loop state.

    A place of None makes a new array. ``overlapping`` says that a source may lie in a target.
    """

    instruction: Instruction
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    places: tuple[Target, ...]
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class Rename:
    """Gives slots the arrays of others; no element moves."""

    instruction: Copy | Call
    sources: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs one of two blocks."""

    instruction: If
    then: tuple[Node, ...]
    orelse: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs its block while the condition holds."""

    instruction: While
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class StackNode:
    """Acts on a stack of saved values."""

    instruction: Stack


@dataclass(frozen=True, slots=True)
class Release:
    """Drops arrays that a run made."""

    instruction: Instruction
    slots: tuple[int, ...]


Node = Bound | Dynamic | Move | Rename | Branch | Loop | StackNode | Release


@dataclass(frozen=True, slots=True)
class Access:
    """Slots and memory that a node reads and writes, each known by its identity."""

    reads: frozenset[Storage | int]
    writes: frozenset[Storage | int]


@dataclass(frozen=True)
class Layout:
    """What one session executes: planned instructions and the size of the arena they use.

    ``owned`` names the output slots whose arrays the caller may keep as they are. ``copied`` are
    small inputs and parameters that get a place in the arena. ``accesses`` tell
    which nodes may run at the same time; None for one that waits for all before it, and that all
    behind it wait for. ``in_place`` are the variables whose last value lies in their own memory;
    ``copies`` counts the calls that copy a value into a variable.
    """

    nodes: tuple[Node, ...]
    nbytes: int
    owned: frozenset[int]
    copied: tuple[tuple[int, InArena], ...]
    accesses: tuple[Access | None, ...]
    in_place: frozenset[int] = frozenset()
    copies: int = 0
