"""Why two ops are not in one kernel, as data that can be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pirkit.dialect.operation import PirOp, describe
from pirkit.index.expr import Iter
from pirkit.index.maps import Index, evaluate

KINDS: Final = (
    "opaque", "index-conflict", "stage", "cost", "limit", "cycle", "unrelated",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why ``ops`` were not fused.

    Of an index conflict, ``path1`` and ``path2`` are the two indices at which one element of the
    reader needs ``tensor``, and ``witness`` is a point where they differ.
    """

    kind: str
    ops: tuple[PirOp, PirOp]
    reason: str
    tensor: str = ""
    path1: Index = ()
    path2: Index = ()
    witness: Mapping[Iter, int] = field(default_factory=dict[Iter, int])
    remedy: str = ""

    @property
    def difference(self) -> Index:
        """The two indices, one subtracted from the other."""
        return tuple([a - b for a, b in zip(self.path1, self.path2, strict=True)])

    def holds(self) -> bool:
        """True if the witness shows what is claimed; a refusal without indices claims none."""
        if not self.path1 and not self.path2:
            return True
        pairs = zip(self.path1, self.path2, strict=True)
        return any(evaluate(a, self.witness) != evaluate(b, self.witness) for a, b in pairs)

    def __str__(self) -> str:
        first, second = (describe(op.results[0]) if op.results else op.name for op in self.ops)
        lines = [f"{first} and {second} are not in one kernel: {self.kind}: {self.reason}"]
        if self.path1 or self.path2:
            point = ", ".join(f"{i.name} = {n}" for i, n in self.witness.items())
            lines += [
                f"  {self.tensor} is needed at [{_shown(self.path1)}]",
                f"  and at [{_shown(self.path2)}]",
                f"  which differ where {point}",
            ]
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


def _shown(index: Index) -> str:
    return ", ".join(map(repr, index))
