"""The innermost loop of convolutions: a register tile of accumulators over the terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pirkit.lowering.codegen.ir.llvm_text import Builder, Type, Value
from pirkit.lowering.codegen.math.primitives import element
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import Target

MAX_ROWS: Final = 14
MAX_VECTORS: Final = 8


@dataclass(frozen=True, slots=True)
class TileOperand:
    """An operand of a tile: an address, the byte offsets of its elements, and its strides in bytes.

    There is one stride for each of the nested loops over the terms of the sums.
    """

    address: Value
    places: Sequence[int]
    steps: Sequence[int]


def fits_registers(rows: int, vectors: int, target: Target) -> bool:
    """Whether accumulators, the vectors of one term and a broadcast fit the registers."""
    # AVX-512 and AArch64 have 32 vector registers, AVX2 has 16.
    registers = 32 if target.vector_bits == 512 or not target.x86 else 16
    return rows * vectors + vectors + 1 < registers


def estimated_cost(rows: int, vectors: int) -> float:
    """Relative time per multiplication: loads, or FMA latency if accumulators are few."""
    reads = (rows + vectors) / (rows * vectors)
    # Fewer than about eight accumulators do not hide the latency of FMA.
    return max(8 / (rows * vectors), 0.9 + 0.2 * reads)


def multiply_accumulate(
    b: Builder,
    dtype: DType,
    lanes: int,
    factors: TileOperand,
    panel: TileOperand,
    sums: Sequence[Value],
    counts: Sequence[Value],
) -> None:
    """Accumulate outer products into a tile in memory, whose vectors are at ``sums``, row by row.

    ``factors`` has one scalar per row, ``panel`` has vectors; ``counts`` are the extents of the
    nested loops over the terms. Terms are added in order by FMA, rounded once each.
    """
    scalar = Type(element(dtype))
    vector = Type(scalar.elem, lanes)
    loaded_sums = [b.emit(vector, f"load {vector}, {p}, align {dtype.itemsize}") for p in sums]

    def terms(left: Value, right: Value, axis: int, carried: Sequence[Value]) -> Sequence[Value]:
        if axis == len(counts):
            return products(left, right, carried)

        def step(k: Value, inner: list[Value]) -> Sequence[Value]:
            # Both operands advance together, with strides of their own in each loop.
            next_factor = b.at(left, b.times(k, factors.steps[axis]))
            return terms(next_factor, b.at(right, b.times(k, panel.steps[axis])), axis + 1, inner)

        return b.loop(0, counts[axis], 1, carried, step)

    def products(left: Value, right: Value, carried: Sequence[Value]) -> Sequence[Value]:
        result: list[Value] = []
        vectors = [
            b.emit(vector, f"load {vector}, {b.at(right, at)}, align {dtype.itemsize}")
            for at in panel.places
        ]
        for row, at in enumerate(factors.places):
            one = b.emit(scalar, f"load {scalar}, {b.at(left, at)}, align {dtype.itemsize}")
            broadcast = b.splat(one, lanes)
            for k, other in enumerate(vectors):
                result.append(b.muladd(broadcast, other, carried[row * len(vectors) + k]))
        return result

    found = terms(factors.address, panel.address, 0, loaded_sums)
    for value, p in zip(found, sums, strict=True):
        b.emit_void(f"store {value}, {p}, align {dtype.itemsize}")
