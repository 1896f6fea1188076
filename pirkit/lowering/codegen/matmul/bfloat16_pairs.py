"""Sums of products of bfloat16, two terms at a time in the lanes of a float32 vector.

A lane of a vector of factors holds the terms 2k and 2k + 1 of a sum. A product of two bfloat16 has
16 significant bits, so it is exact in float32; a sum rounds after the odd term and after the even
one, in this order, which is that of the instruction `vdpbf16ps` (AVX512-BF16). Elsewhere two
multiply-adds give the same bits, but for subnormal numbers: the instruction reads and writes 0 in
their place.

Operands in memory that have both terms of a pair in a row (A by rows, B by columns) are read in
words of 32 bits. Others are interleaved: panels and tiles have a row of pairs for each two terms.
Where the depth is odd, the last pair has a 0 in place of the odd term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.transpose_tile import transposed
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Buffer
from pirkit.lowering.codegen.ir.routine import Array, Location, matrix
from pirkit.lowering.codegen.math.casts import narrow
from pirkit.lowering.codegen.matmul.microkernel import Combine, Scaled, Stride
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import Target

_PAIRS: Final = {lanes: f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}" for lanes in (4, 8, 16)}
"""Lanes -> the instruction that adds the products of a pair."""
_UPPER: Final = -0x10000
"""The bits of the odd term of a pair, which are those of its float32."""


TERMS: Final = 32
"""Terms of bfloat16 in a row of a tile register (`tile_registers.py`): 16 pairs."""


def has_pairs(target: Target) -> bool:
    """Whether the CPU multiplies pairs of bfloat16 and adds them at once."""
    return target.has("avx512bf16") and target.has("avx512vl")


def add_pairs(native: bool) -> Combine:
    """What a pair of terms does to a sum; by one instruction if it is ``native``."""

    def at_once(b: Builder, left: Value, right: Value, total: Value) -> Value:
        kind = Type("bfloat", 2 * total.type.lanes)
        x, y = (b.emit(kind, f"bitcast {v} to {kind}") for v in (left, right))
        return b.call(_PAIRS[total.type.lanes], total.type, total, x, y)

    def by_terms(b: Builder, left: Value, right: Value, total: Value) -> Value:
        for name, bits in (("and", _UPPER), ("shl", 16)):
            x, y = (b.bits(b.op(name, v, bits), "float") for v in (left, right))
            total = b.muladd(x, y, total)
        return total

    return at_once if native else by_terms


def interleaved(b: Builder, even: Value, odd: Value | None) -> Value:
    """Pairs of two vectors of bfloat16, in words; None is a vector of zeros."""
    low = b.cast("zext", even, "i32")
    return low if odd is None else b.op("or", low, b.op("shl", b.cast("zext", odd, "i32"), 16))


class PairedRows(Struct, frozen=True):
    """An operand in memory whose terms are rows: those of a pair are interleaved when it is read.

    Vector k is at ``base + offset`` of ``places[k]``, its odd terms ``row`` bytes further on, or
    nowhere if there ``is_last``, an even term alone.
    """

    lanes: int
    places: Sequence[tuple[Value, Stride]]
    row: int
    masks: Sequence[Value | None]
    is_last: bool = False

    def strides_of(self, _: int) -> list[Stride]:
        return [2 * self.row]

    def moved(self, b: Builder, _: int, _index: Value, scaled: Scaled) -> PairedRows:
        distance = scaled(2 * self.row)
        return replace(self, places=[(b.at(base, distance), at) for base, at in self.places])

    def load(self, b: Builder) -> Iterator[Value]:
        half = Type("i16", self.lanes)
        for (base, offset), mask in zip(self.places, self.masks, strict=True):
            address = b.at(base, offset)
            even = read_vector(b, half, address, mask)
            odd = None if self.is_last else read_vector(b, half, b.at(address, self.row), mask)
            yield interleaved(b, even, odd)


def pack_rows_of_pairs(
    b: Builder, lanes: int, vectors: int, row: int, panel: int, divisible: bool, filled: int
) -> None:
    """Pack ``%k`` rows of ``%n`` bfloat16 into panels, of ``panel`` bytes, of rows of pairs.

    Rows of zeros follow until the number of pairs is a multiple of ``filled``.
    """
    columns, half = lanes * vectors, Type("i16", lanes)
    k, n = Value("%k", I64), Value("%n", I64)
    full = b.emit(I64, f"udiv {n}, {columns}")
    rest = Value("0", I64) if divisible else b.emit(I64, f"urem {n}, {columns}")

    def line(number: Value, terms: int) -> None:
        here = b.at(Value("%b", PTR), b.times(number, 2 * row))
        there = b.at(Value("%panels", PTR), b.times(number, 4 * columns))
        zero = b.const(half, 0)

        def part(number: Value, left: Value | None) -> None:
            base = b.at(here, b.times(number, 2 * columns))
            dest = b.at(there, b.times(number, panel))
            for v in range(vectors):
                inside = None if left is None else b.plus(left, -v * lanes)
                mask = None if inside is None else tail_mask(b, lanes, _positive(b, inside))
                place = b.at(base, 2 * v * lanes)
                even = read_vector(b, half, place, mask) if terms else zero
                odd = read_vector(b, half, b.at(place, row), mask) if terms == 2 else None
                write_vector(b, interleaved(b, even, odd), b.at(dest, 4 * v * lanes))

        def whole(number: Value, _: list[Value]) -> Sequence[Value]:
            part(number, None)
            return []

        def ragged() -> Sequence[Value]:
            part(full, rest)
            return []

        b.loop(0, full, 1, [], whole)
        b.branch(b.compare("ne", rest, 0), ragged)

    def empty(number: Value, _: list[Value]) -> Sequence[Value]:
        line(number, 0)
        return []

    _by_pairs(b, k, line)
    if filled > 1:
        count = b.emit(I64, f"udiv {b.plus(k, 1)}, 2")
        groups = b.emit(I64, f"udiv {b.plus(count, filled - 1)}, {filled}")
        b.loop(count, b.times(groups, filled), 1, [], empty)


def pack_tiles_of_pairs(b: Builder, height: int, column: int, depth: int) -> None:
    """Pack ``%rows`` of ``%k`` columns of bfloat16 into tiles of ``height`` rows, columns of pairs.

    Columns are ``column`` bytes apart; a tile holds ``depth`` of them.
    """
    lanes = 1 << (height - 1).bit_length()
    half = Type("i16", lanes)
    k, rows = Value("%k", I64), Value("%rows", I64)
    full, rest = b.emit(I64, f"udiv {rows}, {height}"), b.emit(I64, f"urem {rows}, {height}")
    even_mask = tail_mask(b, lanes, height) if height < lanes else None

    def line(number: Value, terms: int) -> None:
        here = b.at(Value("%a", PTR), b.times(number, 2 * column))
        there = b.at(Value("%tiles", PTR), b.times(number, 4 * height))

        def tile(which: Value, mask: Value | None) -> None:
            source = b.at(here, b.times(which, 2 * height))
            dest = b.at(there, b.times(which, 2 * depth * height))
            even = read_vector(b, half, source, mask)
            odd = read_vector(b, half, b.at(source, column), mask) if terms == 2 else None
            write_vector(b, interleaved(b, even, odd), dest, mask)

        def whole(which: Value, _: list[Value]) -> Sequence[Value]:
            tile(which, even_mask)
            return []

        def last() -> Sequence[Value]:
            tile(full, tail_mask(b, lanes, rest))
            return []

        b.loop(0, full, 1, [], whole)
        b.branch(b.compare("ne", rest, 0), last)

    _by_pairs(b, k, line)


def pack_terms(b: Builder, strides: tuple[int, int], depth: int) -> None:
    """Pack ``%rows`` rows of ``%k`` terms of bfloat16 for tile registers.

    32 rows have room for ``depth`` terms, a multiple of 32: 32 terms of each row, then the next 32
    terms of each. Terms beyond the last one are 0. Where terms are the rows in memory, 16 rows of
    16 pairs are transposed as words.
    """
    k, rows = Value("%k", I64), Value("%rows", I64)
    side, row_bytes = TERMS // 2, 2 * TERMS
    is_row_major = strides[1] == dt.bfloat16.itemsize
    height = 1 if is_row_major else side

    def goal(row: Value, at: Value) -> Value:
        tile = b.times(b.emit(I64, f"udiv {row}, {TERMS}"), TERMS * 2 * depth)
        inside = b.times(b.emit(I64, f"urem {row}, {TERMS}"), row_bytes)
        there = b.at(b.at(Value("%tiles", PTR), tile), inside)
        return b.at(there, b.times(at, row_bytes))

    def line(row: Value, at: Value, is_last: bool) -> None:
        here = b.at(b.at(Value("%a", PTR), b.times(row, strides[0])), b.times(at, 2))
        mask = tail_mask(b, TERMS, b.emit(I64, f"sub {k}, {at.text}")) if is_last else None
        write_vector(b, read_vector(b, Type("i16", TERMS), here, mask), goal(row, at))

    def square(first: Value, at: Value, is_last: bool) -> None:
        here = b.at(b.at(Value("%a", PTR), b.times(first, 2)), b.times(at, strides[1]))
        left = b.emit(I64, f"sub {rows}, {first.text}")

        def terms(j: int) -> Value:
            count = left
            if is_last:
                count = b.select(b.compare("slt", b.plus(at, j), k), left, Value("0", I64))
            place = b.at(here, j * strides[1])
            return read_vector(b, Type("i16", side), place, tail_mask(b, side, count))

        words = [interleaved(b, terms(j), terms(j + 1)) for j in range(0, TERMS, 2)]
        there = goal(first, at)
        for r, value in enumerate(transposed(b, words)):
            write_vector(b, value, b.at(there, r * row_bytes))

    part = line if is_row_major else square

    def band(number: Value, _: list[Value]) -> Sequence[Value]:
        first = b.times(number, height)
        rest = b.emit(I64, f"urem {k}, {TERMS}")
        whole = b.emit(I64, f"sub {k}, {rest.text}")

        def inner(at: Value, _: list[Value]) -> Sequence[Value]:
            part(first, at, False)
            return []

        def last() -> Sequence[Value]:
            part(first, whole, True)
            return []

        b.loop(0, whole, TERMS, [], inner)
        b.branch(b.compare("ne", rest, 0), last)
        return []

    b.loop(0, b.emit(I64, f"udiv {b.plus(rows, height - 1)}, {height}"), 1, [], band)


def _by_pairs(b: Builder, k: Value, line: Callable[[Value, int], None]) -> None:
    """Emit ``line(number, terms)`` for all pairs of ``k`` terms; the last may be a term alone."""
    pairs = b.emit(I64, f"udiv {k}, 2")

    def whole(number: Value, _: list[Value]) -> Sequence[Value]:
        line(number, 2)
        return []

    def alone() -> Sequence[Value]:
        line(pairs, 1)
        return []

    b.loop(0, pairs, 1, [], whole)
    b.branch(b.compare("ne", b.emit(I64, f"urem {k}, 2"), 0), alone)


def _positive(b: Builder, count: Value) -> Value:
    return b.binary("smax", count, Value("0", I64))


def narrowed(b: Builder, value: Value, native: bool) -> Value:
    """A float32 vector rounded to bfloat16, as bits."""
    lanes = value.type.lanes
    if native and lanes == 16:
        kind = Type("bfloat", lanes)
        found = b.call("llvm.x86.avx512bf16.cvtneps2bf16.512", kind, value)
        return b.emit(Type("i16", lanes), f"bitcast {found} to {Type('i16', lanes)}")
    return narrow(b, value, dt.bfloat16)


def wide_sums(rank: int, rows: int, columns: int, outside: tuple[str, ...]) -> Buffer:
    """Scratch memory for the sums of a block of C, which are rounded after the last term."""
    strides = (*[0] * rank, 4 * columns, 4, 0)
    return Buffer(dt.float32, strides, 4 * rows * columns, space="scratch", outside=outside)


def pairs_in(location: Location, terms: int, lines: int, pair: int, line: int) -> Array:
    """The array ``[pairs, 2, lines]`` of terms in memory.

    Pairs are ``pair`` bytes apart, lines ``line``; the second term of a pair follows the first one.
    """
    return matrix(location, dt.bfloat16, (-(-terms // 2), 2, lines), (pair, 2, line))


def fill_pairs(location: Location, rows: Array, pair: int, line: int) -> None:
    """Write terms, which are rows, as `pairs_in` reads them; a last odd term is 0."""
    goal = pairs_in(location, len(rows), rows.shape[1], pair, line)
    padded = np.zeros((2 * len(goal), rows.shape[1]), rows.dtype)
    padded[: len(rows)] = rows
    goal[...] = padded.reshape(goal.shape)


def terms_in(location: Location, rows: int, terms: int) -> Array:
    """The array ``[groups, rows, 32]`` of terms that `pack_terms` has packed."""
    shape = -(-terms // TERMS), rows, TERMS
    return matrix(location, dt.bfloat16, shape, (2 * TERMS * TERMS, 2 * TERMS, 2))


def fill_terms(location: Location, rows: Array) -> None:
    """Write rows of at most 32 as `pack_terms` does."""
    goal = terms_in(location, *rows.shape)
    padded = np.zeros((len(rows), len(goal) * TERMS), rows.dtype)
    padded[:, : rows.shape[1]] = rows
    goal[...] = padded.reshape(len(rows), len(goal), TERMS).swapaxes(0, 1)
