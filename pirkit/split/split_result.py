"""The result of a split: two programs, their name lists, and the saved values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final, TypeAlias

from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program

Names: TypeAlias = tuple[str | None, ...]
"""Names by position; None marks an empty position."""

FORWARD: Final = "forward"
BACKWARD: Final = "backward"


@dataclass(frozen=True)
class SplitNames:
    """The names of arguments and results of both programs; None marks an empty position.

    Position i of a list belongs to position i of its partners: ``fx`` ``bx`` ``bx_g``, ``fp``
    ``bp`` ``bp_g``, ``fm`` ``bm``, ``fo`` ``bo`` ``bo_g``. A name in several lists is one storage:
    an output that is a parameter, or was written into one, has the name of the parameter.
    """

    fx: tuple[str, ...]
    """Inputs of the forward program."""
    fp: tuple[str, ...]
    """Parameters and buffers of the forward program, sorted."""
    fm: tuple[str, ...]
    """Middles: values that the forward program saves for the backward program alone."""
    fo: tuple[str, ...]
    """Outputs, each storage once."""
    bx: Names
    """Inputs that the backward program takes; ``bp``, ``bm`` and ``bo`` are those of the others."""
    bp: Names
    bm: Names
    bo: Names
    bo_g: Names
    """The arguments of the backward program that are the gradients of outputs."""
    bx_g: Names
    """The results of the backward program that are the gradients of inputs."""
    bp_g: Names
    no_need_buffers: tuple[str, ...]
    """Arguments of the backward program of which it reads only shape and dtype."""

    def items(self) -> Iterator[tuple[str, Names]]:
        """The lists with their names, in the order of declaration."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True)
class Saved:
    """A value that the forward program saves for the backward program.

    ``how`` is ``middle``, ``output``, ``input`` or ``param`` for a value that is saved as it is,
    ``copy`` for a copy made before a later write, ``stack`` for the token of a stack, ``shape`` for
    a value of which only the shape is read.
    """

    name: str
    bytes: int
    how: str


@dataclass(frozen=True)
class SplitReport:
    """The values that a split saves and recomputes, and the copies and moves that this needed."""

    mode: str
    bytes: int
    """Bytes saved for the backward program alone; an unknown dimension counts as 1."""
    recomputed: tuple[str, ...]
    """Names of the ops that the backward program recomputes, in order."""
    notes: tuple[str, ...]
    """Copies and moves that were needed so that the backward reads the right versions."""

    def __str__(self) -> str:
        again = len(self.recomputed)
        lines = [f"{self.mode}: {self.bytes:,} bytes saved, {again} operations recomputed"]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class SplitParts:
    """The two programs of a split; each can be printed, transformed and compiled by itself."""

    forward: Program
    backward: Program
    names: SplitNames
    saved: tuple[Saved, ...]
    report: SplitReport
    returns: tuple[tuple[str, int], ...]
    """Each output of the program before the split, and its position in ``fo``."""

    @property
    def forward_program(self) -> ProgramOp:
        return self.forward.main

    @property
    def backward_program(self) -> ProgramOp:
        return self.backward.main
