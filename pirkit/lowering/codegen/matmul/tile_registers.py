"""The tile registers of AMX: eight of 16 rows of 64 bytes (Intel's manual, volume 1, chapter 18).

Four hold the sums of 32 rows by 32 columns, two hold the next 64 bytes of terms of the rows of A,
two those of the columns of B. An instruction adds 16 x 16 products of rows of 64 bytes to sums.

A row of a left tile holds terms of a row of A, one after the other. A row of a right tile holds 4
bytes of terms of each column, as panels of pairs and quads do, so panels are read in place. What
lies beyond the depth must be zero on both sides, as 0 times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, Literal

from msgspec import Struct

from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values
from pirkit.runtime.native.target import Target

SIDE: Final = 16
"""Rows of a tile register, and sums in one of its rows."""
ROW_BYTES: Final = 64
SUMS: Final = ((0, 1), (2, 3))
"""The tile registers of sums, by halves of the rows of A and the columns of B."""
LEFT: Final = (4, 5)
RIGHT: Final = (6, 7)


def has_tiles(target: Target, feature: str) -> bool:
    """Whether tile registers multiply, as ``feature`` says. Their accesses cannot be checked."""
    on = target.has("amx-tile") and target.has(feature)
    return on and target.vector_bits == 512 and not target.sanitized


class ConfigureTiles(Struct, frozen=True):
    """Sets the sizes of the tile registers for ``rows`` of A, or with None ends their use."""

    rows: int | None

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        return "release tiles" if self.rows is None else f"configure tiles of {self.rows} rows"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        """Nothing: it concerns registers alone."""

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        name = functions.add(self, "", self._write)
        b.emit_void(f"call void @{name}()")

    def _write(self, b: Builder) -> None:
        if self.rows is None:
            b.invoke("llvm.x86.tilerelease")
        else:
            configure(b, self.rows)


def configure(b: Builder, rows: int) -> None:
    """Load the sizes of all tile registers: some rows of A in two halves, whole tiles of B."""
    upper = min(rows, SIDE)
    lower = max(rows - SIDE, 1)  # a tile register that is not used must have a size as well
    heights = [upper, upper, lower, lower, upper, lower, SIDE, SIDE]
    # The palette, then bytes of a row (16 bits) from byte 16 on and rows (8 bits) from 48 on.
    held = bytes([1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *heights, *[0] * 8])
    place = b.emit(PTR, "alloca [64 x i8], align 64")
    numbers = ", ".join(f"i8 {n}" for n in held)
    b.store(Value(f"<{numbers}>", Type("i8", 64)), place, 64)
    b.invoke("llvm.x86.ldtilecfg", place)


def room(b: Builder, nbytes: int) -> Value:
    """Memory on the stack, for whole cache lines."""
    return b.emit(PTR, f"alloca [{nbytes} x i8], align {ROW_BYTES}")


class TileProduct(Struct, frozen=True):
    """The sums of some rows of A times some columns of B, at most 32 of each, by an instruction.

    Rows of A are ``left_row`` bytes apart, rows of B, of 4 bytes for each column, ``right_row``.
    """

    instruction: str
    rows: int
    columns: int
    left_row: int
    right_row: int

    def clear(self, b: Builder) -> None:
        """Start with sums of 0."""
        for r, c in self._halves():
            b.invoke("llvm.x86.tilezero", f"i8 {SUMS[r][c]}")

    def load(self, b: Builder, base: Value, row: int) -> None:
        """Start with sums in memory, whose rows are ``row`` bytes apart."""
        for r, c in self._halves():
            _move(b, "load", SUMS[r][c], _half(b, base, row, r, c), row)

    def store(self, b: Builder, base: Value, row: int) -> None:
        """Store the sums; whole vectors of 16 columns."""
        for r, c in self._halves():
            _move(b, "store", SUMS[r][c], _half(b, base, row, r, c), row)

    def add(self, b: Builder, left: Value, right: Value) -> None:
        """Add the products of the next 64 bytes of terms of each row and column."""
        halves = self._halves()
        for r in sorted({r for r, _ in halves}):
            _move(b, "load", LEFT[r], _half(b, left, self.left_row, r, 0), self.left_row)
        for c in sorted({c for _, c in halves}):
            _move(b, "load", RIGHT[c], _half(b, right, self.right_row, 0, c), self.right_row)
        for r, c in halves:
            numbers = SUMS[r][c], LEFT[r], RIGHT[c]
            b.invoke(f"llvm.x86.{self.instruction}", *[f"i8 {n}" for n in numbers])

    def _halves(self) -> list[tuple[int, int]]:
        """The halves of the rows and of the columns that exist."""
        return list(product(range(-(-self.rows // SIDE)), range(-(-self.columns // SIDE))))


def _half(b: Builder, base: Value, row: int, r: int, c: int) -> Value:
    return b.at(b.at(base, r * SIDE * row), c * ROW_BYTES)


def _move(b: Builder, how: Literal["load", "store"], number: int, place: Value, row: int) -> None:
    """Load or store a tile register; rows in memory are ``row`` bytes apart."""
    name = {"load": "tileloadd64", "store": "tilestored64"}[how]
    b.invoke(f"llvm.x86.{name}", f"i8 {number}", place, f"i64 {row}")
