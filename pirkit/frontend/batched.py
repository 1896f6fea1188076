"""The batched forms of a value and of an op that were recorded for one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta


class Batched(Struct, frozen=True):
    """The form of a value for all rows."""

    value: Value
    rows: bool
    """Whether ``value`` has an axis of rows in front; if not, it is the same for all rows."""


def in_rows(b: Builder, x: Value, count: int) -> Value:
    """``x`` for each of ``count`` rows."""
    return b("pd_op.expand", reshaped(b, x, (1, *x.shape)), shape=(count, *x.shape))


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """``x`` in a shape; if that has several unknown sizes, with axes of size 1 more or less."""
    if [*shape].count(UNKNOWN) < 2:  # else `reshape` takes it for a mistake
        return b.reshape(x, shape)
    if x.rank < len(shape):
        added = _more_ones(x.shape, shape)
        return b("pd_op.unsqueeze", x, axis=added)
    return b("pd_op.squeeze", x, axis=_more_ones(shape, x.shape)) if x.rank > len(shape) else x


def _more_ones(few: Sequence[int], many: Sequence[int]) -> list[int]:
    """The axes of size 1 that the longer one of two shapes has more."""
    found: list[int] = []
    for i, size in enumerate(many):
        at = i - len(found)
        if size == 1 and len(found) < len(many) - len(few) and few[at : at + 1] != (1,):
            found.append(i)
    return found


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
        return given.value if given.rows else in_rows(self.b, given.value, self.count)

    def aligned(self, slot: int, rank: int) -> Value:
        """An operand for a broadcast with others that have up to ``rank`` axes for one row.

        If it has rows, axes of size 1 after the axis of rows make up the difference.
        """
        given = self.operands[slot]
        x = given.value
        if not given.rows:
            return x
        return reshaped(self.b, x, (x.shape[0], *[1] * (rank - x.rank + 1), *x.shape[1:]))

    def shaped(self, x: Value) -> Value:
        """``x`` as the first result for all rows, from which it differs by axes of size 1."""
        return reshaped(self.b, x, (self.count, *self.result.shape))

    def with_rows(self, name: str) -> tuple[int, ...] | Value:
        """An attribute that is a shape, or the operand in its place, with the rows in front."""
        slots = zip(self.op.definition.operands, self.operands, strict=False)
        given = next((v for s, v in slots if s.name == name), None)
        if given is None:
            return (self.count, *self.attrs[name])
        b, parts = self.b, cast("list[Batched]", given if isinstance(given, list) else [given])
        sizes = [b.cast(b.reshape(v.value, (-1,)), dt.int64) for v in parts]
        return b.concat([b.integers((self.count,)), *sizes], axis=0)

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
