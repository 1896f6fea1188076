"""Building programs from Python: values with operators, and a builder that emits ops.

Rules of decomposition and differentiation are written with it, and traced functions are recorded
with it::

    def softmax(b: Builder, x: Value) -> Value:
        e = b.exp(x - b.max(x, axis=[-1], keepdim=True))
        return e / b.sum(e, axis=[-1], keepdim=True)

Each emitted op gets its types from ``infer_meta`` at once. Redundant ops (``x * 1``, a sum over no
axis, a cast to the same type, a second equal constant) are not emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from keyword import iskeyword
from math import copysign
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pirkit.dialect.attrs import encode
from pirkit.dialect.infer import constant_scalar, infer_result_types
from pirkit.dialect.opdef import OpDef, find, lookup, unknown_op
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.series_algebra import Algebra, powers
from pirkit.dialect.subscript import indexed
from pirkit.dialect.types import type_of
from pirkit.dialect.value import Number as Number
from pirkit.dialect.value import Value as Value
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.lazy_numpy import np
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

SOURCE: Final = "comp_op_name"
"""Attribute that names the op from which an op was derived, as in Paddle."""
RULE: Final = "comp_rule"
"""Attribute that names the rule that emitted an op: ``decompose``, ``vjp``, ``jvp``, ``jet``."""
ORDER: Final = "comp_order"
"""Attribute with the order of the derivative to which an op belongs."""


def derivative_order(op: Operation) -> int | None:
    """The order of the derivative to which an op belongs; None if none is given."""
    held = op.attributes.get(ORDER)
    return held.value.data if isinstance(held, mlir.IntegerAttr) else None


class Builder:
    """Emits ops before an op, or at the end of a block.

    ``b.exp(x)`` is ``b("pd_op.exp", x)``: tensor operands by position, in the order of the
    signature; attributes, and operands that may be attributes, by name (a `Value` makes the latter
    an operand). Returns a Value, or a tuple of them with None for an empty slot. ``b.relu_(x)``
    writes in place: its result has the storage of ``x``, which is not read as ``x`` any more.
    """

    value_type: type[Value] = Value
    """The class of the values that it returns."""

    def __init__(
        self,
        block: Block,
        before: Operation | None = None,
        *,
        location: mlir.LocationAttr | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        self.block = block
        self.before = before
        self.location = location
        self.attributes: Mapping[str, Attribute] = attributes or {}
        self.emitted: list[PirOp] = []
        self.algebra: Algebra = powers(0)
        """The algebra of series that the rules for Taylor series use."""
        self._constants: dict[tuple[Any, ...], Value] = {}

    # --- emitting ---

    def __call__(self, op: str | OpDef, *operands: Any, **attrs: Any) -> Any:
        return self.emit(lookup(op) if isinstance(op, str) else op, operands, attrs)

    def emit(
        self,
        definition: OpDef,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        wanted: Container[str] | None = None,
    ) -> Any:
        """Emit an op as `__call__` does, with only the ``wanted`` results, if these are given."""
        slots, properties = self._sorted(definition, operands, attrs)
        types = infer_result_types(definition, slots, properties) if definition.results else ()
        if wanted is not None:
            pairs = zip(definition.results, types, strict=True)
            types = tuple([t if r.name in wanted else None for r, t in pairs])
        where = self.place()
        return self.results(self._put(create(definition, slots, types, properties, None, where)))

    def place(self) -> mlir.LocationAttr | None:
        """The location of the next op; None if it is unknown."""
        return self.location

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # `relu_` is the op that writes in place; `assert_` is what Python cannot spell otherwise.
        word = name[:-1] if name.endswith("_") and iskeyword(name[:-1]) else name
        definition = None if name.startswith("_") else find(f"pd_op.{word}")
        if definition is None:
            error = unknown_op(f"pd_op.{name}")
            raise AttributeError(f"{error.message}: {error.help}", name=name, obj=self)
        emit = partial(self, definition)
        self.__dict__[name] = emit
        return emit

    def insert(self, op: PirOp) -> PirOp:
        """Put an op at the place of the builder, with its location and attributes."""
        if self.location is not None and isinstance(op.location, mlir.UnknownLoc):
            op.location = self.location
        return self._put(op)

    def _put(self, op: PirOp) -> PirOp:
        for name, value in self.attributes.items():
            op.attributes.setdefault(name, value)
        if self.before is not None:
            self.block.insert_op_before(op, self.before)
        else:
            self.block.add_op(op)
        self.emitted.append(op)
        return op

    def results(self, op: PirOp) -> Any:
        """The results of an op as values: one, or a tuple by slot."""
        slots = op.result_slots
        if len(slots) == 1 and slots[0] is not None:
            return self.value_type(self, slots[0])
        values = tuple([None if r is None else self.value_type(self, r) for r in slots])
        return values[0] if len(values) == 1 else values or None

    def wrap(self, value: SSAValue) -> Value:
        """A value of the program, to compute with."""
        return self.value_type(self, value)

    def _sorted(
        self, definition: OpDef, operands: Sequence[Any], attrs: Mapping[str, Any]
    ) -> tuple[list[SSAValue | None], dict[str, Attribute]]:
        """The operand slots and the attributes of a call. Raises TypeError for what is left over.

        What may be either (`axis`) is an operand if a value of the program is given for it.
        """
        if (
            definition.takes_tensors_alone
            and not attrs
            and len(operands) == len(definition.operands)
        ):
            return [self._operand(v) for v in operands], {}
        given = iter(operands)
        slots: list[SSAValue | None] = []
        properties: dict[str, Attribute] = {}
        left = dict(attrs)
        for slot in definition.operands:
            if slot.variadic:
                slots += [self._operand(v) for v in given]
                continue
            value = left.pop(slot.name, None) if slot.kind is not None else next(given, None)
            if slot.kind is not None and not isinstance(value, Value | SSAValue):
                slots.append(None)
                if value is not None:
                    properties[slot.name] = encode(slot.kind, value)
                continue
            slots.append(self._operand(value))
        kinds = definition.attr_kinds
        if (extra := len(list(given))) or not left.keys() <= kinds.keys():
            wrong = f"{extra} operands too many" if extra else f"no `{min(left.keys() - kinds)}`"
            known = ", ".join(f"`{name}`" for name in kinds) or "none"
            raise TypeError(f"`{definition.name}` has {wrong}; attributes, by keyword: {known}")
        properties.update({k: encode(kinds[k], v) for k, v in left.items() if v is not None})
        return slots, properties

    def _operand(self, value: Any) -> SSAValue | None:
        if isinstance(value, Value):
            return value.ssa
        if isinstance(value, list | tuple):
            return self.combine(cast("Sequence[Value]", value)).ssa
        return value

    # --- parameters and constants ---

    def parameter(self, name: str, meta: TensorMeta, *, trainable: bool = True) -> Value:
        """A parameter or buffer of the program; no gradient is taken of one not ``trainable``."""
        frozen = {"trainable": (False,), "stop_gradient": (True,)}
        flags: dict[str, Any] = {} if trainable else frozen
        definition = lookup("pir.parameter")
        kinds = definition.attr_kinds
        named = {k: encode(kinds[k], v) for k, v in {**flags, "parameter_name": name}.items()}
        return self.results(self.insert(create(definition, (), (type_of(meta),), named)))

    def const(self, number: Number, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """A tensor full of one number; equal ones are one op."""
        spelled = number if isinstance(number, int) else repr(number)  # 0.0 is no -0.0
        key = (type(number), spelled, dtype, tuple(shape))
        found = self._constants.get(key)
        if found is None:
            if dtype.is_integer and isinstance(number, int) and int(float(number)) != number:
                # the number of `full` is a float64
                found = self("pd_op.assign_value", shape=(), dtype=dtype, values=(number,))
                found = self.expand(found, shape=tuple(shape)) if shape else found
            else:
                found = self("pd_op.full", shape=tuple(shape), value=number, dtype=dtype)
            self._constants[key] = found
        return found

    def integers(self, values: Sequence[int]) -> Value:
        """Integers as a tensor of int64, for places and sizes."""
        return self("pd_op.full_int_array", value=tuple(values), dtype=dt.int64)

    def like(self, number: Number, x: Value) -> Value:
        """A tensor of the shape and element type of ``x``, full of one number."""
        if UNKNOWN not in x.shape:
            return self.const(number, x.dtype, x.shape)
        return self("pd_op.full_like", x, value=number)

    def zeros_like(self, x: Value) -> Value:
        """Zeros of the shape and element type of ``x``."""
        return self.like(0.0 if x.dtype.is_float else 0, x)

    def ones_like(self, x: Value) -> Value:
        """Ones of the shape and element type of ``x``."""
        return self.like(1.0 if x.dtype.is_float else 1, x)

    def value(self, given: Any, like: Value | None = None) -> Any:
        """A number as a constant of the element type of ``like``; a value as it is."""
        if isinstance(given, Value):
            return given
        if like is None or not isinstance(given, bool | int | float | complex):
            raise TypeError(f"{type(given).__name__} is no value of the program")
        return self.const(given, like.dtype)

    # --- arithmetic without waste ---

    def binary(self, op: str, x: Value | Number, y: Value | Number) -> Value:
        """A binary op, of which one operand may be a Python number."""
        typed = x if isinstance(x, Value) else cast(Value, y)
        left = x if isinstance(x, Value) else self.value(x, typed)
        right = y if isinstance(y, Value) else self.value(y, typed)
        same = _identity(op, left, right)
        return self(op, left, right) if same is None else self.value(same)

    def scaled(self, x: Value, factor: Number) -> Value:
        """``x * factor``; factors of nested scalings are multiplied, if the product neither
        overflows nor underflows in the element type.
        """
        if factor == 1:
            return x
        owner = x.ssa.owner
        if isinstance(owner, PirOp) and owner.name == "pd_op.scale" and x.dtype.is_float:
            known = owner.operand_slots[1] is None
            joined = _product(owner.attribute("scale"), factor, x.dtype) if known else None
            if joined is not None and not owner.attribute("bias"):
                return self.scaled(self.wrap(cast(SSAValue, owner.operand_slots[0])), joined)
        return self("pd_op.scale", x, scale=factor)

    def power(self, x: Value, exponent: Number) -> Value:
        """``x ** exponent`` for a Python number."""
        if exponent == 1:
            return x
        if exponent == 0:
            return self.ones_like(x)
        if exponent == 2:
            return self("pd_op.multiply", x, x)
        exact = not isinstance(exponent, float) or float(np.float32(exponent)) == exponent
        if x.dtype is dt.float64 and not exact:  # attribute `y` is a float32
            return self("pd_op.elementwise_pow", x, self.const(exponent, x.dtype))
        return self("pd_op.pow", x, y=exponent)

    def total(self, values: Sequence[Value | None]) -> Value | None:
        """The sum of the values that are there; None if there is none."""
        terms: list[Value] = [v for v in values if v is not None]
        while len(terms) > 1:
            halves = zip(terms[::2], terms[1::2], strict=False)
            terms = [a + b for a, b in halves] + terms[len(terms) & ~1 :]
        return terms[0] if terms else None

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` as another element type."""
        return x if x.dtype is dtype else self("pd_op.cast", x, dtype=dtype)

    def places(self, x: Value) -> Value:
        """Integers as indices: those of few bits, which no op takes as indices, as int64."""
        return x if x.dtype in dt.INTS else self.cast(x, dt.int64)

    def wide(self, x: Value) -> Value:
        """``x`` in float32 if it has half precision."""
        return self.cast(x, dt.float32) if x.dtype in (dt.float16, dt.bfloat16) else x

    def where(self, condition: Value, x: Value | Number, y: Value | Number) -> Value:
        """Elements of ``x`` where the condition holds, else of ``y``; numbers are broadcast."""
        typed = x if isinstance(x, Value) else cast(Value, y)
        left = x if isinstance(x, Value) else self.like(x, typed)
        right = y if isinstance(y, Value) else self.like(y, typed)
        return self("pd_op.where", condition, left, right)

    # --- shapes ---

    def arg_extreme(self, op: str, x: Value, axis: int, *, keepdims: bool = False) -> Value:
        """The first place of the extreme element along an axis, or of the first NaN.

        ``op`` is ``argmax`` or ``argmin``. Those ops skip NaN, as Paddle does; NumPy, torch and
        JAX take the first NaN for the extreme element.
        """
        place = self(f"pd_op.{op}", x, axis=axis, keepdims=keepdims)
        if not x.dtype.is_float:
            return place
        is_nan = self.cast(self("pd_op.isnan", x), dt.int32)
        first = self("pd_op.argmax", is_nan, axis=axis, keepdims=keepdims)
        found = self("pd_op.amax", is_nan, axis=(axis,), keepdim=keepdims)
        return self.where(self.cast(found, dt.bool_), first, place)

    def shape_of(self, x: Value) -> Value:
        """The sizes of ``x`` as a tensor of int64."""
        return self("pd_op.shape64", x)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Dimensions in another order."""
        same = tuple(order) == tuple(range(x.rank))
        return x if same else self("pd_op.transpose", x, perm=tuple(order))

    def expanded(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` broadcast to a shape, of whose last dimensions it has as many."""
        return x if x.shape == tuple(shape) else self("pd_op.expand", x, shape=tuple(shape))

    def cut(self, x: Value, axis: int, start: int, end: int) -> Value:
        """The part of ``x`` from ``start`` to ``end`` of a dimension; a negative one counts from
        behind, also where the size is unknown."""
        if (start, end) == (0, x.shape[axis]) and end != UNKNOWN:
            return x
        return self("pd_op.slice", x, starts=(start,), ends=(end,), axes=(axis,))

    def reshape(self, x: Value, shape: Sequence[int] | Value) -> Value:
        """``x`` with other dimensions."""
        if not isinstance(shape, Value) and tuple(shape) == x.shape and UNKNOWN not in x.shape:
            return x
        wanted = shape if isinstance(shape, Value) else tuple(shape)
        found: tuple[Value, ...] | Value = self("pd_op.reshape", x, shape=wanted)
        return found[0] if isinstance(found, tuple) else found

    def reshape_like(self, x: Value, like: Value) -> Value:
        """``x`` with the dimensions of ``like``, of which only the shape is read."""
        if x.shape == like.shape and UNKNOWN not in x.shape:
            return x
        sizes = like.shape
        is_told = UNKNOWN not in sizes or (sizes.count(UNKNOWN) == 1 and 0 not in sizes)
        return self.reshape(x, sizes if is_told else self.shape_of(like))

    def sum(self, x: Value, axis: Sequence[int], *, keepdim: bool = False) -> Value:
        """The sum over some axes; over none it is ``x``."""
        if not axis:
            return x
        return self("pd_op.sum", x, axis=tuple(axis), dtype=None, keepdim=keepdim)

    def expand_like(self, x: Value, like: Value) -> Value:
        """``x`` broadcast to the shape of ``like``, of which only the shape is read."""
        if x.shape == like.shape and UNKNOWN not in x.shape:
            return x
        if UNKNOWN not in like.shape:
            return self("pd_op.expand", x, shape=like.shape)
        return self("pd_op.expand", x, shape=self.shape_of(like))

    def sum_to(self, x: Value, like: Value) -> Value:
        """``x`` summed over the axes along which ``like`` was broadcast to give its shape."""
        if x.shape == like.shape and UNKNOWN not in x.shape:
            return x
        if UNKNOWN in like.shape or UNKNOWN in x.shape:
            return self("pd_op.reduce_as", x, like)
        lead = x.rank - like.rank
        broadcast_axes = [
            i for i in range(x.rank) if i < lead or (like.shape[i - lead] == 1 != x.shape[i])
        ]
        keeps_dims = lead == 0
        return self.reshape(self.sum(x, broadcast_axes, keepdim=keeps_dims), like.shape)

    def indexed(self, x: Value, index: tuple[Any, ...]) -> Value:
        """``x[index]`` for integers, slices with positive steps, ``...`` and None."""
        return indexed(self, x, index)

    def call(self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A call of an op with arguments as users write them; see the recorder of functions."""
        raise TypeError(f"`{definition.name}` is called on a value of a program that is not traced")

    # --- lists ---

    def combine(self, values: Sequence[Value]) -> Value:
        """A list value of the values."""
        return self("pir.combine", *values)

    def split_vec(self, vec: Value) -> tuple[Value, ...]:
        """The elements of a list value."""
        owner = vec.ssa.owner
        if isinstance(owner, PirOp) and owner.name == "pir.combine":
            return tuple([self.wrap(v) for v in owner.operands])
        count = len(cast(VecMeta, vec.any_meta))
        return tuple([self("pir.slice", vec, index=i) for i in range(count)])

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Emit at the end of another block for the body of a ``with`` statement."""
        held = (self.block, self.before, self._constants)
        self.block, self.before, self._constants = block, None, {}
        try:
            yield
        finally:
            self.block, self.before, self._constants = held


def _product(one: Number, other: Number, dtype: DType) -> Number | None:
    """The product of two factors; None where it is no normal number of an element type."""
    if isinstance(one, complex) or isinstance(other, complex):
        return None
    product = one * other
    if not float(dtype.limits.tiny) <= abs(product) <= float(dtype.limits.max):
        return None
    return float(product) if abs(product) >= 1 << 63 else product


def _identity(op: str, x: Value, y: Value) -> Value | None:
    """The operand that a binary op returns unchanged, bit by bit, or None.

    Of floats, 0.0 is no such summand: ``-0.0 + 0.0`` is 0.0.
    """
    if op == "pd_op.multiply":
        for one, other in ((x, y), (y, x)):
            if _is_filled(one, 1) and _broadcasts_to(one, other):
                return other
    if op == "pd_op.subtract" and _is_zero(y, 1.0) and _broadcasts_to(y, x):
        return x
    if op == "pd_op.add" and _is_zero(y, -1.0) and _broadcasts_to(y, x):
        return x
    if op == "pd_op.add" and _is_zero(x, -1.0) and _broadcasts_to(x, y):
        return y
    if op == "pd_op.divide" and _is_filled(y, 1) and _broadcasts_to(y, x):
        return x
    return None


def _is_filled(x: Value, number: Number) -> bool:
    return bool(_filling(x) == number)


def _is_zero(x: Value, sign: float) -> bool:
    """True for a value full of zeros, which have this sign if they have one."""
    held = _filling(x)
    if held is None or held != 0:
        return False
    parts = (held.real, held.imag) if x.dtype.is_complex else (held,) if x.dtype.is_float else ()
    return all(copysign(1.0, part) == sign for part in parts)


def _filling(x: Value) -> Any:
    """The number that a value is full of; None for other values."""
    owner = x.ssa.owner
    # the usual case, and fast
    if getattr(owner, "name", "") not in ("pd_op.full", "pd_op.full_like"):
        return None
    assert isinstance(owner, PirOp)
    held = constant_scalar(x.ssa)
    if held is None and "value" in owner.properties:
        held = owner.attribute("value")
    return held


def _broadcasts_to(x: Value, other: Value) -> bool:
    """True if broadcasting ``x`` with ``other`` gives the shape and type of ``other``."""
    if x.dtype is not other.dtype:
        return False
    if x.rank == 0:
        return True
    return x.shape == other.shape and UNKNOWN not in x.shape
