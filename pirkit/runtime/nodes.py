"""Planned instructions: calls bound to kernels, with the buffer of each result.

:mod:`pirkit.runtime.planning` computes a layout from a plan, for inputs of known shapes;
:mod:`pirkit.runtime.session` builds callables from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from pirkit.runtime.arena import Storage
from pirkit.runtime.binding import Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call, Copy, If, Instruction, Stack, While
from pirkit.runtime.registry import Choice

# --- the buffer of a result -----------------------------------------------------------------------


class InArena(Struct, frozen=True):
    """A range of the session's arena, at a byte ``offset``."""

    meta: TensorMeta
    offset: int


class NewArray(Struct, frozen=True):
    """An array allocated in each run, which escapes to the caller."""

    meta: TensorMeta


class Constant(Struct, frozen=True):
    """An array of the session, computed when the session is created and constant from then on."""

    meta: TensorMeta


class InPlace(Struct, frozen=True):
    """The array that is already in a slot."""

    slot: int


class Detour(Struct, frozen=True):
    """A temporary in the arena, under another slot; a `Move` copies it to the destination."""

    slot: int
    place: InArena


Target = InArena | NewArray | Constant | InPlace | Detour | None
Targets = tuple["Target | tuple[Target, ...]", ...]


# --- planned instructions ------------------------------------------------------------------------


class Bound(Struct, frozen=True):
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


class Dynamic(Struct, frozen=True):
    """A call whose shapes or attributes are known only at run time."""

    call: Call
    destinations: frozenset[int] = frozenset()


class Move(Struct, frozen=True):
    """Copies values into fixed buffers, such as loop state.

    A place of None allocates a new array. With ``overlapping``, a source may share memory with
    another target, so all sources are read first.
    """

    instruction: Instruction
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    places: tuple[Target, ...]
    overlapping: bool = False


class Rename(Struct, frozen=True):
    """Assigns the arrays of some slots to others, without copying elements."""

    instruction: Copy | Call
    sources: tuple[int, ...]
    targets: tuple[int, ...]


class Branch(Struct, frozen=True):
    """Runs one of two blocks."""

    instruction: If
    then: tuple[Node, ...]
    orelse: tuple[Node, ...]


class Loop(Struct, frozen=True):
    """Runs its block while the condition holds."""

    instruction: While
    body: tuple[Node, ...]


class StackNode(Struct, frozen=True):
    """An action on a stack of saved values, or on a tensor array."""

    instruction: Stack


class Release(Struct, frozen=True):
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


class Access(Struct, frozen=True):
    """The slots and storages that a node reads and writes, for parallel execution."""

    reads: frozenset[Storage | int]
    writes: frozenset[Storage | int]


class Layout(Struct, frozen=True):
    """The layout of a session: planned instructions, and the arena size ``nbytes``.

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
