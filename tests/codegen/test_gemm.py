"""Products in blocks: every layout and size as numpy in float64, the same bits however shared."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.gemm import gemm_draft, native_gemm, packs_a
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, MatrixBatch
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

SIZES = [
    (1, 1, 1),
    (8, 32, 16),
    (9, 33, 17),
    (3, 5, 7),
    (17, 100, 400),
    (257, 31, 900),
    (65, 290, 48),
    (512, 40, 1024),
    (300, 70, 1600),
    (1, 70, 1030),
    (6, 70, 300),
    (20, 300, 1000),
    (45, 5, 300),
]


def product_like(
    rows: int, columns: int, depth: int, transposed: tuple[bool, bool], batch: tuple[int, ...] = (),
    dtype: DType = dt.float32,
) -> Gemm:  # fmt: skip
    size = dtype.itemsize

    def matrices(shape: tuple[int, int], turn: bool) -> MatrixBatch:
        lead = tuple([prod(batch[k + 1 :]) * prod(shape) * size for k in range(len(batch))])
        strides = (size, shape[0] * size) if turn else (shape[1] * size, size)
        return MatrixBatch(lead, strides, prod(batch) * prod(shape) * size)

    a, b = matrices((rows, depth), transposed[0]), matrices((depth, columns), transposed[1])
    return Gemm(batch, rows, columns, depth, dtype, a, b, matrices((rows, columns), False))


def operands(p: Gemm, transposed: tuple[bool, bool]) -> tuple[Array, Array, Array]:
    """a and b as they lie in memory, and c in float64."""
    random = np.random.default_rng(p.rows + p.depth)
    shapes = [(p.rows, p.depth), (p.depth, p.columns)]
    given = [
        random.standard_normal((*p.batch, *(s[::-1] if t else s))).astype(p.dtype.np)
        for s, t in zip(shapes, transposed, strict=True)
    ]
    a, b = (
        (x.swapaxes(-1, -2) if t else x).astype(np.float64)
        for x, t in zip(given, transposed, strict=True)
    )
    return given[0], given[1], a @ b


def run(function: NativeFunction, p: Gemm, a: Array, b: Array) -> Array:
    made = np.full((*p.batch, p.rows, p.columns), np.nan, p.dtype.np)
    function.bind([a, b, made])()
    return made


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_as_numpy(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    for batch, dtype in ((), dt.float32), ((2, 3), dt.float64):
        p = product_like(*size, transposed, batch, dtype)
        a, b, wanted = operands(p, transposed)
        error = abs(run(native_gemm(p), p, a, b) - wanted).max()
        assert error <= 2 * np.finfo(dtype.np).eps * (p.depth + 8)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_the_loops_compute_the_matmul(
    size: tuple[int, int, int], transposed: tuple[bool, bool]
) -> None:
    """Also with a small cache, where later chunks of rows find the panels packed."""
    p = product_like(*size, transposed, (2,))
    a, b, wanted = operands(p, transposed)
    for cache, threads in ((1 << 14, 1), (1 << 20, 4)):
        target = replace(host(), l2_bytes=cache)
        plain, blocked = gemm_draft(p, target, threads).stages
        stages = [blocked, plain] if p.multiplications < 2000 else [blocked]
        for stage in stages:
            made = np.full((*p.batch, p.rows, p.columns), np.nan, p.dtype.np)
            run_loops(stage.nest, [a, b, made])
            error = abs(made - wanted).max()
            assert error <= 2 * np.finfo(p.dtype.np).eps * (p.depth + 8), stage.rewrite


@pytest.mark.parametrize("size", [(17, 33, 9), (65, 290, 48), (300, 70, 1600)])
@pytest.mark.parametrize("transposed", [(False, False), (False, True)])
def test_summands(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    """One for each row of a matrix, one for each column of all, and one for each element."""
    p = product_like(*size, transposed, (2,))
    (rows, columns, _), each = size, p.dtype.itemsize
    places = [
        MatrixBatch((rows * each,), (each, 0), 2 * rows * each),
        MatrixBatch((0,), (0, each), columns * each),
        p.c,
    ]
    p = replace(p, summands=tuple(places))
    a, b, product = operands(p, transposed)
    draw = np.random.default_rng(1).standard_normal
    added = [draw(s).astype(np.float32) for s in ((2, rows, 1), (columns,), (2, rows, columns))]
    wanted, bound = product + sum(added), 2 * np.finfo(np.float32).eps * (p.depth + 8)
    made = np.full(wanted.shape, np.nan, np.float32)
    native_gemm(p).bind([a, b, made, *added])()
    assert abs(made - wanted).max() <= bound
    target = replace(host(), l2_bytes=1 << 14)
    for stage in gemm_draft(p, target, 4).stages[0 if p.multiplications < 10000 else 1 :]:
        made = np.full(wanted.shape, np.nan, np.float32)
        run_loops(stage.nest, [a, b, made, *added])
        assert abs(made - wanted).max() <= bound, stage.rewrite


def test_an_access_outside_of_a_matrix_is_found() -> None:
    p = product_like(40, 40, 40, (False, False))
    a, b, _ = operands(p, (False, False))
    nest = gemm_draft(p, host(), 1).stages[-1].nest
    with pytest.raises(InternalError, match="a routine leaves a buffer"):
        run_loops(nest, [a, b[:-1].copy(), np.zeros((40, 40), np.float32)])


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_narrow_vectors(bits: int, transposed: tuple[bool, bool]) -> None:
    if bits >= host().vector_bits:
        pytest.skip("the CPU's own width is tested above")
    p = product_like(23, 45, 500, transposed)
    a, b, wanted = operands(p, transposed)
    target = replace(host(), vector_bits=bits, l2_bytes=1 << 14)  # a transposed A is packed
    function = NativeFunction(compiled(gemm_draft(p, target, 2), target))
    np.testing.assert_allclose(run(function, p, a, b), wanted, atol=2e-4)


def test_blocks_are_independent() -> None:
    """Threads take blocks as they come: no order of them changes a bit, nor does any part."""
    p = product_like(130, 300, 800, (False, False))
    a, b, _ = operands(p, (False, False))
    function = NativeFunction(compiled(gemm_draft(p, host(), 1), host()))
    finer = NativeFunction(compiled(gemm_draft(p, host(), 16), host()))
    assert finer.code.blocks > function.code.blocks
    whole = run(function, p, a, b)
    np.testing.assert_array_equal(run(finer, p, a, b), whole)
    few = product_like(40, 300, 800, (False, False))
    np.testing.assert_array_equal(run(native_gemm(few), few, a[:40], b), whole[:40])


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_what_a_small_cache_holds_changes_no_bit(dtype: DType) -> None:
    """Few rows at a time, and many: panels are packed once and met by all of them. A transposed A
    is packed too, unless the cache holds it.
    """
    for transposed in ((False, False), (True, True)):
        p = product_like(130, 75, 900, transposed, dtype=dtype)
        a, b, wanted = operands(p, transposed)
        made = []
        for cache in (1 << 14, 1 << 17, 1 << 21):
            target = replace(host(), l2_bytes=cache)
            function = NativeFunction(compiled(gemm_draft(p, target, 1), target))
            assert function.code.blocks == 1
            shape = tile_shape_for(dtype, target)
            assert packs_a(p, shape, target) == (transposed[0] and cache < 1 << 21)
            made.append(run(function, p, a, b))
        np.testing.assert_allclose(made[0], wanted, atol=4e-4)
        np.testing.assert_array_equal(made[1], made[0])
        np.testing.assert_array_equal(made[2], made[0])


def test_what_is_no_number_stays_in_its_row_and_column() -> None:
    p = product_like(20, 70, 30, (False, True))
    a, b, _ = operands(p, (False, True))
    a[3, 4], b[60, 2] = np.nan, np.inf
    made = run(native_gemm(p), p, a, b)
    assert np.isnan(made[3]).all()
    assert np.isfinite(np.delete(np.delete(made, 3, 0), 60, 1)).all()
    assert not np.isfinite(made[:, 60]).any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", ["a", "b"])
def test_rows_of_an_operand_may_be_one_row(size: tuple[int, int, int], side: str) -> None:
    rows, columns, depth = size
    p = product_like(rows, columns, depth, (False, False))
    one = MatrixBatch((), (0, 4), 4 * (depth if side == "a" else columns))
    a, b, _ = operands(p, (False, False))
    a, b = (a[:1], b) if side == "a" else (a, b[:1])
    spread = np.broadcast_to(a, (rows, depth)), np.broadcast_to(b, (depth, columns))
    p = replace(p, a=one) if side == "a" else replace(p, b=one)
    found = run(native_gemm(p), p, np.ascontiguousarray(a), np.ascontiguousarray(b))
    wanted = spread[0].astype(np.float64) @ spread[1]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_one_matrix_for_all_of_a_batch() -> None:
    p = product_like(16, 40, 64, (False, False), (3,))
    p = replace(p, b=replace(p.b, batch=(0,), size=p.b.size // 3))
    random = np.random.default_rng(1)
    a = random.standard_normal((3, 16, 64), dtype=np.float32)
    b = random.standard_normal((64, 40), dtype=np.float32)
    np.testing.assert_allclose(run(native_gemm(p), p, a, b), a @ b, atol=1e-4)


def test_a_result_that_is_made_at_once_is_not_added_to() -> None:
    shallow, deep = (
        gemm_draft(product_like(64, 64, depth, (False, False)), host(), 1).text
        for depth in (64, 4000)
    )
    assert "fadd" not in shallow
    assert "fadd" in deep
