"""What a split gives: two programs, their name lists, and what the first keeps for the second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from pirkit.dialect.operation import ProgramOp

Names: TypeAlias = tuple[str | None, ...]

FORWARD: Final = "forward"
BACKWARD: Final = "backward"


@dataclass(frozen=True)
class SplitNames:
    """Names of what goes in and out of both halves; None stands where there is nothing.

    Position i of a list belongs to position i of its partners: ``fx`` ``bx`` ``bx_g``, ``fp``
    ``bp`` ``bp_g``, ``fm`` ``bm``, ``fo`` ``bo`` ``bo_g``. A name that stands in several lists is
    the same storage: an output that is a parameter, or was written into it, has the parameter's
    name.
    """

    fx: tuple[str, ...]
    """Inputs of the forward program."""
    fp: tuple[str, ...]
    """Parameters and buffers of the forward program, sorted."""
    fm: tuple[str, ...]
    """Middles: what the forward program hands to the backward program alone."""
    fo: tuple[str, ...]
    """Outputs, each once."""
    bx: Names
    """Inputs that the backward program takes."""
    bp: Names
    bm: Names
    bo: Names
    bo_g: Names
    """Under which name the gradient of each output enters the backward program."""
    bx_g: Names
    """Under which name the backward program gives the gradient of each input."""
    bp_g: Names
    no_need_buffers: tuple[str, ...]
    """Of what the backward program takes: those of which it reads only shape and dtype."""

    def items(self) -> Iterator[tuple[str, Names]]:
        """The lists by name, in the order of their declaration."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True)
class Saved:
    """A value that is kept from the forward program for the backward program.

    ``how`` is ``middle``, ``output``, ``input`` or ``param`` for what is kept as it is, ``copy``
    for the content before a later write, ``stack`` for the token of a stack, ``shape`` for what
    only lends its shape.
    """

    name: str
    bytes: int
    how: str


@dataclass(frozen=True)
class SplitReport:
    """What a split cost, and what it had to do."""

    mode: str
    bytes: int
    """Memory that is kept for the backward program alone; an unknown dimension counts as 1."""
    recomputed: tuple[str, ...]
    """Names of the ops that the backward program computes again, in order."""
    notes: tuple[str, ...]
    """What was done so that each value has the content that was used: copies, reorderings."""

    def __str__(self) -> str:
        again = len(self.recomputed)
        lines = [f"{self.mode}: {self.bytes:,} bytes saved, {again} operations recomputed"]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class SplitParts:
    """The halves of a program with its gradient; both are ordinary programs in modules."""

    forward: ModuleOp
    backward: ModuleOp
    names: SplitNames
    saved: tuple[Saved, ...]
    report: SplitReport
    returns: tuple[tuple[str, int], ...]
    """Each output of the program before the split, and its position in ``fo``."""

    @property
    def forward_program(self) -> ProgramOp:
        return _only(self.forward)

    @property
    def backward_program(self) -> ProgramOp:
        return _only(self.backward)


def _only(module: ModuleOp) -> ProgramOp:
    (program,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return program
