"""The ops that a kernel replaces, as recorded in its text; the certificate is checked from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import numpy as np
from xdsl.ir import SSAValue

from pirkit.dialect.map_expr.call import MapCall, call_of
from pirkit.dialect.map_expr.kernel import Operand, Origin
from pirkit.dialect.operation import PirOp
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

PLAIN: Final = (type(None), bool, int, float, complex, str, DType)


class Origins:
    """The ops of a group in program order, including the constants that it rematerializes."""

    def __init__(self, units: Mapping[SSAValue, Unit], found: Equations) -> None:
        self.shapes = found.shapes
        held = dict(units)
        stack = list(units.values())
        while stack:
            for value in stack.pop().tensors:
                source = found.unit_of(value)
                if source is not None and source.is_free and value not in held:
                    held[value] = source
                    stack.append(source)
        self.units = sorted(held.values(), key=lambda u: u.order)
        self.number = {u.result: k for k, u in enumerate(self.units)}

    def outside(self) -> Iterator[SSAValue]:
        """The tensors that the ops read and no op of the group defines."""
        for unit in self.units:
            yield from (value for value in unit.tensors if value not in self.number)

    def listed(self, inputs: Mapping[SSAValue, int]) -> tuple[Origin, ...]:
        """The ops as data; ``inputs`` are the kernel's input numbers."""
        return tuple([self._origin(u, inputs) for u in self.units])

    def _origin(self, unit: Unit, inputs: Mapping[SSAValue, int]) -> Origin:
        operands: list[Operand] = []
        op = unit.op
        for value, slot in zip(op.operand_slots, op.definition.operands, strict=False):
            if slot.kind is not None:
                continue
            owner = None if value is None else value.owner
            if isinstance(owner, PirOp) and owner.name == "pir.combine":
                operands.append(tuple([self._operand(v, inputs) for v in owner.operands]))
            else:
                operands.append(None if value is None else self._operand(value, inputs))
        attrs = cast(MapCall, call_of(op, numbers=self.shapes.numbers)).attrs
        listed = {k: v for k, v in ((k, _known_value(v)) for k, v in attrs.items()) if v is not ...}
        return Origin(op.name, tuple(operands), listed, unit.meta, op.location)

    def _operand(self, value: SSAValue, inputs: Mapping[SSAValue, int]) -> int | TensorMeta:
        if value in self.number:
            return len(inputs) + self.number[value]
        if value in inputs:
            return inputs[value]
        return cast(TensorMeta, self.shapes.named(value))


def _known_value(value: Any) -> Any:
    """An attribute in a form that the text can hold; ``...`` if there is none, as for a device."""
    if isinstance(value, np.generic):
        return cast(Any, value.item())
    if isinstance(value, PLAIN):
        return cast(Any, value)
    if isinstance(value, tuple | list):
        items: list[Any] = [_known_value(v) for v in cast("tuple[Any, ...]", value)]
        return ... if any(i is ... for i in items) else tuple(items)
    return ...
