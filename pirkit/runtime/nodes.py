"""Planned instructions: calls bound to kernels, with the buffer of each result.

:mod:`pirkit.runtime.planning` computes a layout from a plan, for inputs of known shapes;
:mod:`pirkit.runtime.session` builds callables from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pirkit.runtime.arena import Storage
from pirkit.runtime.binding import Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call, Copy, If, Instruction, Stack, While
from pirkit.runtime.registry import Choice

# --- the buffer of a result -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InArena:
    """A range of the session's arena, at a byte ``offset``."""

    meta: TensorMeta
    offset: int


@dataclass(frozen=True, slots=True)
class NewArray:
    """An array allocated in each run, which escapes to the caller."""

    meta: TensorMeta


@dataclass(frozen=True, slots=True)
class Constant:
    """An array of the session, computed when the session is created and constant from then on."""

    meta: TensorMeta


@dataclass(frozen=True, slots=True)
class InPlace:
    """The array that is already in a slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Detour:
    """A temporary in the arena, under another slot; a `Move` copies it to the destination."""

    slot: int
    place: InArena


Target = InArena | NewArray | Constant | InPlace | Detour | None
Targets = tuple["Target | tuple[Target, ...]", ...]


# --- planned instructions ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """A call with its step; ``targets`` are the buffers of its results, empty if the step returns
    arrays itself.

    With ``detach``, results must not share memory with operands; results in ``destinations`` are
    copied into the slot's fixed buffer.
    """

    call: Call
    step: Step
    targets: Targets
    choice: Choice
    detach: bool = False
    destinations: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A call whose shapes or attributes are known only at run time."""

    call: Call
    destinations: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Move:
    """Copies values into fixed buffers, such as loop state.

    A place of None allocates a new array. With ``overlapping``, a source may share memory with
    another target, so all sources are read first.
    """

    instruction: Instruction
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    places: tuple[Target, ...]
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class Rename:
    """Assigns the arrays of some slots to others, without copying elements."""

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
    """An action on a stack of saved values, or on a tensor array."""

    instruction: Stack


@dataclass(frozen=True, slots=True)
class Release:
    """Drops references to arrays allocated by the run."""

    instruction: Instruction
    slots: tuple[int, ...]


Node = Bound | Dynamic | Move | Rename | Branch | Loop | StackNode | Release


def every_node(nodes: Iterable[Node]) -> Iterator[Node]:
    """Nodes, and after each one those of its blocks."""
    for node in nodes:
        yield node
        if isinstance(node, Branch):
            yield from every_node((*node.then, *node.orelse))
        elif isinstance(node, Loop):
            yield from every_node(node.body)


@dataclass(frozen=True, slots=True)
class Access:
    """The slots and storages that a node reads and writes, for parallel execution."""

    reads: frozenset[Storage | int]
    writes: frozenset[Storage | int]


@dataclass(frozen=True)
class Layout:
    """What one session executes: planned instructions, and the arena size ``nbytes``.

    ``owned`` are the output slots whose arrays can be given to the caller without a copy.
    ``copied`` are small inputs and parameters that are copied into the arena. ``accesses``
    determine which nodes may run concurrently; None is a barrier. ``in_place`` are the variables
    whose final value is computed in their own buffer; ``copies`` is the number of calls that copy
    a value into a variable.
    """

    nodes: tuple[Node, ...]
    nbytes: int
    owned: frozenset[int]
    copied: tuple[tuple[int, InArena], ...]
    accesses: tuple[Access | None, ...]
    in_place: frozenset[int] = frozenset()
    copies: int = 0
