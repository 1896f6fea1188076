"""Writes LLVM IR as text: typed values, one line per instruction, loops with carried values.

No user text reaches the module: names are numbers and constants are bit patterns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from pirkit.lowering.codegen.ir.constant_folding import constant_of, fold_constant, trip_count
from pirkit.runtime.native.object_compiler import SIMPLIFY

_BITS: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16,
                "float": 32, "double": 64, "ptr": 64}  # fmt: skip
_EFFECTS: Final = ("load", "call", "phi", "alloca")
"""Instructions that read or reserve memory, or do more: the same text may give another result."""
_EXTREMA: Final = {"smin": min, "umin": min, "smax": max, "umax": max}
_SUFFIX: Final = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


class Type(Struct, frozen=True):
    """An LLVM element type in ``lanes`` lanes; one lane is a scalar."""

    elem: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.elem if self.lanes == 1 else f"<{self.lanes} x {self.elem}>"

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return _BITS[self.elem]

    @property
    def is_float(self) -> bool:
        return self.elem in ("half", "float", "double")

    @property
    def suffix(self) -> str:
        """The type as intrinsics spell it: ``v16f32``."""
        name = _SUFFIX.get(self.elem, self.elem)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def of(self, elem: str) -> Type:
        """A type with as many lanes of another element type."""
        return Type(elem, self.lanes)

    @property
    def integer(self) -> Type:
        """The integer type of the same size."""
        return self.of(f"i{self.bits}")

    @property
    def mask(self) -> Type:
        return self.of("i1")


I64: Final = Type("i64")
I1: Final = Type("i1")
PTR: Final = Type("ptr")


@dataclass(frozen=True, slots=True)
class Value:
    """An operand of an instruction: a register or a constant."""

    text: str
    type: Type

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


class Offset(Value):
    """An address or index of the form base + constant, an instruction of each block that uses it.

    Most are only the base of others: `Builder` adds constants last, so that addresses at constant
    distances share a register and use the displacement of the instruction.
    """

    __slots__ = ("base", "builder", "distance")
    builder: Builder
    base: Value
    distance: int

    def __init__(self, builder: Builder, base: Value, distance: int) -> None:
        for name, value in (("builder", builder), ("base", base), ("distance", distance)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "type", base.type)

    @property
    def text(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        how, kind = ("getelementptr i8,", "i64 ") if self.type.elem == "ptr" else ("add", "")
        return self.builder.emit(self.type, f"{how} {self.base}, {kind}{self.distance}").text


def _settled(values: Sequence[Value]) -> list[Value]:
    """The same values; an `Offset` becomes an instruction here."""
    return [Value(v.text, v.type) if isinstance(v, Offset) else v for v in values]


def constant_text(elem: str, value: float | int | bool) -> str:
    """A scalar constant in LLVM syntax; floats by their bits, so nothing is rounded."""
    if elem == "i1":
        return "true" if value else "false"
    if elem in ("float", "double"):
        if elem == "float":
            # LLVM writes float constants with the bits of the equal double.
            value = struct.unpack("f", struct.pack("f", value))[0]
        return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"
    return str(int(value))


def constant_value(value: Value) -> float | None:
    """The value of a constant float (in all lanes); None for a register."""
    text = value.text.removeprefix("splat (").removeprefix(f"{value.type.elem} ").removesuffix(")")
    if not value.type.is_float or not text.startswith("0x"):
        return None
    return struct.unpack("d", struct.pack("Q", int(text, 16)))[0]


class Builder:
    """Appends instructions to one function of a module.

    ``scalef`` says that the CPU has AVX-512 `vscalef`, ``blocks`` how many blocks the function has,
    0 if unknown, and ``gathers`` whether a gather takes less time than a load for each lane.
    """

    def __init__(self, scalef: bool = False, blocks: int = 0, gathers: bool = True) -> None:
        self.scalef = scalef
        self.blocks = blocks
        self.gathers = gathers
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.label = "entry"
        self._count = 0
        self._here: dict[str, Value] = {}
        """Instructions of the current basic block by their text (local value numbering)."""

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def emit(self, type_: Type, text: str) -> Value:
        """Append an instruction; one without side effects is emitted once per basic block.

        Integer instructions that fold to a constant are not emitted.
        """
        if text in self._here:
            return self._here[text]
        if type_.elem in ("i64", "i1") and (known := fold_constant(text)) is not None:
            return Value(known, type_)
        value = Value(f"%v{self.fresh()}", type_)
        self.lines.append(f"  {value.text} = {text}")
        if not text.startswith(_EFFECTS):
            self._here[text] = value
        return value

    def emit_void(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    # constants, lanes and conversions

    def const(self, type_: Type, value: float | int | bool) -> Value:
        """A constant of a type, in all lanes."""
        text = constant_text(type_.elem, value)
        if type_.lanes > 1:
            text = f"splat ({type_.elem} {text})"
        return Value(text, type_)

    def like(self, value: Value, constant: float | int | bool) -> Value:
        """A constant of the type of a value."""
        return self.const(value.type, constant)

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar broadcast to all lanes; a vector with these lanes is returned as it is."""
        if value.type.lanes == lanes:
            return value
        type_ = Type(value.type.elem, lanes)
        if not value.text.startswith("%"):
            return Value(f"splat ({value.type.elem} {value.text})", type_)
        first = self.emit(type_, f"insertelement {type_} poison, {value}, i64 0")
        return self.emit(
            type_, f"shufflevector {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        )

    def iota(self, type_: Type) -> Value:
        """The constant 0, 1, 2..."""
        if type_.lanes == 1:
            return self.const(type_, 0)
        lanes = ", ".join(f"{type_.elem} {i}" for i in range(type_.lanes))
        return Value(f"<{lanes}>", type_)

    def cast(self, op: str, value: Value, elem: str) -> Value:
        """A conversion (``trunc``, ``fpext``, ``sitofp``...) to another element type."""
        type_ = value.type.of(elem)
        return self.emit(type_, f"{op} {value} to {type_}")

    def bits(self, value: Value, elem: str) -> Value:
        """Bitcast to another type of the same size."""
        return self.cast("bitcast", value, elem)

    def shuffle(self, a: Value, b: Value, picks: Sequence[int]) -> Value:
        """The lanes ``picks`` of the concatenation of two vectors."""
        type_ = Type(a.type.elem, len(picks))
        mask = ", ".join(f"i32 {i}" for i in picks)
        return self.emit(type_, f"shufflevector {a}, {b}, <{len(picks)} x i32> <{mask}>")

    def extract(self, vector: Value, lane: int) -> Value:
        return self.emit(Type(vector.type.elem), f"extractelement {vector}, i64 {lane}")

    # arithmetic

    def op(self, name: str, a: Value, b: Value | float | int) -> Value:
        """A binary instruction: ``fadd``, ``shl``, ``and``..."""
        other = b if isinstance(b, Value) else self.like(a, b)
        return self.emit(a.type, f"{name} {a}, {other.text}")

    def add(self, a: Value, b: Value | float) -> Value:
        return self.op("fadd", a, b)

    def sub(self, a: Value, b: Value | float) -> Value:
        return self.op("fsub", a, b)

    def mul(self, a: Value, b: Value | float) -> Value:
        return self.op("fmul", a, b)

    def div(self, a: Value, b: Value | float) -> Value:
        return self.op("fdiv", a, b)

    def neg(self, a: Value) -> Value:
        return self.emit(a.type, f"fneg {a}")

    def compare(self, predicate: str, a: Value, b: Value | float | int) -> Value:
        """A mask; ``predicate`` is that of `fcmp` for floats, of `icmp` for integers."""
        other = b if isinstance(b, Value) else self.like(a, b)
        name = "fcmp" if a.type.is_float else "icmp"
        return self.emit(a.type.mask, f"{name} {predicate} {a}, {other.text}")

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """``a`` where the mask is true, else ``b``."""
        if mask.text in ("true", "false"):
            return a if mask.text == "true" else b
        if a.text == b.text:
            return a
        return self.emit(a.type, f"select {mask}, {a}, {b}")

    def call(self, name: str, result: Type, *args: Value | str) -> Value:
        """Call a function, which the module declares; `invoke` is for ``void`` results."""
        texts = [str(arg) for arg in args]
        self.declared[name] = f"declare {result} @{name}({', '.join(map(_kind, texts))})"
        return self.emit(result, f"call {result} @{name}({', '.join(texts)})")

    def _intrinsic(self, name: str, *args: Value) -> Value:
        """Call an intrinsic of values of one type, which has no effects: once per basic block."""
        type_ = args[0].type
        text = f"call {type_} @llvm.{name}.{type_.suffix}({', '.join(map(str, args))})"
        if text not in self._here:
            self._here[text] = self.call(f"llvm.{name}.{type_.suffix}", type_, *args)
        return self._here[text]

    def invoke(self, name: str, *args: Value | str) -> None:
        """Call a function without a result, which the module declares."""
        texts = [str(arg) for arg in args]
        self.declared[name] = f"declare void @{name}({', '.join(map(_kind, texts))})"
        self.emit_void(f"call void @{name}({', '.join(texts)})")

    def simplify(self) -> None:
        """Request instruction combining for this module: about a tenth of LLVM's time."""
        self.declared[SIMPLIFY] = SIMPLIFY

    def prefetch(self, address: Value, level: int = 2, to_write: bool = False) -> None:
        """Prefetch a cache line into L1 (``level`` 3) or L2 (2); any address is valid."""
        self.invoke("llvm.prefetch.p0", address, f"i32 {to_write:d}", f"i32 {level}", "i32 1")

    def unary(self, intrinsic: str, a: Value) -> Value:
        """An LLVM intrinsic of one operand, such as ``sqrt``."""
        return self._intrinsic(intrinsic, a)

    def binary(self, intrinsic: str, a: Value, b: Value) -> Value:
        """An LLVM intrinsic of two operands, such as ``smin``."""
        if intrinsic in _EXTREMA and a.text.isdigit() and b.text.isdigit():
            return Value(str(_EXTREMA[intrinsic](int(a.text), int(b.text))), a.type)
        return self._intrinsic(intrinsic, a, b)

    def fma(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a * b + c rounded once; without FMA in the CPU, one call of the C library per lane."""
        return self._multiply_add("fma", a, b, c)

    def muladd(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """a * b + c, rounded once if the CPU has FMA, else twice."""
        return self._multiply_add("fmuladd", a, b, c)

    def _multiply_add(self, name: str, a: Value, b: Value | float, c: Value | float) -> Value:
        x, y = (v if isinstance(v, Value) else self.like(a, v) for v in (b, c))
        return self._intrinsic(name, a, x, y)

    # memory and control

    def load(self, type_: Type, address: Value, align: int) -> Value:
        return self.emit(type_, f"load {type_}, {address}, align {align}")

    def store(self, value: Value, address: Value, align: int) -> None:
        self.emit_void(f"store {value}, {address}, align {align}")

    def at(self, base: Value, offset: Value | int) -> Value:
        """The address ``offset`` bytes after ``base``."""
        distance = _constant(offset)
        if distance is not None:
            return self._offset_by(base, distance)
        assert isinstance(offset, Value)
        # (base + c1) + (offset + c2) = (base + offset) + (c1 + c2): the constant moves last.
        (base, first), (offset, second) = _sum(base), _sum(offset)
        return self.at(self.emit(PTR, f"getelementptr i8, {base}, {offset}"), first + second)

    def times(self, index: Value, factor: int) -> Value:
        """``index * factor`` in i64."""
        known = _constant(index) if factor else 0
        if known is not None:
            return Value(str(known * factor), I64)
        if factor == 1:
            return index
        index, more = _sum(index)
        return self.plus(self.emit(I64, f"mul {index}, {factor}"), more * factor)

    def plus(self, a: Value, b: Value | int) -> Value:
        """``a + b`` in i64."""
        first, second = _constant(a), _constant(b)
        if first is not None and second is not None:
            return Value(str(first + second), I64)
        if second is not None:
            return self._offset_by(a, second)
        assert isinstance(b, Value)
        if first is not None:
            return self._offset_by(b, first)
        (a, first), (b, second) = _sum(a), _sum(b)
        return self.plus(self.emit(I64, f"add {a}, {b.text}"), first + second)

    def _offset_by(self, value: Value, distance: int) -> Value:
        """``value`` plus a constant."""
        value, more = _sum(value)
        return Offset(self, value, distance + more) if distance + more else value

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        # Values of other blocks need not dominate this one: forget them.
        self.label = label
        self._here = {}

    def loop(
        self,
        start: Value | int,
        stop: Value | int,
        step: int,
        carried: Sequence[Value],
        body: Callable[[Value, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """``for i in range(start, stop, step)``; ``body`` takes and returns the carried values.

        With constant bounds a loop of one iteration is its body, and one of none is nothing.
        """
        first, last = (v if isinstance(v, Value) else Value(str(v), I64) for v in (start, stop))
        count = trip_count(first.text, last.text, step)
        if count == 0:
            return list(carried)
        if count == 1:
            return list(body(first, list(carried)))
        first, last, *carried = _settled([first, last, *carried])
        tag = self.fresh()
        before = self.label
        self.emit_void(f"br label %head{tag}")
        self.begin(f"head{tag}")
        index = Value(f"%i{tag}", I64)
        # The phis are inserted here once the body has defined what they carry.
        slot = len(self.lines)
        phis = [Value(f"%c{tag}_{k}", v.type) for k, v in enumerate(carried)]
        more = self.emit(I1, f"icmp slt {index}, {last.text}")
        self.emit_void(f"br {more}, label %body{tag}, label %exit{tag}")
        self.begin(f"body{tag}")
        results = _settled(body(index, phis))
        after = self.opaque(self.plus(index, step))
        end = self.label
        self.emit_void(f"br label %head{tag}")
        heads = [f"  {index.text} = phi i64 [ {first.text}, %{before} ], [ {after.text}, %{end} ]"]
        heads += [
            f"  {p.text} = phi {p.type} [ {v.text}, %{before} ], [ {r.text}, %{end} ]"
            for p, v, r in zip(phis, carried, results, strict=True)
        ]
        self.lines[slot:slot] = heads
        self.begin(f"exit{tag}")
        return phis

    def opaque(self, count: Value) -> Value:
        """The counter of a loop, hidden from loop strength reduction.

        LSR would try many ways to rewrite addresses, which takes longer than the rest of code
        generation and gains nothing here. It does not look through `llvm.expect`, which generates
        no code.
        """
        return self.call("llvm.expect.i64", I64, count, Value("0", I64))

    def block_loop(
        self, body: Callable[[Value, list[Value]], Sequence[Value]], carried: Sequence[Value] = ()
    ) -> None:
        """The loop over the blocks of this call: a range, or the only one."""
        if self.blocks == 1:
            body(Value("0", I64), list(carried))
        else:
            self.loop(Value("%lo", I64), Value("%hi", I64), 1, carried, body)

    def both(self, x: Value, y: Value) -> Value:
        """``x and y`` of scalars; nothing is emitted if one is the constant ``true``."""
        if "true" in (x.text, y.text):
            return y if x.text == "true" else x
        return self.op("and", x, y)

    def pick(self, number: Value, values: Sequence[Value]) -> Value:
        """``values[number]``, by selects if the number is no constant."""
        if number.text.isdigit():
            return values[int(number.text)]
        found = values[0]
        for k, value in enumerate(values[1:], 1):
            if value.text != found.text:
                found = self.select(self.compare("eq", number, k), value, found)
        return found

    def branch(self, condition: Value, body: Callable[[], Sequence[Value]],
               otherwise: Sequence[Value] = ()) -> list[Value]:  # fmt: skip
        """``body()`` if the scalar ``condition`` is true, else the values ``otherwise``."""
        if condition.text in ("true", "false"):
            return list(body() if condition.text == "true" else otherwise)
        otherwise = _settled(otherwise)
        tag = self.fresh()
        before = self.label
        self.emit_void(f"br {condition}, label %then{tag}, label %join{tag}")
        self.begin(f"then{tag}")
        results = _settled(body())
        end = self.label
        self.emit_void(f"br label %join{tag}")
        self.begin(f"join{tag}")
        return [
            self.emit(r.type, f"phi {r.type} [ {r.text}, %{end} ], [ {o.text}, %{before} ]")
            for r, o in zip(results, otherwise, strict=True)
        ]


def _constant(value: Value | int) -> int | None:
    """The number that an operand is, if it is a constant; None for a register."""
    if isinstance(value, int):
        return value
    return None if isinstance(value, Offset) else constant_of(value.text)


def _sum(value: Value) -> tuple[Value, int]:
    """An address or index as base and constant."""
    return (value.base, value.distance) if isinstance(value, Offset) else (value, 0)


def _kind(argument: str) -> str:
    """The type of an argument spelled ``type value`` (vector types contain spaces)."""
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]
