"""Casts between element types, and the types of values in registers and in memory."""

from __future__ import annotations

from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math import division
from pirkit.runtime.dtype import DType, float32

Typed = division.Typed
_ELEMENT: Final = {
    "bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double",
}  # fmt: skip


def element(dtype: DType) -> str:
    """The LLVM type in which values of an element type are computed."""
    if dtype.name not in _ELEMENT:
        raise InternalError(f"native code for {dtype.name}")
    return _ELEMENT[dtype.name]


def truth(b: Builder, x: Value) -> Value:
    """Whether a value is not zero, as an i1."""
    if x.type.elem == "i1":
        return x
    return b.compare("une" if x.type.is_float else "ne", x, 0)


def cast(b: Builder, x: Value, source: DType, dtype: DType) -> Value:
    """A value converted to another element type."""
    elem = element(dtype)
    # Values of these types are held in float32, so rounding means to narrow and widen again.
    if dtype.name in ("float16", "bfloat16"):
        to_odd = x.type.elem == "double" and dtype.name == "float16"
        single = _rounded_to_odd(b, x) if to_odd else cast(b, x, source, float32)
        if dtype.name == "float16":
            return widen(b, narrow(b, single, dtype), dtype)
        bits = _nearest_upper(b, single)
        rounded = b.bits(b.op("and", bits, -0x10000), "float")
        return b.select(b.compare("uno", single, single), single, rounded)
    if elem == "i1":
        return truth(b, x)
    if x.type.is_float:
        if elem in ("float", "double"):
            same = elem == x.type.elem
            return x if same else b.cast("fptrunc" if elem == "float" else "fpext", x, elem)
        return _float_to_int(b, x, elem)
    if elem in ("float", "double"):
        return b.cast("uitofp" if source.kind in ("uint", "bool") else "sitofp", x, elem)
    to_bits = x.type.of(elem).bits
    if to_bits == x.type.bits:
        return x
    if to_bits < x.type.bits:
        return b.cast("trunc", x, elem)
    return b.cast("zext" if source.kind in ("uint", "bool") else "sext", x, elem)


def _rounded_to_odd(b: Builder, x: Value) -> Value:
    """A double rounded to float with round-to-odd: a second rounding to half is then exact.

    Without AVX512-FP16 there is no instruction from double to half.
    """
    near = b.cast("fptrunc", x, "float")
    again, bits = b.cast("fpext", near, "double"), b.bits(near, "i32")
    even = b.compare("eq", b.op("and", bits, 1), 0)
    wrong = b.op("and", even, b.compare("one", again, x))
    # Step the last bit toward the exact value if the conversion was inexact and even.
    outside = b.compare("ogt", b.unary("fabs", again), b.unary("fabs", x))
    odd = b.op("add", bits, b.select(outside, b.like(bits, -1), b.like(bits, 1)))
    return b.bits(b.select(wrong, odd, bits), "float")


def _float_to_int(b: Builder, x: Value, elem: str) -> Value:
    wide = elem if elem in ("i32", "i64") else "i32"
    # `fptosi` is undefined outside of the range: replace such values first.
    limit = 2.0**31 if wide == "i32" else 2.0**63
    inside = b.op("and", b.compare("oge", x, -limit), b.compare("olt", x, limit))
    whole = b.cast("fptosi", b.select(inside, x, b.like(x, 0.0)), wide)
    whole = b.select(inside, whole, b.like(whole, -int(limit)))
    return whole if wide == elem else b.cast("trunc", whole, elem)


def narrow(b: Builder, x: Value, dtype: DType) -> Value:
    """A value in its memory format: fp16 and bf16 rounded once, bool as a byte."""
    if dtype.name == "bool":
        return b.cast("zext", x, "i8")
    if dtype.name == "float16":
        return b.cast("fptrunc", x, "half")
    if dtype.name == "bfloat16":
        rounded = b.op("lshr", _nearest_upper(b, x), 16)
        # Rounding could carry a NaN into infinity: set the quiet bit instead.
        quiet = b.op("or", b.op("lshr", b.bits(x, "i32"), 16), 0x40)
        return b.cast("trunc", b.select(b.compare("uno", x, x), quiet, rounded), "i16")
    return x


def _nearest_upper(b: Builder, x: Value) -> Value:
    """The bits of a float, rounded (ties to even) so that the upper half is a bfloat16."""
    bits = b.bits(x, "i32")
    even = b.op("add", b.op("and", b.op("lshr", bits, 16), 1), 0x7FFF)
    return b.op("add", bits, even)


def widen(b: Builder, x: Value, dtype: DType) -> Value:
    """A value loaded from memory in its compute type; the inverse of `narrow`."""
    if dtype.name == "bool":
        return b.compare("ne", x, 0)
    if dtype.name == "float16":
        return b.cast("fpext", x, "float")
    if dtype.name == "bfloat16":
        return b.bits(b.op("shl", b.cast("zext", x, "i32"), 16), "float")
    return x


def stored(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    special = {"bool": "i8", "float16": "half", "bfloat16": "i16"}
    return special.get(dtype.name) or element(dtype)
