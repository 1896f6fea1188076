"""Vectors that cross short rows: the same results, and no element beyond what a nest reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit.frontend.proof_bounds import prove_bounds
from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.emit.generate import stages_of
from pirkit.lowering.codegen.emit.memory_access import windows_of
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.emit.short_rows import row_group
from pirkit.lowering.codegen.interpret import Evaluation
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host
from tests.codegen.guarded import Guarded, survives
from tests.codegen.nests import check, dense

Array = np.ndarray[Any, Any]


def elementwise(outer: tuple[int, ...], *operands: Operand, dtype: DType = dt.float32) -> Kernel:
    """The sum of operands."""
    result = Operand(dtype, dense(outer, dtype.itemsize), (), prod(outer) * dtype.itemsize)
    lines: list[Statement] = [Load(f"x{k}", k) for k in range(len(operands))]
    total = "x0"
    for k in range(1, len(operands)):
        lines.append(Compute(f"s{k}", "add", (total, f"x{k}"), dtype))
        total = f"s{k}"
    lines.append(Store(len(operands), total))
    return Kernel(outer, (), (*operands, result), (LoopPhase(tuple(lines)),))


def rows(count: int, columns: int, dtype: DType = dt.float32) -> Kernel:
    """Rows, plus a number for each column, plus one for each row, plus the rows in reverse."""
    size = dtype.itemsize
    whole = count * columns * size
    return elementwise(
        (count, columns),
        Operand(dtype, (columns * size, size), (), whole),
        Operand(dtype, (0, size), (), columns * size),
        Operand(dtype, (size, 0), (), count * size),
        Operand(dtype, (columns * size, -size), (), whole, (columns - 1) * size),
        dtype=dtype,
    )


def transposed(count: int, edge: int) -> Kernel:
    """Small matrices plus their transposes."""
    size = 4 * edge * edge
    straight = Operand(dt.float32, (size, 4 * edge, 4), (), count * size)
    across = Operand(dt.float32, (size, 4, 4 * edge), (), count * size)
    return elementwise((count, edge, edge), straight, across)


def channels_last(count: int, channels: int) -> Kernel:
    return elementwise(
        (count, channels), Operand(dt.float32, (4, 4 * count), (), 4 * count * channels)
    )


def rolled(count: int, columns: int) -> Kernel:
    """Rows rolled by one, by index arithmetic, and only some columns of another operand."""
    size = 4 * count * columns
    lines = (
        Index("i", 1, dt.int32), Constant("one", dt.int32, 1), Constant("n", dt.int32, columns),
        Compute("next", "add", ("i", "one"), dt.int32),
        Compute("turns", "quotient", ("next", "n"), dt.int32),
        Compute("back", "multiply", ("turns", "n"), dt.int32),
        Compute("at", "subtract", ("next", "back"), dt.int32),
        Load("x", 0, at="at", limit=columns - 1),
        Compute("first", "less_than", ("i", "one"), dt.bool_),
        Load("y", 1, predicate="first"),
        Compute("z", "where", ("first", "y", "x"), dt.float32),
        Store(2, "z"),
    )  # fmt: skip
    x = Operand(dt.float32, (4 * columns, 0), (), size)
    y = Operand(dt.float32, (4, 4), (), 4 * count)
    out = Operand(dt.float32, (4 * columns, 4), (), size)
    return Kernel((count, columns), (), (x, y, out), (LoopPhase(lines),))


def beyond(count: int, columns: int) -> Kernel:
    """Each element and the one two before it, where indices outside count as the limit."""
    size = 4 * count * columns
    lines = (
        Load("x", 0), Index("i", 1, dt.int32), Constant("two", dt.int32, 2),
        Compute("at", "subtract", ("i", "two"), dt.int32),
        Load("y", 1, at="at", limit=columns - 1),
        Compute("z", "add", ("x", "y"), dt.float32),
        Store(2, "z"),
    )  # fmt: skip
    whole = Operand(dt.float32, (4 * columns, 4), (), size)
    row = Operand(dt.float32, (4 * columns, 0), (), size)
    return Kernel((count, columns), (), (whole, row, whole), (LoopPhase(lines),))


def cases() -> Iterator[Any]:
    for count in (16, 33, 100):
        for columns in (2, 3, 5, 7, 10, 20):
            yield pytest.param(rows(count, columns), id=f"{count} rows of {columns}")
            yield pytest.param(rolled(count, columns), id=f"{count} rolled rows of {columns}")
        for edge in (2, 3, 4):
            yield pytest.param(transposed(count, edge), id=f"{count} transposes of {edge}")
        yield pytest.param(channels_last(count, 3), id=f"{count} pixels")
        yield pytest.param(beyond(count, 5), id=f"{count} rows beyond their ends")
    for dtype in (dt.float64, dt.float16, dt.bfloat16, dt.int8, dt.int64):
        yield pytest.param(rows(100, 3, dtype), id=f"rows of 3 {dtype.name}")


@pytest.mark.parametrize("kernel", list(cases()))
def test_same_results(kernel: Kernel) -> None:
    """Native code and the loops of each stage beside the interpreter of nests."""
    check(kernel, function=native_sequence(kernel))
    draw = np.random.default_rng(1)
    given = [
        draw.integers(-9, 9, o.size // o.dtype.itemsize).astype(o.dtype.np) for o in kernel.operands
    ]
    want = [x.copy() for x in given]
    Evaluation(kernel, want).run()
    for stage in stages_of(kernel, host()):
        found = [x.copy() for x in given]
        run_loops(stage.nest, found)
        for x, y in zip(found, want, strict=True):
            np.testing.assert_array_equal(x, y, stage.rewrite)


@pytest.mark.parametrize("bits", ["128", "256", "512"])
@pytest.mark.parametrize("columns", [3, 5])
def test_short_rows_share_vectors(bits: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", bits)
    host.cache_clear()
    try:
        kernel = rows(100, columns)
        plan = schedule(kernel, host())
        assert plan.group is not None
        assert plan.group.rows * columns % plan.lanes == 0
        assert plan.block % plan.group.rows == 0
        z3 = pytest.importorskip("z3")
        found = prove_bounds(z3, stages_of(kernel, host())[-1].nest)
        assert found.outside is None
        assert found.proved
        assert not found.open
    finally:
        monkeypatch.undo()
        host.cache_clear()


def test_long_rows_have_vectors_of_their_own() -> None:
    assert row_group(rows(100, 3), 16) is not None
    assert row_group(rows(100, 12), 16) is None  # three quarters of a vector
    assert row_group(rows(100, 16), 16) is None
    assert row_group(rows(100, 100), 16) is None
    assert row_group(rows(9, 3), 16) is None  # fewer rows than whole vectors need
    far = Operand(dt.float32, (4096, 4), (), 4096 * 100)
    assert row_group(elementwise((100, 3), far), 16) is None  # a vector of 6 rows far apart


def test_windows_end_where_the_elements_do() -> None:
    assert windows_of([0, 4, 8], 4, 16) == [(0, 3)]
    assert windows_of([0, None, 60, 64], 4, 16) == [(0, 16), (4, 16)]
    assert windows_of([8, 0, 800], 4, 16) == [(0, 16), (740, 16)]
    assert windows_of([-4, -8], 4, 16) == [(-8, 2)]


@pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")
def test_nothing_is_read_beyond_the_operands() -> None:
    kernels = [rows(50, 3), rows(33, 10), transposed(20, 4), channels_last(37, 3), rolled(40, 5)]

    def run() -> None:
        guarded = Guarded()
        for kernel in kernels:
            for at_end in (False, True):
                given = [
                    np.arange(o.size // o.dtype.itemsize).astype(o.dtype.np)
                    for o in kernel.operands
                ]
                want = [x.copy() for x in given]
                Evaluation(kernel, want).run()
                held = [guarded(x, at_end) for x in given]
                native_sequence(kernel).bind(held)()
                if not all(np.array_equal(x, y) for x, y in zip(held, want, strict=True)):
                    os._exit(1)

    assert survives(run)


def test_functions_of_rows() -> None:
    """As users write them: points, images, repeated pixels."""
    draw = np.random.default_rng(2)
    p, q = (draw.standard_normal((333, 3)).astype(np.float32) for _ in range(2))
    image = draw.standard_normal((6, 50)).astype(np.float32)
    functions: list[tuple[Any, tuple[Array, ...]]] = [
        (np.cross, (p, q)),
        (lambda p: np.roll(p, 1, 1) * p[:, ::-1], (p,)),
        (lambda p, q: np.stack([p[:, 0], q[:, 1] * 2, p[:, 2]], 1), (p, q)),
        (lambda p, q: np.concatenate([p, q], 1) * 2, (p, q)),
        (lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1) + 1, (image,)),
        (lambda x: np.pad(x, ((0, 0), (1, 1))), (p,)),
    ]
    for function, args in functions:
        found = np.asarray(pirkit.jit(function)(*args))
        np.testing.assert_allclose(found, function(*args), rtol=1e-6, atol=1e-6)


def exponentials(count: int, columns: int) -> Kernel:
    """The sum of the exponentials of each row."""
    x = Operand(dt.float32, (4 * columns,), (4,), 4 * count * columns)
    y = Operand(dt.float32, (4,), (0,), 4 * count)
    body = (Load("x", 0), Compute("e", "exp", ("x",), dt.float32), Reduce("s", "sum", "e"))
    return Kernel((count,), (columns,), (x, y), (LoopPhase(body, (Store(1, "s"),)),))


def test_elementary_functions_of_short_rows_have_lanes_across_them() -> None:
    assert schedule(exponentials(200, 10), host()).strategy == "columns"
    assert schedule(exponentials(200, 100), host()).strategy == "rows"
    for columns in (3, 10, 23):
        kernel = exponentials(77, columns)
        check(kernel, function=native_sequence(kernel))
