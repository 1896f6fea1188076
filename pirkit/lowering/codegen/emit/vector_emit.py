"""Emits statements for one vector of iterations: loads, arithmetic, reductions, stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.memory_access import (
    Memory,
    load,
    load_at_offsets,
    load_near,
    store,
)
from pirkit.lowering.codegen.ir.element_types import compute_type, identity
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value, constant_text
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    LaneConstants,
    Load,
    Reduce,
    ReduceKind,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)
from pirkit.lowering.codegen.math.casts import Typed, element, narrow
from pirkit.lowering.codegen.math.primitives import TABLE, extremum
from pirkit.lowering.codegen.math.vecmath import any_lane
from pirkit.runtime.dtype import DType, int64


class TypedOperand(Protocol):
    """The facts about an operand that an access needs."""

    @property
    def dtype(self) -> DType: ...


class VectorEmitter(Struct):
    """One vector of iterations (or a single one: one lane) and the values computed for it.

    ``memory`` gives the address of an operand, ``outer_value`` a value that is defined outside,
    ``mask`` the active lanes, ``position`` the index along an axis. ``known`` are the values by
    name.
    """

    builder: Builder
    operands: Sequence[TypedOperand]
    lanes: int
    memory: Callable[[int], Memory]
    outer_value: Callable[[str], Typed]
    position: Callable[[int], Value]
    mask: Value | None
    known: dict[str, Typed]

    def run(self, statements: Sequence[Statement]) -> None:
        """Emit statements in order. Raises InternalError for a primitive without native code."""
        for statement in statements:
            match statement:
                case Load(name):
                    self.known[name] = self._load(statement)
                case Constant(name, dtype, value):
                    made = self.builder.const(Type(element(dtype)), value)
                    self.known[name] = made, compute_type(dtype)
                case LaneConstants(name, dtype, values):
                    elem = element(dtype)
                    lanes = ", ".join([f"{elem} {constant_text(elem, x)}" for x in values])
                    self.known[name] = Value(f"<{lanes}>", Type(elem, len(values))), dtype
                case Index(name, axis, dtype):
                    self.builder.simplify()
                    self.known[name] = _as(self.builder, self.position(axis), dtype), dtype
                case Compute(name, primitive, args, dtype):
                    if not dtype.is_float:
                        self.builder.simplify()
                    if primitive not in TABLE:
                        raise InternalError(f"no native code for `{primitive}`")
                    values = self._broadcast(args)
                    result = TABLE[primitive](self.builder, values, dtype)
                    self.known[name] = result, compute_type(dtype)
                case Reduce():
                    continue  # `nest_writer.py` accumulates it
                case Store(operand, value):
                    self._store(operand, *self.get(value))
                case Accumulate(operand, kind, value):
                    self._accumulate(operand, kind, *self.get(value))
                case Scatter():
                    self._scatter(statement)
                case RuntimeAssert(operand, value):
                    self._assert(operand, self.raw(value)[0])

    def raw(self, name: str) -> Typed:
        """A value as it is: in one lane if it is uniform."""
        if name not in self.known:
            self.known[name] = self.outer_value(name)
        return self.known[name]

    def get(self, name: str) -> Typed:
        """A value in all lanes."""
        value, dtype = self.raw(name)
        return self.builder.splat(value, self.lanes), dtype

    def _broadcast(self, names: Sequence[str]) -> list[Typed]:
        """Operands with as many lanes as the widest of them; uniform arithmetic stays scalar."""
        found = [self.raw(name) for name in names]
        if all(value.type.lanes == 1 for value, _ in found):
            return found
        return [self.get(name) for name in names]

    def _load(self, statement: Load) -> Typed:
        """A load at the operand's address, or a gather, under the mask and the predicate."""
        b = self.builder
        operand = self.operands[statement.operand]
        memory, mask = self._place(statement.operand)
        if statement.predicate is not None:
            holds = self.raw(statement.predicate)[0]
            if holds.type.lanes == 1 and self.lanes > 1 and statement.at is None:
                return self._load_if(holds, statement.operand, memory, mask)
            if mask is not None or (holds.type.lanes == 1 and self.lanes > 1):
                holds = b.splat(holds, self.lanes)
            mask = holds if mask is None else b.op("and", mask, holds)
        if statement.at is not None:
            # An unsigned minimum clamps negative indices too: no load leaves the buffer, whatever
            # the data. The nest asserts the index separately.
            index, limit = self._limits(statement.at, statement.limit)
            offsets = b.op("mul", b.binary("umin", index, limit), operand.dtype.itemsize)
            if offsets.type.lanes > 1:
                far = partial(load_at_offsets, b, operand.dtype, memory, offsets, mask)
                at = self.raw(statement.at)[0]
                value = load_near(b, operand.dtype, memory, at, statement.limit, mask, far)
                return value, compute_type(operand.dtype)
            memory = Memory(b.at(memory.address, offsets), memory.step)
        guarded = statement.predicate is not None
        value = load(b, operand.dtype, memory, self.lanes, mask, guarded)
        return value, compute_type(operand.dtype)

    def _load_if(self, holds: Value, operand: int, memory: Memory, mask: Value | None) -> Typed:
        """A load where all lanes have one predicate; zeros if it is false.

        A masked load would do, but one without lanes from a page that is not mapped takes AMD's
        CPUs hundreds of cycles: such as what a concat reads beyond its last operand.
        """
        b, dtype = self.builder, self.operands[operand].dtype
        type_ = Type(element(compute_type(dtype)), 1 if memory.step == 0 else self.lanes)
        zero = Value("zeroinitializer", type_)
        [value] = b.branch(holds, lambda: [load(b, dtype, memory, self.lanes, mask)], [zero])
        return value, compute_type(dtype)

    def _place(self, operand: int) -> tuple[Memory, Value | None]:
        """The memory of an operand, and the mask of accesses to it."""
        memory = self.memory(operand)
        return memory, None if memory.padded else self.mask

    def _limits(self, name: str, limit: int) -> tuple[Value, Value]:
        """The index of a gather as i64, and its limit."""
        at, dtype = self.raw(name)
        index64 = at if dtype is int64 else self.builder.cast("sext", at, "i64")
        return index64, self.builder.like(index64, limit)

    def _assert(self, operand: int, holds: Value) -> None:
        """Set the flag of a runtime assert if a value is false in any active lane."""
        b = self.builder
        broken = b.op("xor", holds, True)
        if self.mask is not None:
            broken = b.op("and", b.splat(broken, self.lanes), self.mask)

        def set_flag() -> Sequence[Value]:
            b.store(Value("1", Type("i8")), self.memory(operand).address, 1)
            return []

        b.branch(any_lane(b, broken), set_flag)

    def _store(self, operand: int, value: Value, dtype: DType) -> None:
        dest = self.operands[operand].dtype
        if compute_type(dest) is not dtype:
            raise InternalError(f"a store of {dtype} into {dest}")
        memory, mask = self._place(operand)
        store(self.builder, narrow(self.builder, value, dest), dest, memory, mask)

    def _accumulate(self, operand: int, kind: ReduceKind, value: Value, dtype: DType) -> None:
        """Combine a value with an element of an operand in memory."""
        b, memory, mask = self.builder, self.memory(operand), self.mask
        dest = self.operands[operand].dtype
        # All lanes share one element: reduce them first; inactive lanes hold the identity.
        if memory.step == 0 and self.lanes > 1:
            if mask is not None:
                value = b.select(mask, value, b.like(value, identity(kind, dtype)))
            value, mask = reduce_lanes(b, kind, value, dtype), None
        self._combine(dest, kind, (value, dtype), memory, mask)

    def _combine(
        self, dest: DType, kind: ReduceKind | None, typed: Typed, memory: Memory, mask: Value | None
    ) -> None:  # fmt: skip
        """Combine a value with what is in memory; without a kind, overwrite it."""
        b, (value, dtype) = self.builder, typed
        if kind is not None:
            have = load(b, dest, memory, value.type.lanes, mask)
            value = combine(b, kind, have, value, dtype)
        store(b, narrow(b, value, dest), dest, memory, mask)

    def _scatter(self, statement: Scatter) -> None:
        """Combine a value with the elements at an index, unless that is out of range."""
        b, dest = self.builder, self.operands[statement.operand].dtype
        memory, mask = self._place(statement.operand)
        at, limit = self._limits(statement.at, statement.limit)
        if at.type.lanes > 1:  # all lanes have one index (`lane_axis_of`)
            at, limit = b.extract(at, 0), b.extract(limit, 0)
        typed = self.get(statement.value)

        def write() -> Sequence[Value]:
            here = replace(memory, address=b.at(memory.address, b.times(at, dest.itemsize)))
            self._combine(dest, statement.kind, typed, here, mask)
            return []

        # An unsigned comparison rejects negative indices too.
        b.branch(b.compare("ule", at, limit), write)


def _as(b: Builder, position: Value, dtype: DType) -> Value:
    return position if dtype is int64 else b.cast("trunc", position, element(dtype))


def combine(b: Builder, kind: ReduceKind, x: Value, y: Value, dtype: DType) -> Value:
    """One step of a reduction; ``x`` is what has been reduced."""
    if kind in ("max", "min"):
        # `y` first: LLVM makes a masked store, slow on AMD, of a store that may keep a loaded `x`.
        return extremum(b, y, x, kind, dtype)
    floats = x.type.is_float
    if kind == "sum":
        return b.op("fadd" if floats else "add", x, y)
    return b.op("fmul" if floats else "mul", x, y)


def tree_reduce(b: Builder, kind: ReduceKind, values: Sequence[Value], dtype: DType) -> Value:
    """Reduce values in pairs, in a fixed order."""
    items = list(values)
    while len(items) > 1:
        pairs = zip(items[::2], items[1::2], strict=False)
        items = [combine(b, kind, x, y, dtype) for x, y in pairs] + items[len(items) & ~1 :]
    return items[0]


def reduce_lanes(b: Builder, kind: ReduceKind, vector: Value, dtype: DType) -> Value:
    """Reduce the lanes of a vector by halves, in a fixed order; a scalar."""
    while vector.type.lanes > 1:
        half = vector.type.lanes // 2
        low = b.shuffle(vector, vector, range(half))
        high = b.shuffle(vector, vector, range(half, 2 * half))
        if half == 1:
            low, high = (b.extract(v, k) for v, k in ((vector, 0), (vector, 1)))
        vector = combine(b, kind, low, high, dtype)
    return vector


def tail_mask(b: Builder, lanes: int, count: Value | int) -> Value:
    """A mask of the first ``count`` lanes; a constant if the count is one."""
    if isinstance(count, Value) and count.text.isdigit():
        count = int(count.text)
    if isinstance(count, int):
        bits = ", ".join(f"i1 {'true' if k < count else 'false'}" for k in range(lanes))
        return Value(f"<{bits}>", Type("i1", lanes))
    index64 = Type("i64", lanes)
    return b.compare("ult", b.iota(index64), b.splat(count, lanes))


def lane_indices(b: Builder, index: Value, lanes: int) -> Value:
    """``index, index + 1...``: the index along the vectorized axis in each lane."""
    index64 = Type("i64", lanes)
    return b.op("add", b.splat(index, lanes), b.iota(index64)) if lanes > 1 else index


def split_index(b: Builder, index: Value, extents: Sequence[int]) -> list[Value]:
    """The coordinates of a linear index along axes, row-major."""
    positions: list[Value] = []
    for extent in reversed(extents[1:]):
        positions.append(b.emit(I64, f"urem {index}, {extent}"))
        index = b.emit(I64, f"udiv {index}, {extent}")
    if extents:
        positions.append(index)
    return positions[::-1]


def argument(b: Builder, number: int) -> Value:
    """The pointer in slot ``number`` of the argument block."""
    return b.load(PTR, b.at(Value("%args", PTR), 8 * number), 8)


def address_at(
    b: Builder, base: Value, strides: Sequence[int], positions: Sequence[Value]
) -> Value:
    """``base + sum(stride * position)``, strides in bytes."""
    offset = Value("0", I64)
    for stride, position in zip(strides, positions, strict=True):
        offset = b.plus(offset, b.times(position, stride))
    return b.at(base, offset)
