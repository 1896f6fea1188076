"""Refusals: why two ops are not in one kernel, as data that can be verified."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field
from xdsl.ir import SSAValue

from pirkit.dialect.operation import PirOp, describe
from pirkit.index.expr import Iter
from pirkit.index.index_maps import Index, bindings, compose, evaluate, space
from pirkit.lowering.fusion.index_conflicts import Derivation, Step

KINDS: Final = (
    "opaque", "index-conflict", "stage", "cost", "limit", "cycle", "alias", "guard",
)  # fmt: skip
"""The kinds of refusals; docs/fusion.md says what each means."""


class Refusal(Struct, frozen=True):
    """Why ``ops`` were not fused.

    For an index conflict, ``path1`` and ``path2`` derive the two indices at which one element of
    the reader needs ``tensor``, ``witness`` is an assignment of the iterators for which they
    differ, and ``costs`` are the costs of the alternatives. ``remedy`` are pass options with which
    the two are fused.
    """

    kind: str
    ops: tuple[PirOp, PirOp]
    reason: str
    tensor: SSAValue | None = None
    path1: Derivation = ()
    path2: Derivation = ()
    witness: Mapping[Iter, int] = field(default_factory=dict[Iter, int])
    remedy: str = ""
    costs: str = ""

    @property
    def indices(self) -> tuple[Index, Index]:
        """The indices at which the two derivations end."""
        return (self.path1[-1].index, self.path2[-1].index) if self.path1 else ((), ())

    @property
    def difference(self) -> Index:
        """The difference of the two indices, in normal form."""
        return tuple([a - b for a, b in zip(*self.indices, strict=True)])

    def holds(self) -> bool:
        """True if both derivations follow from the equations of the ops, step by step, and the
        witness shows that they end at different elements; a refusal without indices claims none.
        """
        if self.kind != "index-conflict":
            return not self.path1 and not self.path2
        paths = (self.path1, self.path2)
        if not all(_follows(p) and p[-1].unit.result is self.tensor for p in paths):
            return False
        if self.path1[0].unit is not self.path2[0].unit:
            return False
        pairs = zip(*self.indices, strict=True)
        return any(evaluate(a, self.witness) != evaluate(b, self.witness) for a, b in pairs)

    def __str__(self) -> str:
        first, second = (describe(op.results[0]) if op.results else op.name for op in self.ops)
        lines = [f"{first} and {second} are not in one kernel: {self.kind}: {self.reason}"]
        if self.path1:
            point = ", ".join(f"{i.name} = {n}" for i, n in self.witness.items())
            lines += [
                f"  {' needs '.join(_shown(self.path1))}",
                f"  {' needs '.join(_shown(self.path2))}",
                f"  the indices differ by [{', '.join(map(repr, self.difference))}]: see {point}",
            ]
        if self.costs:
            lines.append(f"  {self.costs}")
        if self.remedy:
            lines.append(f"  remedy: `{self.remedy}`")
        return "\n".join(lines)


def _follows(path: Derivation) -> bool:
    """True if each step's value is read at its index by the step before it."""
    if not path or path[0].index != space(path[0].unit.meta.shape):
        return False
    for reader, step in itertools.pairwise(path):
        at = bindings(space(reader.unit.meta.shape), reader.index)
        found = [compose(r.index, at) for r in reader.unit.reads if r.source is step.unit.result]
        if step.index not in found:
            return False
    return True


def _shown(path: tuple[Step, ...]) -> Iterator[str]:
    for step in path:
        yield f"{describe(step.unit.result)}[{', '.join(map(repr, step.index))}]"
