"""Emits statements for one vector of iterations: loads, arithmetic, reductions, stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.ir.element_types import compute_type, identity
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Load,
    Reduce,
    ReduceKind,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)
from pirkit.lowering.codegen.math.primitives import (
    TABLE,
    Typed,
    element,
    extremum,
    narrow,
    stored,
    widen,
)
from pirkit.lowering.codegen.math.vecmath import any_lane
from pirkit.runtime.dtype import DType, int64

_SAFE_BITS: Final = 128
"""Bits of a vector below which masked accesses are split into scalar ones here: LLVM 22 on x86
widens one with a single active lane to a whole register, and so writes beyond the mask. It does the
same at any width if a store with a single active lane truncates its elements.
"""
_NEAR: Final = 4
"""Strides, in elements, up to which whole vectors are loaded and deinterleaved by shuffles."""
_NARROW: Final = 4
"""Bytes of an element below which LLVM may truncate values as part of a masked store."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The elements of an operand at a vector of iterations.

    ``step`` is the distance of neighboring lanes in bytes; 0 is one element for all lanes. With
    ``stream`` stores are non-temporal and must be aligned. With ``padded`` there is memory for
    whole vectors, so that accesses need no mask.
    """

    address: Value
    step: int
    stream: bool = False
    padded: bool = False


class TypedOperand(Protocol):
    """What an access has to know of an operand."""

    @property
    def dtype(self) -> DType: ...


@dataclass(slots=True)
class VectorEmitter:
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
                    self.known[name] = (
                        self.builder.const(Type(element(dtype)), value),
                        (compute_type(dtype)),
                    )
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
            at = b.binary("umin", *self._limits(statement.at, statement.limit))
            offsets = b.op("mul", at, operand.dtype.itemsize)
            if offsets.type.lanes > 1:
                return load_at_offsets(b, operand.dtype, memory, offsets, mask), compute_type(
                    operand.dtype
                )
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

        def tell() -> Sequence[Value]:
            b.emit_void(f"store i8 1, {self.memory(operand).address}, align 1")
            return []

        b.branch(any_lane(b, broken), tell)

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
        if at.type.lanes > 1:
            raise InternalError("a scatter at a vector of indices has no native code")
        typed = self.get(statement.value)

        def write() -> Sequence[Value]:
            here = replace(memory, address=b.at(memory.address, b.times(at, dest.itemsize)))
            self._combine(dest, statement.kind, typed, here, mask)
            return []

        # An unsigned comparison rejects negative indices too.
        b.branch(b.compare("ule", at, limit), write)


def _as(b: Builder, position: Value, dtype: DType) -> Value:
    return position if dtype is int64 else b.cast("trunc", position, element(dtype))


def load(
    b: Builder, dtype: DType, memory: Memory, lanes: int, mask: Value | None, guarded: bool = False
) -> Value:  # fmt: skip
    """The elements at a vector of iterations in their compute type; one lane if they are uniform.

    Without ``guarded`` the mask is that of a tail: the first element may be loaded without a check.
    """
    elem, size = stored(dtype), dtype.itemsize
    address = memory.address
    if memory.step == 0 or lanes == 1:
        scalar = Type(elem)

        def one() -> list[Value]:
            return [b.emit(scalar, f"load {scalar}, {address}, align {size}")]

        if not guarded or mask is None:
            return widen(b, one()[0], dtype)
        zero = Value("zeroinitializer", scalar)
        value = widen(b, b.branch(any_lane(b, mask), one, [zero])[0], dtype)
        if mask.type.lanes == 1:
            return value
        value = b.splat(value, lanes)
        return b.select(mask, value, Value("zeroinitializer", value.type))
    type_ = Type(elem, lanes)
    if is_near(memory.step, size) and _is_wide(type_, mask):
        value = _deinterleaved(b, type_, address, memory.step // size, mask)
    elif memory.step != size:
        value = _gather(b, type_, memory, size, mask)
    elif mask is None:
        value = b.emit(type_, f"load {type_}, {address}, align {size}")
    else:
        value = masked_load(b, type_, address, size, mask)
    return widen(b, value, dtype)


def load_at_offsets(
    b: Builder, dtype: DType, memory: Memory, offsets: Value, mask: Value | None
) -> Value:  # fmt: skip
    """A gather: elements ``offsets`` bytes beyond the address of their lane."""
    lanes, size = offsets.type.lanes, dtype.itemsize
    if memory.step:
        offsets = b.op("add", offsets, Value(_ramp(lanes, memory.step), offsets.type))
    type_ = Type("ptr", lanes)
    address = b.emit(type_, f"getelementptr i8, {memory.address}, {offsets}")
    return widen(b, _masked_gather(b, Type(stored(dtype), lanes), address, size, mask), dtype)


def masked_load(b: Builder, type_: Type, address: Value, size: int, mask: Value) -> Value:
    """The active lanes; zeros elsewhere."""
    zero = Value("zeroinitializer", type_)
    if type_.lanes * type_.bits >= _SAFE_BITS:
        name = f"llvm.masked.load.{type_.suffix}.p0"
        return b.call(name, type_, address, f"i32 {size}", mask, zero)
    scalar, value = Type(type_.elem), zero
    # One scalar load per active lane, since LLVM would widen the vector.
    for lane in range(type_.lanes):

        def one(lane: int = lane, so_far: Value = value) -> list[Value]:
            item = b.emit(scalar, f"load {scalar}, {b.at(address, lane * size)}, align {size}")
            return [b.emit(type_, f"insertelement {so_far}, {item}, i64 {lane}")]

        [value] = b.branch(b.extract(mask, lane), one, [value])
    return value


def is_near(step: int, size: int) -> bool:
    """Whether loading all elements between the lanes and shuffling is faster than a gather."""
    return step % size == 0 and 1 < step // size <= _NEAR


def _is_wide(type_: Type, mask: Value | None) -> bool:
    """Whether LLVM may load this vector as one, under a mask too."""
    return type_.lanes * type_.bits >= _SAFE_BITS and (mask is None or type_.bits // 8 >= _NARROW)


def _deinterleaved(
    b: Builder, type_: Type, address: Value, apart: int, mask: Value | None
) -> Value:
    """Every ``apart``-th element: loads of the whole span, merged by shuffles."""
    lanes, size = type_.lanes, type_.bits // 8
    last = (lanes - 1) * (apart - 1)  # the last vector ends with the last lane's element
    value: Value | None = None
    for first in [*range(0, last, lanes), last]:
        wanted = {e // apart: e - first for e in range(first, first + lanes) if e % apart == 0}
        begin = b.at(address, first * size)
        if mask is None:
            part = b.emit(type_, f"load {type_}, {begin}, align {size}")
        else:
            lane_of = {e: lane for lane, e in wanted.items()}
            none = Value("zeroinitializer", mask.type)
            # The mask of the wanted lanes, moved to where this vector loads them.
            there = b.shuffle(mask, none, [lane_of.get(e, lanes) for e in range(lanes)])
            part = masked_load(b, type_, begin, size, there)
        picks = [lanes + wanted[k] if k in wanted else k for k in range(lanes)]
        value = b.shuffle(value or part, part, picks)
    assert value is not None
    return value


def _ramp(lanes: int, step: int) -> str:
    return f"<{', '.join(f'i64 {lane * step}' for lane in range(lanes))}>"


def _addresses(b: Builder, memory: Memory, lanes: int) -> Value:
    type_, offsets = Type("ptr", lanes), _ramp(lanes, memory.step)
    return b.emit(type_, f"getelementptr i8, {memory.address}, <{lanes} x i64> {offsets}")


def _gather(b: Builder, type_: Type, memory: Memory, size: int, mask: Value | None) -> Value:
    """Load lanes at a constant distance."""
    return _masked_gather(b, type_, _addresses(b, memory, type_.lanes), size, mask)


def _masked_gather(b: Builder, type_: Type, address: Value, size: int, mask: Value | None) -> Value:
    lanes = mask or b.const(type_.mask, True)
    name = f"llvm.masked.gather.{type_.suffix}.{address.type.suffix}"
    return b.call(name, type_, address, f"i32 {size}", lanes, f"{type_} zeroinitializer")


def store(b: Builder, value: Value, dtype: DType, memory: Memory, mask: Value | None) -> None:
    """Store values in the element type of memory; strided ones are scattered."""
    size = dtype.itemsize
    if value.type.lanes == 1 or memory.step == size:
        if mask is not None:
            _masked_store(b, value, memory.address, size, mask)
            return
        index64 = value.type.lanes * size
        hint = f"align {index64}, !nontemporal !0" if memory.stream else f"align {size}"
        b.emit_void(f"store {value}, {memory.address}, {hint}")
        return
    address = _addresses(b, memory, value.type.lanes)
    lanes = mask or b.const(value.type.mask, True)
    name = f"llvm.masked.scatter.{value.type.suffix}.{address.type.suffix}"
    b.invoke(name, value, address, f"i32 {size}", lanes)


def _masked_store(b: Builder, value: Value, address: Value, size: int, mask: Value) -> None:
    """Store the active lanes only."""
    # A mask that is a constant with one lane.
    known = mask.text.strip("<>").split(", ")
    if size < _NARROW and known.count("i1 true") == 1:
        lane = known.index("i1 true")
        b.emit_void(f"store {b.extract(value, lane)}, {b.at(address, lane * size)}, align {size}")
        return
    if value.type.lanes * value.type.bits >= _SAFE_BITS:
        name = f"llvm.masked.store.{value.type.suffix}.p0"
        b.invoke(name, value, address, f"i32 {size}", mask)
        return
    for lane in range(value.type.lanes):

        def one(lane: int = lane) -> list[Value]:
            b.emit_void(
                f"store {b.extract(value, lane)}, {b.at(address, lane * size)}, align {size}"
            )
            return []

        b.branch(b.extract(mask, lane), one)


def combine(b: Builder, kind: ReduceKind, x: Value, y: Value, dtype: DType) -> Value:
    """One step of a reduction."""
    if kind in ("max", "min"):
        return extremum(b, x, y, kind, dtype)
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
    slot = b.at(Value("%args", PTR), 8 * number)
    return b.emit(PTR, f"load ptr, {slot}, align 8")


def address_at(
    b: Builder, base: Value, strides: Sequence[int], positions: Sequence[Value]
) -> Value:
    """``base + sum(stride * position)``, strides in bytes."""
    offset = Value("0", I64)
    for stride, position in zip(strides, positions, strict=True):
        offset = b.plus(offset, b.times(position, stride))
    return b.at(base, offset)
