"""The shapes of a block's values: sizes that are known only when the program runs have names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.call import call_of, declared, undecided
from pirkit.dialect.map_expr.naming import Dims, Sizes, result_shapes
from pirkit.dialect.map_expr.tree import Opaque
from pirkit.dialect.operation import PirOp
from pirkit.index.extent import Undecided
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta


class Shapes:
    """Metas of values. Ops are visited in order; what no rule tells of a shape gets new names."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self._told: dict[SSAValue, TensorMeta] = {}
        self._named: dict[SSAValue, Meta | None] = {}

    def visit(self, op: PirOp) -> Opaque | None:
        """Find out the shapes of an op's results; or say what they depend on."""
        rule = result_shapes.get(op.definition)
        metas = [None if r is None else declared(r) for r in op.result_slots]
        stated = (*metas, *map(declared, op.operands))
        if rule is None or all(not isinstance(m, TensorMeta) or m.is_static for m in stated):
            return None
        call = call_of(op, self.named)
        if isinstance(call, Opaque):
            return None
        try:
            shapes: Sequence[Dims] = rule(call, self.sizes)
        except Undecided as question:
            return undecided(question)
        for value, meta, shape in zip(op.result_slots, metas, shapes, strict=False):
            if value is not None and isinstance(meta, TensorMeta) and len(shape) == meta.rank:
                self._told[value] = meta.with_shape(map(self._agreed, meta.shape, shape))
        return None

    def _agreed(self, stated: int, told: int | None) -> int:
        """The size that a type states, or else the one that the rules tell."""
        if told is None:
            return stated
        if stated != UNKNOWN:
            self.sizes.check("equal", told, stated)
        return told if stated == UNKNOWN else stated

    def told(self, value: SSAValue) -> Meta | None:
        """What the type and the rules tell of a value; sizes may be UNKNOWN."""
        return self._told.get(value) or declared(value)

    def named(self, value: SSAValue) -> Meta | None:
        """The meta of a value, every size of it a number or a name."""
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            return VecMeta(tuple([cast(TensorMeta, self.named(v)) for v in owner.operands]))
        if value not in self._named:
            meta = self.told(value)
            if isinstance(meta, TensorMeta) and not meta.is_static:
                new = self.sizes.new
                meta = meta.with_shape([new() if n == UNKNOWN else n for n in meta.shape])
            self._named[value] = meta
        return self._named[value]
