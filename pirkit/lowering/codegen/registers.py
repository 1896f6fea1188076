"""The innermost loop of products: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pirkit.lowering.codegen.ir import Builder, Type, Value
from pirkit.lowering.codegen.primitives import element
from pirkit.runtime.dtype import DType


@dataclass(frozen=True, slots=True)
class Side:
    """What a tile reads: an address, the bytes between its elements and between steps."""

    address: Value
    apart: int
    step: int


def accumulate(
    b: Builder, dtype: DType, lanes: int, shape: tuple[int, int], factors: Side, panel: Side,
    sums: Side, count: Value,
) -> None:  # fmt: skip
    """Add ``count`` products to a tile of sums in memory, ``shape`` rows by vectors.

    A step of ``factors`` has an element for each row, one of ``panel`` the vectors, which lie side
    by side. Rows of ``sums`` are ``sums.apart`` bytes apart. Products are added in order, each
    rounded once together with its sum.
    """
    rows, vectors = shape
    scalar = Type(element(dtype))
    vector = Type(scalar.elem, lanes)
    wide = lanes * dtype.itemsize
    places = [
        b.at(sums.address, row * sums.apart + k * wide)
        for row in range(rows)
        for k in range(vectors)
    ]
    held = [b.emit(vector, f"load {vector}, {p}, align {wide}") for p in places]

    def step(k: Value, carried: list[Value]) -> Sequence[Value]:
        result = list(carried)
        at = b.at(panel.address, b.times(k, panel.step))
        right = [
            b.emit(vector, f"load {vector}, {b.at(at, n * wide)}, align {dtype.itemsize}")
            for n in range(vectors)
        ]
        left = b.at(factors.address, b.times(k, factors.step))
        for row in range(rows):
            where = b.at(left, row * factors.apart)
            one = b.emit(scalar, f"load {scalar}, {where}, align {dtype.itemsize}")
            spread = b.splat(one, lanes)
            for n in range(vectors):
                slot = row * vectors + n
                result[slot] = b.fma(spread, right[n], result[slot])
        return result

    for value, p in zip(b.loop(0, count, 1, held, step), places, strict=True):
        b.do(f"store {value}, {p}, align {wide}")
