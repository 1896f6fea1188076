"""The microkernel: the innermost loop of matmuls, fused attention and convolutions.

A register tile of rows by vectors takes one outer product for each term of its sums (Goto and van
de Geijn, 2008; BLIS):

    for each term k, in nested loops:    acc[r][v] += left[k][r] * right[k][v]

The caller describes how the operands are read (`Elements`, `Computed`), the extents of the loops,
the initial accumulators, and what happens to the sums (`OutputTile`). The loops around the tile,
packing and threads belong to the families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value, constant_value
from pirkit.lowering.codegen.matmul.output_tile import read_vector, write_vector

Stride = int | Value
"""Bytes: a constant of the code, or a register."""
Scaled = Callable[[Stride], Value]
"""Gives a stride times the index of a loop."""

_MAX_UNROLLED = 4
"""Terms of a last loop up to which it is unrolled."""
_SCALES = (1, 2, 4, 8)
"""Factors of an index in the addresses of x86."""


class Elements(Struct, frozen=True):
    """An operand in memory: the vectors of a term, or its scalars, which are broadcast.

    Element i lies at ``base + offset`` of ``places[i]``; an iteration of a loop over the terms
    moves all bases by the stride of that loop. This describes packed panels, strided rows and
    columns of a matrix, and the shifted rows that the taps of a convolution read. ``masks`` are the
    lanes that exist, None for all of them. With ``packed``, what is read is also stored there: the
    tile that meets an unpacked part of B first makes the panel for the others. ``widen`` converts
    what is read.
    """

    type: Type
    places: Sequence[tuple[Value, Stride]]
    strides: Sequence[Stride]
    masks: Sequence[Value | None] = ()
    packed: Elements | None = None
    widen: Callable[[Builder, Value], Value] | None = None

    def strides_of(self, axis: int) -> list[Stride]:
        """The strides of the operand, and of the panel that it is packed to, in a loop."""
        return [self.strides[axis], *(self.packed.strides_of(axis) if self.packed else ())]

    def moved(self, b: Builder, axis: int, index: Value, scaled: Scaled) -> Elements:
        """The operand at an iteration of a loop."""
        packed = self.packed and self.packed.moved(b, axis, index, scaled)
        distance = scaled(self.strides[axis])
        places = [(b.at(base, distance), offset) for base, offset in self.places]
        return replace(self, places=places, packed=packed)

    def load(self, b: Builder) -> Iterator[Value]:
        """The elements of the present term, in order."""
        for k, (base, offset) in enumerate(self.places):
            mask = self.masks[k] if self.masks else None
            value = read_vector(b, self.type, b.at(base, offset), mask)
            if self.packed is not None:
                # The first tile that meets an element packs it for those that follow.
                write_vector(b, value, b.at(*self.packed.places[k]), None)
            yield value if self.widen is None else self.widen(b, value)


class Computed(Struct, frozen=True):
    """An operand that its family reads: ``read`` emits the elements for indices of the loops."""

    read: Callable[[Sequence[Value]], Iterable[Value]]
    indices: tuple[Value, ...] = ()

    def strides_of(self, _: int) -> list[Stride]:
        return []

    def moved(self, _b: Builder, _axis: int, index: Value, _s: Scaled) -> Computed:
        return replace(self, indices=(*self.indices, index))

    def load(self, _: Builder) -> Iterable[Value]:
        return self.read(self.indices)


class Operand(Protocol):
    """One side of the products: what `Elements` and `Computed` have."""

    def strides_of(self, axis: int, /) -> list[Stride]: ...

    def moved(self, b: Builder, axis: int, index: Value, scaled: Scaled, /) -> Operand: ...

    def load(self, b: Builder, /) -> Iterable[Value]: ...


Combine = Callable[[Builder, Value, Value, Value], Value]


def microkernel(
    b: Builder, left: Operand, right: Operand, extents: Sequence[Value | int],
    start: Sequence[Value], chains: int = 1, combine: Combine | None = None,
) -> list[Value]:  # fmt: skip
    """The accumulators of a tile, row by row, after all terms; ``start`` are the initial ones.

    ``extents`` are those of the nested loops over the terms, which are added in order by FMA,
    rounded once each. With ``chains``, the last loop (of constant extent) is unrolled
    and term k goes to set ``k % chains`` of the accumulators. ``combine(b, left,
    right, sum)`` is what a term does to an accumulator, if it is no FMA.
    """

    def terms(axis: int, left: Operand, right: Operand, sums: Sequence[Value]) -> list[Value]:
        if axis == len(extents):
            return _outer_product(b, left, right, sums, combine)
        extent, is_last = extents[axis], axis == len(extents) - 1
        interleaved = is_last and chains > 1
        # For example the taps of a row of a filter: counters of a short loop cost a few percent.
        unrolled = is_last and not interleaved and extent in range(_MAX_UNROLLED + 1)
        # Offsets are carried by the loop, unless an address can scale the index by the stride. If
        # LLVM derived them from the index, in place, it would load all broadcasts of an iteration
        # before the vectors, and spill them.
        strides = [
            s
            for s in dict.fromkeys([*left.strides_of(axis), *right.strides_of(axis)])
            if s not in _SCALES and not interleaved and not unrolled
        ]

        def step(index: Value, carried: Sequence[Value]) -> list[Value]:
            offsets = dict(zip(strides, carried, strict=False))

            def scaled(stride: Stride) -> Value:
                if stride in offsets:
                    return offsets[stride]
                if isinstance(stride, int):
                    return b.times(index, stride)
                return b.emit(I64, f"mul {stride}, {index.text}")

            x, y = (o.moved(b, axis, index, scaled) for o in (left, right))
            sums = terms(axis + 1, x, y, carried[len(strides) :])
            return [*(b.opaque(b.plus(offset, s)) for s, offset in offsets.items()), *sums]

        if interleaved:
            assert isinstance(extent, int)
            return _in_chains(b, step, extent, sums, chains)
        if unrolled:
            assert isinstance(extent, int)
            return reduce(lambda total, k: step(Value(str(k), I64), total), range(extent), [*sums])
        zeros = [Value("0", I64)] * len(strides)
        return b.loop(0, extent, 1, [*zeros, *sums], step)[len(strides) :]

    return terms(0, left, right, start)


def _outer_product(
    b: Builder, left: Operand, right: Operand, sums: Sequence[Value], combine: Combine | None
) -> list[Value]:  # fmt: skip
    """One term of all sums: the vectors stay in registers, an element of ``left`` for its row."""
    vectors = list(right.load(b))
    total: list[Value] = []
    for element in left.load(b):
        # Vectors on both sides are terms of dot products.
        factor = element if element.type.lanes > 1 else b.splat(element, vectors[0].type.lanes)
        line = zip(vectors, sums[len(total) :], strict=False)
        # A column of ones makes plain sums; LLVM does not simplify an FMA with it.
        if combine is not None:
            total += [combine(b, factor, v, s) for v, s in line]
        elif constant_value(factor) == 1:
            total += [b.add(s, v) for v, s in line]
        else:
            total += [b.muladd(factor, v, s) for v, s in line]
    return total


def _in_chains(
    b: Builder, step: Callable[[Value, Sequence[Value]], list[Value]], extent: int,
    start: Sequence[Value], chains: int,
) -> list[Value]:  # fmt: skip
    """A loop over terms with ``chains`` sets of accumulators, which are added at the end.

    A tile with fewer accumulators than FMAs in flight would wait for the latency of each.
    """
    size = len(start)

    def steps(index: Value, sums: list[Value]) -> list[Value]:
        sets = [step(b.plus(index, k), sums[k * size : (k + 1) * size]) for k in range(chains)]
        return [total for part in sets for total in part]

    whole = extent - extent % chains
    zeros = [b.like(s, 0.0) for s in start] * (chains - 1)
    sums = b.loop(0, whole, chains, [*start, *zeros], steps)
    for k in range(whole, extent):
        sums[:size] = step(Value(str(k), I64), sums[:size])
    add = b.add if start[0].type.is_float else partial(b.op, "add")
    return [reduce(add, sums[k::size]) for k in range(size)]
