"""Sums of products of 8-bit and 16-bit integers in the i32 lanes of a register."""

from __future__ import annotations

from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value
from pirkit.lowering.codegen.matmul.microkernel import Combine
from pirkit.runtime.native.target import Target

_QUADS: Final = {
    lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)
}  # fmt: skip
"""Lanes -> the instruction that adds four products of unsigned by signed bytes."""
_PAIRS: Final = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
"""Lanes -> the instruction for products of pairs; with VNNI LLVM joins it with the addition."""


def has_quads(target: Target) -> bool:
    """Whether the CPU multiplies four pairs of bytes and adds them at once."""
    wide = target.has("avx512vnni") and target.has("avx512vl")
    return wide or (target.has("avxvnni") and target.vector_bits < 512)


def quads_by_vnni(b: Builder, left: Value, right: Value, total: Value) -> Value:
    """``total`` plus the four products of unsigned bytes by signed ones in each i32 lane."""
    return b.call(_QUADS[total.type.lanes], total.type, total, left, right)


def quad_products(target: Target) -> Combine:
    """The same on any CPU: elsewhere bytes are widened in place, and pairs are multiplied."""
    if has_quads(target):
        return quads_by_vnni

    # `pmaddubsw` needs no widening, but saturates the sum of two products at 16 bits.
    def add(b: Builder, left: Value, right: Value, total: Value) -> Value:
        halves = Type("i16", 2 * total.type.lanes)
        x, y = (b.emit(halves, f"bitcast {v} to {halves}") for v in (left, right))
        odd = b.op("lshr", x, 8), b.op("ashr", y, 8)
        even = b.op("and", x, 255), b.op("ashr", b.op("shl", y, 8), 8)
        for pair in (even, odd):
            factors = [b.emit(total.type, f"bitcast {v} to {total.type}") for v in pair]
            total = b.op("add", total, pair_products(b, factors[0], factors[1], target))
        return total

    return add


def pair_products(b: Builder, left: Value, right: Value, target: Target) -> Value:
    """``l0 r0 + l1 r1`` of the two i16 in each i32 lane."""
    kind, halves = left.type, Type("i16", 2 * left.type.lanes)
    pairs = [b.emit(halves, f"bitcast {v} to {halves}") for v in (left, right)]
    if target.x86 and kind.lanes in _PAIRS:
        return b.call(_PAIRS[kind.lanes], kind, *pairs)
    products = b.op("mul", *(b.cast("sext", v, "i32") for v in pairs))
    evens, odds = (b.shuffle(products, products, range(k, halves.lanes, 2)) for k in range(2))
    return b.op("add", evens, odds)
