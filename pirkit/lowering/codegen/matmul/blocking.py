"""Shared parts of the routines around microkernels: extents of blocks, zeros, packed tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pirkit.lowering.codegen.emit.transpose_tile import transposed
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector


def block_extent(b: Builder, block: int, total: Value | int, first: Value) -> Value:
    """The extent of a block that begins at ``first``: ``block``, or what is left of ``total``."""
    if isinstance(total, int) and total % block == 0:
        return Value(str(block), I64)
    extent = total if isinstance(total, Value) else Value(str(total), I64)
    left = b.emit(I64, f"sub {extent}, {first.text}")
    return b.binary("smin", left, Value(str(block), I64))


def for_tiles(
    b: Builder, extent: Value, size: int, rest: int, tile: Callable[[Value, int], None]
) -> None:
    """Emit ``tile(number, size)`` for all whole tiles, then one of size ``rest``.

    If ``rest`` is not zero, ``extent`` is a multiple of ``size`` with or without it.
    """
    whole = b.emit(I64, f"udiv {extent}, {size}")

    def one(number: Value, _: list[Value]) -> Sequence[Value]:
        tile(number, size)
        return []

    def last() -> Sequence[Value]:
        tile(whole, rest)
        return []

    b.loop(0, whole, 1, [], one)
    # The size of the rest is a constant: its microkernel has no masks and its own registers.
    if rest:
        b.branch(b.compare("ne", b.emit(I64, f"urem {extent}, {size}"), 0), last)


def clear(b: Builder, vector: Type, address: Value, nbytes: int) -> None:
    """Store zeros, in whole vectors."""
    step = vector.lanes * vector.bits // 8

    def store(offset: Value, _: list[Value]) -> Sequence[Value]:
        write_vector(b, Value("zeroinitializer", vector), b.at(address, offset))
        return []

    b.loop(0, -(-nbytes // step) * step, step, [], store)


def pack_square(
    b: Builder, vector: Type, lines: Sequence[Value], mask: Value | None, dest: Value, pitch: int,
    as_type: Type | None = None,
) -> None:  # fmt: skip
    """Pack as many lines as a vector has lanes, transposed in registers.

    Vector k of the result, ``pitch`` bytes after the one before, has element k of each line, where
    a line that is read is a vector of ``as_type``.
    """
    # A line is a vector; transposed, a vector holds one element of each line.
    vectors = [read_vector(b, vector, line, mask) for line in lines]
    if as_type not in (None, vector):
        vectors = [b.emit(as_type, f"bitcast {v} to {as_type}") for v in vectors]
    for k, value in enumerate(transposed(b, vectors)):
        write_vector(b, value, b.at(dest, k * pitch))
