"""The microkernel: any description of operands gives the sums of outer products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, Builder, Type, Value
from pirkit.lowering.codegen.matmul.microkernel import Computed, Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, read_vector
from pirkit.lowering.codegen.matmul.register_tile import (
    cheapest_tile,
    fits_registers,
    padding,
    register_count,
    rows_that_fit,
)
from pirkit.lowering.codegen.matmul.tile_update import Access, TileUpdate
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]
SIZE = 4
LANES = host().vector_bits // (8 * SIZE)
VECTOR = Type("float", LANES)


def run(emit: Callable[[Builder, Routines, list[Value]], None], *operands: Array) -> str:
    """Compile and call a function of some operands; its module."""
    routines = Routines()
    b = routines.builder()
    emit(b, routines, [argument(b, k) for k in range(len(operands))])
    sizes = tuple([a.nbytes for a in operands])
    draft = routines.draft(b, 0, sizes, 1000, about(run, "outer products"))
    NativeFunction(compiled(draft, host())).bind(list(operands))()
    return draft.text


def whole(seed: int, *shape: int) -> Array:
    """Small integers, whose sums of products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def strides_of(a: Array, axes: int) -> list[int]:
    return list(a.strides[:axes])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_description_gives_the_outer_products(data: st.DataObject) -> None:
    """Nested loops, strides in registers or not, masked vectors, an unpacked right operand."""
    rows, vectors = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    extents = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    columns = vectors * LANES - data.draw(st.integers(0, LANES - 1))
    in_registers, packs, known = (data.draw(st.booleans()) for _ in range(3))
    left = whole(1, *extents, rows, data.draw(st.integers(1, 3)))
    right = whole(2, *extents, columns)
    panel = np.full((*extents, vectors * LANES), np.nan, np.float32)
    out = np.full((rows, columns), 7, np.float32)
    table = np.array([*left.strides, *right.strides, *extents], np.int64)

    def emit(b: Builder, _: Routines, pointers: list[Value]) -> None:
        pa, pb, pc, packed_to, words = pointers
        mask = tail_mask(b, LANES, columns % LANES) if columns % LANES else None
        masks = [*[None] * (vectors - 1), mask]
        loaded = [
            b.emit(I64, f"load i64, {b.at(words, 8 * k)}, align 8") for k in range(len(table))
        ]
        depth = len(extents)
        a_strides, b_strides = strides_of(left, depth), strides_of(right, depth)
        if in_registers:
            a_strides, b_strides = loaded[:depth], loaded[depth + 2 :][:depth]
        offsets = [v * LANES * SIZE for v in range(vectors)]
        lines = [(pa, r * left.strides[depth]) for r in range(rows)]
        panel_part = Elements(VECTOR, [(packed_to, at) for at in offsets], strides_of(panel, depth))
        source = Elements(
            VECTOR, [(pb, at) for at in offsets], b_strides, masks, panel_part if packs else None
        )
        bounds: Sequence[Value | int] = extents if known else loaded[-depth:]
        zeros = [b.const(VECTOR, 0.0)] * (rows * vectors)
        sums = microkernel(b, Elements(Type("float"), lines, a_strides), source, bounds, zeros)
        places = [b.at(pc, r * columns * SIZE + at) for r in range(rows) for at in offsets]
        OutputTile(VECTOR, places, masks).store(b, sums)

    run(emit, left, right, out, panel, table)
    terms = prod(extents)
    wanted = left[..., 0].reshape(terms, rows).T @ right.reshape(terms, columns)
    np.testing.assert_array_equal(out, wanted)
    if packs:
        np.testing.assert_array_equal(panel[..., :columns], right)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 11), st.integers(1, 5))
def test_chains_of_accumulators_are_added(rows: int, depth: int, chains: int) -> None:
    left, right, out = whole(1, depth, rows), whole(2, depth, LANES), whole(3, rows, LANES)
    start = out.copy()

    def emit(b: Builder, _: Routines, pointers: list[Value]) -> None:
        pa, pb, pc = pointers
        tile = OutputTile(VECTOR, [b.at(pc, r * LANES * SIZE) for r in range(rows)])
        factors = Elements(Type("float"), [(pa, r * SIZE) for r in range(rows)], [rows * SIZE])
        vectors = Computed(
            lambda k: [read_vector(b, VECTOR, b.at(pb, b.times(k[0], LANES * SIZE)))]
        )
        tile.store(b, microkernel(b, factors, vectors, [depth], tile.load(b), chains))

    run(emit, left, right, out)
    np.testing.assert_array_equal(out, start + left.T @ right)


def test_ones_on_the_left_are_sums() -> None:
    right, out = whole(2, 5, LANES), whole(3, 1, LANES)

    def emit(b: Builder, _: Routines, pointers: list[Value]) -> None:
        vectors = Elements(VECTOR, [(pointers[0], 0)], [LANES * SIZE])
        ones = Computed(lambda _: [b.const(VECTOR, 1.0)])
        tile = OutputTile(VECTOR, [pointers[1]])
        tile.store(b, microkernel(b, ones, vectors, [5], [b.const(VECTOR, 0.0)]))
        assert not any("fmuladd" in line for line in b.lines)

    run(emit, right, out)
    np.testing.assert_array_equal(out[0], right.sum(0))


def test_equal_updates_share_a_function() -> None:
    """A convolution calls its tile in several loops, and for panels at any address."""
    rows, vectors, depth = 3, 2, 4
    left, right = whole(1, 2, depth, rows), whole(2, 2, depth, vectors * LANES)
    out = whole(3, 2, rows, vectors * LANES)
    start = out.copy()
    update = TileUpdate(
        VECTOR,
        Access(tuple([r * SIZE for r in range(rows)]), (rows * SIZE,)),
        Access(tuple([v * LANES * SIZE for v in range(vectors)]), (vectors * LANES * SIZE,)),
        tuple([k * LANES * SIZE for k in range(rows * vectors)]),
    )

    def emit(b: Builder, routines: Routines, pointers: list[Value]) -> None:
        for k in range(2):
            sizes = (a[0].nbytes for a in (left, right, out))
            bases = [b.at(p, k * size) for p, size in zip(pointers, sizes, strict=True)]
            update.call(b, routines, bases, [Value(str(depth), I64)])

    assert run(emit, left, right, out).count("define private") == 1
    np.testing.assert_array_equal(out, start + np.swapaxes(left, 1, 2) @ right)


def test_tiles_fit_the_registers() -> None:
    limit = register_count(host()) - (host().x86 and not host().has("fma"))
    for rows in range(1, 20):
        for vectors in range(1, 10):
            fits = fits_registers(rows, vectors, host())
            assert fits == (rows * vectors + vectors + 1 <= limit)
    assert fits_registers(rows_that_fit(4, 9, host()), 4, host())
    assert rows_that_fit(100, 9, host()) == 1
    tiles = [(r, v) for r in range(1, 15) for v in range(1, 9)]
    rows, vectors = cheapest_tile(tiles, lambda rows, _: padding(7, rows), host())
    assert rows in (1, 7)
    assert fits_registers(rows, vectors, host())
