"""Symbolic shape inference for a block: every dynamic size is a named symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from xdsl.ir import SSAValue

from pirkit.dialect.infer import constant_array
from pirkit.dialect.map_expr.call import call_of, declared, undecided
from pirkit.dialect.map_expr.symbolic_shapes import Dims, Sizes, result_shapes
from pirkit.dialect.map_expr.tree import Opaque
from pirkit.dialect.operation import PirOp
from pirkit.index.extent import Undecided
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta


class Shapes:
    """Metas of values. Ops are visited in order; a size that no rule infers gets a new symbol."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self._known_value: dict[SSAValue, TensorMeta] = {}
        self._named: dict[SSAValue, Meta | None] = {}
        self._numbers: dict[SSAValue, tuple[int, ...] | None] = {}

    def visit(self, op: PirOp) -> Opaque | None:
        """Infer the result shapes of an op; returns the reason if they depend on unknown data."""
        rule = result_shapes.get(op.definition)
        metas = [None if r is None else declared(r) for r in op.result_slots]
        in_program = (*metas, *map(declared, op.operands))
        if rule is None or all(not isinstance(m, TensorMeta) or m.is_static for m in in_program):
            return None
        call = call_of(op, self.named, numbers=self.numbers)
        if isinstance(call, Opaque):
            return None
        try:
            shapes: Sequence[Dims] = rule(call, self.sizes)
        except Undecided as question:
            return undecided(question)
        for value, meta, shape in zip(op.result_slots, metas, shapes, strict=False):
            if value is not None and isinstance(meta, TensorMeta) and len(shape) == meta.rank:
                self._known_value[value] = meta.with_shape(map(self._agreed, meta.shape, shape))
        return None

    def _agreed(self, in_program: int, inferred: int | None) -> int:
        """The declared size, else the inferred one; their equality is recorded as a check."""
        if inferred is None:
            return in_program
        if in_program != UNKNOWN:
            self.sizes.check("equal", inferred, in_program)
        return inferred if in_program == UNKNOWN else in_program

    def inferred(self, value: SSAValue) -> Meta | None:
        """The declared type refined by inference; sizes may be UNKNOWN."""
        return self._known_value.get(value) or declared(value)

    def named(self, value: SSAValue) -> Meta | None:
        """The meta of a value, with an integer or a symbol for every size."""
        owner = value.owner
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            return VecMeta(tuple([cast(TensorMeta, self.named(v)) for v in owner.operands]))
        if value not in self._named:
            meta = self.inferred(value)
            if isinstance(meta, TensorMeta) and not meta.is_static:
                new = self.sizes.new
                meta = meta.with_shape([new() if n == UNKNOWN else n for n in meta.shape])
            self._named[value] = meta
        return self._named[value]

    def numbers(self, value: SSAValue) -> tuple[int, ...] | None:
        """The elements of an integer tensor that is computed from shapes; else None."""
        if value not in self._numbers:
            known = constant_array(value)
            if known is None or None in known:
                owner = value.owner
                rule = NUMBERS.get(owner.name) if isinstance(owner, PirOp) else None
                known = rule(self, cast(PirOp, owner)) if rule is not None else None
            self._numbers[value] = known
        return self._numbers[value]


def _shape(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    meta = shapes.named(op.operands[0])
    return meta.shape if isinstance(meta, TensorMeta) else None


def _same(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    return shapes.numbers(op.operands[0])


def _wide(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    """The same numbers, unless the type has no room for sizes."""
    meta = declared(op.results[0])
    has_room = isinstance(meta, TensorMeta) and meta.dtype.itemsize >= 4
    return _same(shapes, op) if has_room else None


def _part(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    held, call = shapes.numbers(op.operands[0]), call_of(op)
    if held is None or isinstance(call, Opaque) or tuple(call.attrs["axes"]) != (0,):
        return None
    (start,), (end,) = call.attrs["starts"], call.attrs["ends"]
    return held[start:end]


def _joined(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    values = op.operands
    if op.name == "pd_op.concat":
        owner = values[0].owner
        if not isinstance(owner, PirOp) or owner.name != "pir.combine":
            return None
        values = owner.operands
    parts = [shapes.numbers(v) for v in values]
    return None if None in parts else tuple([n for p in parts if p is not None for n in p])


def _scaled(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    held, call = shapes.numbers(op.operands[0]), call_of(op)
    if held is None or isinstance(call, Opaque):
        return None
    factor, shift = call.attrs["scale"], call.attrs["bias"]
    if factor % 1 or shift:  # infinity and NaN too
        return None
    return tuple([n * int(factor) for n in held])


def _product(shapes: Shapes, op: PirOp) -> tuple[int, ...] | None:
    left, right = (shapes.numbers(v) for v in op.operands)
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple([a * b for a, b in zip(left, right, strict=True)])


NUMBERS: Final[dict[str, Callable[[Shapes, PirOp], tuple[int, ...] | None]]] = {
    "pd_op.shape": _shape,
    "pd_op.shape64": _shape,
    "pd_op.slice": _part,
    "pd_op.concat": _joined,
    "pir.combine": _joined,
    "pd_op.cast": _wide,
    "pd_op.assign": _same,
    "pd_op.reshape": _same,
    "pd_op.scale": _scaled,
    "pd_op.multiply": _product,
}
"""Ops on integer tensors that compute shapes from shapes."""
