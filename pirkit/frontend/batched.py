"""The batched forms of a value and of an op that were recorded for one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import UNKNOWN, TensorMeta


class Batched(Struct, frozen=True):
    """The form of a value for all rows."""

    value: Value
    rows: bool
    """Whether ``value`` has an axis of rows in front; if not, it is the same for all rows."""


class OneRow(Struct, frozen=True):
    """An operation as it was recorded for one row, with the batched forms of its operands.

    Batching rules take it and emit the operation for all rows.
    """

    b: Builder
    """Emits into the program for all rows."""
    op: PirOp
    operands: tuple[Any, ...]
    """By slot: a `Batched`, a list of them, or None."""
    count: int
    """The number of rows."""

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes by name, with those that an operand may give instead."""
        found = self.op.attribute_values()
        for slot in self.op.definition.operands:
            if slot.kind is not None and slot.name in self.op.properties:
                found[slot.name] = self.op.attribute(slot.name)
        return found

    @property
    def rank(self) -> int:
        """The number of axes of the first operand, for one row."""
        return self.meta(0).rank

    def meta(self, slot: int) -> TensorMeta:
        """The meta of an operand, for one row."""
        return cast(TensorMeta, meta_of(cast(SSAValue, self.op.operand_slots[slot]).type))

    @property
    def result(self) -> TensorMeta:
        """The meta of the first result, for one row."""
        return cast(TensorMeta, meta_of(self.op.results[0].type))

    def value(self, slot: int) -> Value:
        """An operand, with the axis of rows."""
        return self.broadcast(self.operands[slot])

    def broadcast(self, given: Batched) -> Value:
        """A value with the axis of rows."""
        x = given.value
        if given.rows:
            return x
        return self.b(
            "pd_op.expand", self.b.reshape(x, (1, *x.shape)), shape=(self.count, *x.shape)
        )

    def aligned(self, slot: int, rank: int) -> Value:
        """An operand for a broadcast with others that have up to ``rank`` axes for one row.

        If it has rows, axes of size 1 after the axis of rows make up the difference.
        """
        given = self.operands[slot]
        x = given.value
        if not given.rows:
            return x
        more = rank - x.rank + 1
        if x.shape.count(UNKNOWN) > 1:  # a shape for `reshape` has at most one -1
            return self.b("pd_op.unsqueeze", x, axis=range(1, more + 1)) if more else x
        return self.b.reshape(x, (x.shape[0], *[1] * more, *x.shape[1:]))

    def emit(self, tensors: Sequence[Any], **changed: Any) -> Any:
        """Emit the op on these tensors, with some attributes ``changed``; returns its results.

        Attributes that operands give stay operands.
        """
        kinds = {s.name for s in self.op.definition.operands if s.kind is not None}
        late = {
            s.name: cast(Batched, v).value
            for s, v in zip(self.op.definition.operands, self.operands, strict=False)
            if s.name in kinds and v is not None
        }
        return self.b(self.op.definition, *tensors, **{**self.attrs, **late, **changed})
