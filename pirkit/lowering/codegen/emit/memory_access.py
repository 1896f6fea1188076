"""Loads and stores of one vector: contiguous, strided, masked, gathered, non-temporal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import stored, widen
from pirkit.lowering.codegen.math.vecmath import any_lane
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import NEAR_STRIDE

_SAFE_BITS: Final = 128
"""Bits of a vector below which masked accesses are split into scalar ones here: LLVM 22 on x86
widens one with a single active lane to a whole register, and so writes beyond the mask. It does the
same at any width if a store with a single active lane truncates its elements.
"""
MAX_WINDOWS: Final = 4
"""Vectors from which one is merged by shuffles, at most."""
_WIDEST: Final = 512
_PERMUTE: Final = {
    (8, 32): ("llvm.x86.avx2.permps", "float"),
    (16, 32): ("llvm.x86.avx512.permvar.sf.512", "float"),
    (8, 64): ("llvm.x86.avx512.permvar.df.512", "double"),
}
"""Intrinsics that permute a vector: by lanes and bits, with the type of elements."""
_NARROW: Final = 4
"""Bytes of an element below which LLVM may truncate values as part of a masked store."""


class Memory(Struct, frozen=True):
    """The elements of an operand at a vector of iterations.

    ``step`` is the distance of neighboring lanes in bytes; 0 is one element for all lanes, and a
    `Value` is a distance that is known at run time. With ``stream`` stores are non-temporal and
    must be aligned. With ``padded`` there is memory for whole vectors, so that accesses need no
    mask. ``lanes`` are the offsets of the lanes in bytes in place of a step; a lane without one is
    not loaded, and its value is 0.
    """

    address: Value
    step: int | Value
    stream: bool = False
    padded: bool = False
    lanes: tuple[int | None, ...] | None = None


def load(
    b: Builder, dtype: DType, memory: Memory, lanes: int, mask: Value | None, guarded: bool = False
) -> Value:  # fmt: skip
    """The elements at a vector of iterations in their compute type; one lane if they are uniform.

    Without ``guarded`` the mask is that of a tail: the first element may be loaded without a check.
    """
    elem, size = stored(dtype), dtype.itemsize
    address = memory.address
    if memory.lanes is not None:
        return widen(b, _in_windows(b, Type(elem, lanes), address, memory.lanes, size), dtype)
    if memory.step == 0 or lanes == 1:
        scalar = Type(elem)

        def one() -> list[Value]:
            return [b.load(scalar, address, size)]

        if not guarded or mask is None:
            return widen(b, one()[0], dtype)
        zero = Value("zeroinitializer", scalar)
        value = widen(b, b.branch(any_lane(b, mask), one, [zero])[0], dtype)
        if mask.type.lanes == 1:
            return value
        value = b.splat(value, lanes)
        return b.select(mask, value, Value("zeroinitializer", value.type))
    type_ = Type(elem, lanes)
    if memory.step == -size and _is_wide(type_, mask):
        value = _reversed(b, type_, address, mask)
    elif isinstance(memory.step, int) and is_near(memory.step, size) and _is_wide(type_, mask):
        value = _deinterleaved(b, type_, address, memory.step // size, mask)
    elif memory.step != size:
        value = gather(b, type_, memory, size, mask)
    else:
        value = masked_load(b, type_, address, size, mask)
    return widen(b, value, dtype)


def load_at_offsets(
    b: Builder, dtype: DType, memory: Memory, offsets: Value, mask: Value | None
) -> Value:  # fmt: skip
    """A gather: elements ``offsets`` bytes beyond the address of their lane."""
    lanes, size = offsets.type.lanes, dtype.itemsize
    if memory.step:
        offsets = b.op("add", offsets, _ramp(b, lanes, memory.step))
    type_ = Type(stored(dtype), lanes)
    if mask is None and not b.gathers:
        places = [b.at(memory.address, b.extract(offsets, lane)) for lane in range(lanes)]
        return widen(b, _by_lanes(b, type_, places, size), dtype)
    pointers = Type("ptr", lanes)
    address = b.emit(pointers, f"getelementptr i8, {memory.address}, {offsets}")
    return widen(b, _masked_gather(b, type_, address, size, mask), dtype)


def _by_lanes(b: Builder, type_: Type, places: Sequence[Value], size: int) -> Value:
    """A gather by a load for each lane."""
    value, scalar = Value("poison", type_), Type(type_.elem)
    for lane, place in enumerate(places):
        item = b.load(scalar, place, size)
        value = b.emit(type_, f"insertelement {value}, {item}, i64 {lane}")
    return value


def load_near(
    b: Builder, dtype: DType, memory: Memory, at: Value, limit: int, mask: Value | None,
    far: Callable[[], Value],
) -> Value:  # fmt: skip
    """The elements ``at`` of up to ``limit``: if one vector from the first lane's on holds all of
    them it is permuted, otherwise ``far`` gathers.

    A gather takes longer than loading each lane. Tables of padded or resized images mostly rise.
    """
    lanes, type_ = at.type.lanes, Type(stored(dtype), at.type.lanes)
    permute = _PERMUTE.get((lanes, type_.bits))
    is_whole = type_.bits == 8 * dtype.itemsize and (b.scalef or lanes * type_.bits < _WIDEST)
    if permute is None or not is_whole or memory.step or limit + 1 < lanes:
        return far()
    name, elem = permute
    index = type_.integer
    first = b.extract(at, 0)
    places = b.op("sub", at, b.splat(first, lanes))
    if mask is not None:
        places = b.select(mask, places, b.const(places.type, 0))
    beyond = any_lane(b, b.compare("uge", places, lanes))
    is_inside = b.compare("ule", first, limit + 1 - lanes)
    is_near = b.op("and", is_inside, b.op("xor", beyond, True))

    def near() -> list[Value]:
        begin = first if first.type == I64 else b.cast("zext", first, "i64")
        window = b.load(type_, b.at(memory.address, b.times(begin, dtype.itemsize)), dtype.itemsize)
        how = "zext" if places.type.bits < index.bits else "trunc"
        picks = places if places.type == index else b.cast(how, places, index.elem)
        value = b.call(name, type_.of(elem), b.bits(window, elem), picks)
        return [widen(b, b.bits(value, type_.elem), dtype)]

    zero = Value("zeroinitializer", type_)
    [value] = b.branch(is_near, near, [zero])
    return b.branch(b.op("xor", is_near, True), lambda: [far()], [value])[0]


def masked_load(b: Builder, type_: Type, address: Value, size: int, mask: Value | None) -> Value:
    """The active lanes; zeros elsewhere. Without a mask all are active."""
    if mask is None:
        return b.load(type_, address, size)
    zero = Value("zeroinitializer", type_)
    if type_.lanes * type_.bits >= _SAFE_BITS:
        name = f"llvm.masked.load.{type_.suffix}.p0"
        return b.call(name, type_, address, f"i32 {size}", mask, zero)
    scalar, value = Type(type_.elem), zero
    # One scalar load per active lane, since LLVM would widen the vector.
    for lane in range(type_.lanes):

        def one(lane: int = lane, so_far: Value = value) -> list[Value]:
            item = b.load(scalar, b.at(address, lane * size), size)
            return [b.emit(type_, f"insertelement {so_far}, {item}, i64 {lane}")]

        [value] = b.branch(b.extract(mask, lane), one, [value])
    return value


def windows_of(offsets: Sequence[int | None], size: int, lanes: int) -> list[tuple[int, int]]:
    """Runs of at most ``lanes`` elements that hold what lies at some offsets: where each begins and
    how many elements it has. None reaches beyond the first or the last of them.
    """
    wanted = sorted({o for o in offsets if o is not None})
    count = min(lanes, (wanted[-1] - wanted[0]) // size + 1)
    last, found = wanted[-1] - (count - 1) * size, list[tuple[int, int]]()
    for offset in wanted:
        if not found or offset >= found[-1][0] + count * size:
            found.append((min(offset, last), count))
    return found


def _in_windows(
    b: Builder, type_: Type, address: Value, offsets: Sequence[int | None], size: int
) -> Value:
    """Elements at known offsets: vectors of neighbors, merged by shuffles."""
    value: Value | None = None
    left = dict[int, int | None](enumerate(offsets))
    for begin, count in windows_of(offsets, size, type_.lanes):
        window = Type(type_.elem, count)
        part = b.load(window, b.at(address, begin), size)
        part = b.splat(part, type_.lanes) if count == 1 else part
        inside = {
            lane: (o - begin) // size
            for lane, o in left.items()
            if o is not None and begin <= o < begin + count * size
        }
        left = {lane: o for lane, o in left.items() if lane not in inside}
        first = part.type.lanes
        if value is None:
            zeros = Value("zeroinitializer", part.type)
            value = b.shuffle(part, zeros, [inside.get(k, first) for k in range(type_.lanes)])
        else:  # several windows have as many elements as the vector
            picks = [first + inside[k] if k in inside else k for k in range(type_.lanes)]
            value = b.shuffle(value, part, picks)
    assert value is not None
    return value


def is_near(step: int, size: int) -> bool:
    """Whether loading all elements between the lanes and shuffling is faster than a gather."""
    return step == -size or (step % size == 0 and 1 < step // size <= NEAR_STRIDE)


def _is_wide(type_: Type, mask: Value | None) -> bool:
    """Whether LLVM may load this vector as one, under a mask too."""
    return type_.lanes * type_.bits >= _SAFE_BITS and (mask is None or type_.bits // 8 >= _NARROW)


def _reversed(b: Builder, type_: Type, address: Value, mask: Value | None) -> Value:
    """Elements whose addresses fall from lane to lane: one vector, reversed."""
    lanes, size = type_.lanes, type_.bits // 8
    begin, back = b.at(address, (1 - lanes) * size), range(lanes - 1, -1, -1)
    mask = mask and b.shuffle(mask, mask, back)
    value = masked_load(b, type_, begin, size, mask)
    return b.shuffle(value, value, back)


def _deinterleaved(
    b: Builder, type_: Type, address: Value, stride: int, mask: Value | None
) -> Value:
    """Every ``stride``-th element: loads of the whole span, merged by shuffles."""
    lanes, size = type_.lanes, type_.bits // 8
    last = (lanes - 1) * (stride - 1)  # the last vector ends with the last lane's element
    value: Value | None = None
    for first in [*range(0, last, lanes), last]:
        wanted = {e // stride: e - first for e in range(first, first + lanes) if e % stride == 0}
        begin = b.at(address, first * size)
        if mask is None:
            part = b.load(type_, begin, size)
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


def _ramp(b: Builder, lanes: int, step: int | Value) -> Value:
    """The distances of the lanes from the first one."""
    type_ = Type("i64", lanes)
    if isinstance(step, Value):
        return b.emit(type_, f"mul {b.splat(step, lanes)}, {b.iota(type_).text}")
    return Value(f"<{', '.join(f'i64 {lane * step}' for lane in range(lanes))}>", type_)


def _addresses(b: Builder, memory: Memory, lanes: int) -> Value:
    type_, offsets = Type("ptr", lanes), _ramp(b, lanes, memory.step)
    return b.emit(type_, f"getelementptr i8, {memory.address}, {offsets}")


def gather(b: Builder, type_: Type, memory: Memory, size: int, mask: Value | None) -> Value:
    """Load lanes at one distance from each other."""
    if mask is None and not b.gathers and isinstance(memory.step, int):
        places = [b.at(memory.address, lane * memory.step) for lane in range(type_.lanes)]
        return _by_lanes(b, type_, places, size)
    return _masked_gather(b, type_, _addresses(b, memory, type_.lanes), size, mask)


def _masked_gather(b: Builder, type_: Type, address: Value, size: int, mask: Value | None) -> Value:
    lanes = mask or b.const(type_.mask, True)
    name = f"llvm.masked.gather.{type_.suffix}.{address.type.suffix}"
    return b.call(name, type_, address, f"i32 {size}", lanes, f"{type_} zeroinitializer")


def store(b: Builder, value: Value, dtype: DType, memory: Memory, mask: Value | None) -> None:
    """Store values in the element type of memory; strided ones are scattered."""
    size = dtype.itemsize
    if memory.lanes is not None:  # one lane after the other
        address = b.at(memory.address, memory.lanes[0] or 0)
        memory = replace(memory, address=address, step=size, lanes=None)
    if value.type.lanes == 1 or memory.step == size:
        if mask is not None:
            _masked_store(b, value, memory.address, size, mask)
            return
        nbytes = value.type.lanes * size
        hint = f"align {nbytes}, !nontemporal !0" if memory.stream else f"align {size}"
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
        b.store(b.extract(value, lane), b.at(address, lane * size), size)
        return
    if value.type.lanes * value.type.bits >= _SAFE_BITS:
        name = f"llvm.masked.store.{value.type.suffix}.p0"
        b.invoke(name, value, address, f"i32 {size}", mask)
        return
    for lane in range(value.type.lanes):

        def one(lane: int = lane) -> list[Value]:
            b.store(b.extract(value, lane), b.at(address, lane * size), size)
            return []

        b.branch(b.extract(mask, lane), one)
