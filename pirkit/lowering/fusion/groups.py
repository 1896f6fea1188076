"""What the partitioner makes: kernels in the making, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Final

from xdsl.ir import SSAValue

from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.loop_solver import Loops
from pirkit.lowering.fusion.materialize import Choice
from pirkit.lowering.fusion.refusal import Refusal

Pair = tuple[PirOp, PirOp]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a kernel may be."""

    recompute: int = 16
    """Scalar additions per element that computing values again may cost; 0 forbids it."""
    inputs: int = 64
    """Tensors that a kernel may read."""
    ops: int = 512
    """Ops of a kernel."""
    tile: bool = True
    """Whether values that are needed in several orders of loops may be held in tiles."""
    parallel_iterations: int = 64
    """Turns of the common loops that keep processors busy; fewer are fine for little work."""
    small_work: int = 1 << 16
    """Elements that one processor reduces in no time."""
    horizontal: bool = True
    """Whether kernels that only share inputs are joined."""
    excess: bool = False
    """Whether results of float16 and bfloat16 may stay in float32 inside of kernels."""
    profitable_only: bool = False
    """Whether ops and kernels that native code does not run, or that save nothing, are left out."""
    native: bool = False
    """Whether ops that native code does not run, or of unknown sizes, are left out."""


DEFAULT: Final = Policy()


@dataclass(eq=False)
class Group:
    """The ops of one kernel so far."""

    level: int
    units: dict[SSAValue, Unit] = field(default_factory=dict[SSAValue, Unit])
    inputs: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    copies: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Values that another kernel gives, too: this one computes them again for itself."""
    loops: Loops = field(default_factory=Loops)
    tiles: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Values that are held in tiles, and how many additions per element it saves."""
    choices: list[Choice] = field(default_factory=list[Choice])
    is_straight: bool = True
    """Whether its ops read each other point by point: what an op needs of them, at one index."""
    ceiling: float = inf
    """The lowest level of what reads the kernel: it can rise to below that."""

    @property
    def ordered(self) -> list[Unit]:
        """The ops in the order of the program."""
        return sorted(self.units.values(), key=lambda u: u.order)

    @property
    def chosen(self) -> list[Choice]:
        """What was chosen for values that are needed at several indices, and still holds."""
        held = self.tiles.keys()
        return [
            c if c.way != "tile" or not held.isdisjoint(u.result for u in c.values)
            else replace(c, way="again")
            for c in self.choices
        ]  # fmt: skip

    @property
    def own(self) -> list[Unit]:
        """The ops that no other kernel is given for."""
        return [u for v, u in self.units.items() if v not in self.copies]

    def take(self, other: Group, of: dict[PirOp, Group]) -> None:
        """Take the ops of another kernel over."""
        for unit in other.own:
            of[unit.op] = self
        self.units |= other.units
        copies = (*self.copies, *other.copies)
        self.copies = {v: None for v in copies if of[self.units[v].op] is not self}
        inputs = (*self.inputs, *other.inputs)
        self.inputs = {v: None for v in inputs if v not in self.units}
        self.tiles |= other.tiles
        self.choices += other.choices
        self.ceiling = min(self.ceiling, other.ceiling)


@dataclass
class Partition:
    """Groups of ops, and why ops that could have been fused were not."""

    groups: list[Group]
    of: dict[PirOp, Group]
    refusals: dict[Pair, Refusal]
    effects: Mapping[PirOp, PirOp]
    """Of each op that acts on the world, or draws numbers, the one before it: their order stays."""
    sized_by: set[SSAValue] = field(default_factory=set[SSAValue])
    """What kernels have for its sizes, though no op reads it that stays."""

    @cached_property
    def read_again(self) -> frozenset[SSAValue]:
        """What kernels read, once all are made, that compute values of other kernels again."""
        return frozenset(v for g in self.groups if g.copies for v in g.inputs)


def too_large(inputs: int, ops: int, policy: Policy) -> tuple[str, str] | None:
    """Why a kernel of that size is not made, and the option that allows it."""
    if inputs > policy.inputs:
        reason = f"the kernel would read more than {policy.inputs} tensors"
        return reason, f"fuse{{inputs={inputs}}}"
    if ops > policy.ops:
        return f"the kernel would be of more than {policy.ops} ops", f"fuse{{ops={ops}}}"
    return None
