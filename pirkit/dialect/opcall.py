"""The call of an op as rules get it: operands, results and attributes by name."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from xdsl.ir import SSAValue

from pirkit.diag.errors import DynamicShapeError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import constant_array, constant_scalar, default_value
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import PirOp, origin_of, span_of
from pirkit.dialect.signature import INT_KINDS, REQUIRED, Operand
from pirkit.dialect.types import meta_of


class DynamicAttribute(Value):
    """The value of an attribute that is known only at run time.

    It can be used as an operand; a rule that needs its number raises DynamicShapeError (PK0406).
    """

    __slots__ = ("name", "op")

    def __init__(self, b: Builder, ssa: SSAValue, op: PirOp, name: str) -> None:
        super().__init__(b, ssa)
        self.op = op
        self.name = name

    def _refuse(self, *_: object) -> NoReturn:
        raise DynamicShapeError(
            f"`{self.name}` of `{self.op.name}` is known only when the program runs",
            span=span_of(self.op),
            notes=origin_of(self.op),
            help="compile the whole program, or give the attribute as a constant",
        )

    __iter__ = __index__ = __int__ = __float__ = __len__ = __bool__ = __contains__ = _refuse
    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = _refuse


class OpCall:
    """One op of a program, for a rule that emits ops in its place or because of it.

    Names of the signature are attributes: ``call.x`` is an operand (None if absent, a tuple of
    values for a list), ``call.out`` a result, ``call.axis`` the Python value of an attribute. If an
    operand and a result have the same name, use :meth:`operand` and :meth:`result`. An operand in
    place of an attribute is its Python value if the program determines it, else a Value. ``wanted``
    names the operands whose cotangents are needed.
    """

    def __init__(self, b: Builder, op: PirOp, wanted: frozenset[str] | None = None) -> None:
        self.b = b
        self.op = op
        self.definition: OpDef = op.definition
        self._wanted = wanted

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        for slot in self.definition.operands:
            if slot.name == name:
                return self.operand(name)
        for slot in self.definition.results:
            if slot.name == name:
                return self.result(name)
        if name in self.definition.attr_kinds:
            return self.op.attribute(name)
        raise AttributeError(f"`{self.definition.name}` has no {name!r}", name=name, obj=self)

    def operand(self, name: str) -> Any:
        """An operand: a Value, a tuple of them, None, or the value of an attribute."""
        slot = next(s for s in self.definition.operands if s.name == name)
        if slot.variadic:
            return tuple([Value(self.b, v) for v in self.op.operands[slot.index :]])
        value = self.op.operand_slots[slot.index]
        if slot.kind is not None:
            return self._attribute(slot, value)
        if value is None:
            return None
        if slot.is_vec:
            return self.b.split_vec(Value(self.b, value))
        return Value(self.b, value)

    def _attribute(self, slot: Operand, value: SSAValue | None) -> Any:
        kind = slot.kind or ""
        if value is None:
            if slot.name in self.op.properties:
                return self.op.attribute(slot.name)
            return None if slot.default is REQUIRED else default_value(kind, slot.default)
        if kind == "intarray":
            known = constant_array(value)
            if known is not None and None not in known:
                return known
            return DynamicAttribute(self.b, value, self.op, slot.name)
        number = constant_scalar(value)
        if number is None:
            return DynamicAttribute(self.b, value, self.op, slot.name)
        return int(number) if kind in INT_KINDS else number

    def result(self, name: str) -> Any:
        """A result: a Value, a tuple of them for a list, None if the slot is empty."""
        slot = next(s for s in self.definition.results if s.name == name)
        value = self.op.result_slots[slot.index]
        if value is None:
            return None
        return self.b.split_vec(Value(self.b, value)) if slot.is_vec else Value(self.b, value)

    def result_meta(self, name: str) -> Any:
        """The meta of a result, for rules that stand before the op and cannot read it."""
        slot = next(s for s in self.definition.results if s.name == name)
        value = self.op.result_slots[slot.index]
        return None if value is None else meta_of(value.type)

    def tensors(self) -> tuple[Any, ...]:
        """The tensor operands by slot: Values, tuples of them, None."""
        return tuple([self.operand(s.name) for s in self.definition.operands if s.kind is None])

    def wants(self, name: str) -> bool:
        """True if the cotangent of that operand is requested."""
        return self._wanted is None or name in self._wanted

    def is_used(self, name: str) -> bool:
        """True if that result has a use."""
        slot = next(s for s in self.definition.results if s.name == name)
        value = self.op.result_slots[slot.index]
        return value is not None and bool(value.first_use)

    def again(self, *operands: Any, **attrs: Any) -> Any:
        """The same op with the same attributes on other tensor operands."""
        set_attrs = {n: getattr(self, n) for n in self.definition.attr_kinds if self._is_set(n)}
        return self.b(self.definition.base, *operands, **{**set_attrs, **attrs})

    def _is_set(self, name: str) -> bool:
        if name in self.op.properties:
            return True
        slots = {s.name: s.index for s in self.definition.operands if s.kind is not None}
        return name in slots and cast(Any, self.op.operand_slots[slots[name]]) is not None
