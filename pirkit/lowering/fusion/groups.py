"""The data of the partitioner: the fusion policy, groups of ops, and the partition of a block."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace
from xdsl.ir import SSAValue

from pirkit.diag.once import cached_property
from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.loop_solver import Loops
from pirkit.lowering.fusion.materialize import Choice
from pirkit.lowering.fusion.refusal import Refusal

Pair = tuple[PirOp, PirOp]


class Policy(Struct, frozen=True):
    """Limits and switches of the fusion; the options of the pass `fuse`."""

    recompute: int = 16
    """Largest cost of recomputation, in additions per element; 0 forbids it."""
    inputs: int = 64
    """Largest number of input tensors of a kernel."""
    ops: int = 512
    """Largest number of ops of a kernel."""
    tile: bool = True
    """Whether values that are needed in several loop orders may be held in tiles."""
    parallel_iterations: int = 64
    """Iterations of the common loops that keep all threads busy; fewer only for small work."""
    small_work: int = 1 << 16
    """Reductions of at most this many elements need no parallel loop."""
    horizontal: bool = True
    """Whether kernels that only share inputs are joined (horizontal fusion)."""
    excess: bool = False
    """Whether float16 and bfloat16 intermediates may stay in float32 inside kernels."""
    profitable_only: bool = False
    """Whether ops and kernels that native code does not run, or that save nothing, are left out."""
    native: bool = False
    """Whether ops that native code does not run, or of unknown sizes, are left out."""


DEFAULT: Final = Policy()


class Group(Struct, eq=False):
    """The ops of a kernel that is being formed."""

    level: int = 0
    units: dict[SSAValue, Unit] = field(default_factory=dict[SSAValue, Unit])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    copies: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Values that belong to other kernels and that this one recomputes for its own use."""
    places: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that its ops use as indices. They have to be in memory before the kernel runs, so none
    of its own ops computes one."""
    loops: Loops = field(default_factory=Loops)
    tiles: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Tiled values, each with the additions per element that its tile saves."""
    choices: list[Choice] = field(default_factory=list[Choice])
    is_straight: bool = True
    """Whether its ops read each other only elementwise: a reader needs each value at one index."""
    ceiling: float = inf
    """The lowest level on which the kernel is read: its own level must stay below."""

    @property
    def ordered(self) -> list[Unit]:
        """The ops in the order of the program."""
        return sorted(self.units.values(), key=lambda u: u.order)

    @property
    def chosen(self) -> list[Choice]:
        """The choices for values needed at several indices, with tiles that were dropped since
        shown as recomputed.
        """
        held = self.tiles.keys()
        return [
            c if c.way != "tile" or not held.isdisjoint(u.result for u in c.values)
            else replace(c, way="again")
            for c in self.choices
        ]  # fmt: skip

    @property
    def own(self) -> list[Unit]:
        """The ops that this kernel defines, without recomputed ones."""
        return [u for v, u in self.units.items() if v not in self.copies]

    def take(self, other: Group, of: dict[PirOp, Group]) -> None:
        """Merge another group into this one."""
        for unit in other.own:
            of[unit.op] = self
        self.units |= other.units
        self.places |= other.places
        copies = (*self.copies, *other.copies)
        self.copies = {v: None for v in copies if of.get(self.units[v].op) is not self}
        inputs = (*self.inputs, *other.inputs)
        self.inputs = {v: None for v in inputs if v not in self.units}
        self.tiles |= other.tiles
        self.choices += other.choices
        self.ceiling = min(self.ceiling, other.ceiling)

    def computes_places_of(self, other: Group) -> bool:
        """Whether it computes a value that ops of another group use as indices."""
        return not other.places.isdisjoint(self.units)


class Partition(Struct, dict=True):
    """The groups of a block, and the refusals of pairs of ops that were not fused."""

    groups: list[Group]
    of: dict[PirOp, Group]
    refusals: dict[Pair, Refusal]
    effects: Mapping[PirOp, PirOp]
    """For each op with effects (I/O, random numbers) the previous one: their order is fixed."""
    sized_by: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that kernels read only for their sizes; they must be materialized."""

    @cached_property
    def read_again(self) -> frozenset[SSAValue]:
        """The inputs of kernels that recompute values of other kernels; valid when partitioning is
        complete.
        """
        return frozenset(v for g in self.groups if g.copies for v in g.inputs)


def too_large(inputs: int, ops: int, policy: Policy) -> tuple[str, str] | None:
    """The reason why a kernel exceeds a limit, and the option that allows it; None if it fits."""
    if inputs > policy.inputs:
        reason = f"the kernel would read more than {policy.inputs} tensors"
        return reason, f"fuse{{inputs={inputs}}}"
    if ops > policy.ops:
        return f"the kernel would be of more than {policy.ops} ops", f"fuse{{ops={ops}}}"
    return None
