"""Native code of loop nests against NumPy, with poisoned outputs and guarded buffers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.emit.scratch_elision import elided_scratch
from pirkit.lowering.codegen.ir.loopnest import (
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host
from tests.codegen import nests
from tests.codegen.nests import check, compute, layer_norm, operand, softmax

F32 = dt.float32
EXTENTS = [(1, 1), (3, 16), (5, 17), (2, 1000), (70, 33), (16, 128), (1, 4099), (300, 1), (0, 4)]


def strategy(kernel: Kernel) -> str:
    return generate(kernel, host()).schedule.strategy


@pytest.mark.parametrize(("rows", "columns"), EXTENTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(rows: int, columns: int, axis: int) -> None:
    check(softmax(rows, columns, axis=axis))


@pytest.mark.parametrize("dtype", dt.FLOATS, ids=repr)
def test_softmax_of_each_float(dtype: DType) -> None:
    check(softmax(9, 77, dtype))


@pytest.mark.parametrize(("rows", "columns"), EXTENTS)
def test_layer_norm(rows: int, columns: int) -> None:
    check(layer_norm(rows, columns), rtol=1e-4, atol=1e-5)


def test_results_may_go_past_the_caches() -> None:
    kernel = layer_norm(8, 64, stream=True)
    assert "!nontemporal" in generate(kernel, host()).text
    check(kernel, rtol=1e-4, atol=1e-5)


def elementwise(outer: tuple[int, ...], orders: list[tuple[int, ...]],
                missing: tuple[int, ...] = ()) -> Kernel:  # fmt: skip
    nest = (outer, ())
    a, b, y = (operand(F32, nest, order) for order in orders)
    b = operand(F32, nest, orders[1], missing)
    body = (Load("a", 0), Load("b", 1), compute("c", "add", "a", "b"), Store(2, "c"))
    return Kernel(*nest, (a, b, y), (LoopPhase(body),))


@pytest.mark.parametrize("orders", list(itertools.product([(0, 1, 2), (0, 2, 1), (2, 1, 0)],
                                                          repeat=3)), ids=str)  # fmt: skip
@pytest.mark.parametrize("outer", [(3, 40, 50), (2, 16, 64), (2, 3, 5)], ids=str)
def test_any_order_of_axes(outer: tuple[int, ...], orders: list[tuple[int, ...]]) -> None:
    check(elementwise(outer, orders), rtol=0, atol=0)


@pytest.mark.parametrize("missing", [(), (0,), (1,), (0, 1)], ids=str)
def test_broadcast(missing: tuple[int, ...]) -> None:
    kernel = elementwise((37, 53), [(0, 1)] * 3, missing)
    assert strategy(kernel) == "flat"
    check(kernel, rtol=0, atol=0)


def test_elements_with_gaps_and_backwards() -> None:
    nest = ((7, 19), ())
    wide = operand(F32, nest, gap=2)
    size = 7 * 19 * 4
    back = Operand(F32, (-19 * 4, -4), (), size, size - 4)
    plain = operand(F32, nest)
    body = (Load("a", 0), Load("b", 1), compute("c", "subtract", "a", "b"), Store(2, "c"))
    check(Kernel(*nest, (wide, back, plain), (LoopPhase(body),)), rtol=0, atol=0)


def reduction(outer: tuple[int, ...], inner: tuple[int, ...], order: tuple[int, ...],
              kind: str = "sum", dtype: DType = F32) -> Kernel:  # fmt: skip
    nest = (outer, inner)
    x = operand(dtype, nest, order)
    y = operand(dtype, nest, missing=range(len(outer), len(outer) + len(inner)))
    body = (Load("x", 0), Reduce("s", kind, "x"))  # type: ignore[arg-type]
    return Kernel(*nest, (x, y), (LoopPhase(body, (Store(1, "s"),)),))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("sizes", [((30,), (20, 41)), ((30, 18), (70,)), ((), (3, 9, 50)),
                                   ((600,), (5, 3)), ((4,), (2, 300))], ids=str)  # fmt: skip
def test_sums_over_any_axes(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], order: tuple[int, ...]
) -> None:
    check(reduction(*sizes, order), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [dt.float64, dt.int64, dt.int32, dt.uint8, dt.bfloat16], ids=repr)
def test_folds_of_each_kind(kind: str, dtype: DType) -> None:
    if dtype.itemsize == 1 and kind in ("sum", "prod"):
        pytest.skip("sums of bytes are taken of wider integers")
    count = 5 if kind == "prod" else 60
    check(reduction((20,), (count,), (0, 1), kind, dtype), rtol=1e-12)
    check(reduction((20,), (count,), (1, 0), kind, dtype), rtol=1e-12)


@pytest.mark.parametrize("inner", [(300_001,), (1 << 19,), (700, 601), (3, 100_003)], ids=str)
@pytest.mark.parametrize("outer", [(), (2,)], ids=str)
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_long_folds_are_taken_in_parts(
    outer: tuple[int, ...], inner: tuple[int, ...], kind: str
) -> None:
    kernel = reduction(outer, inner, tuple(range(len(outer) + len(inner))), kind)
    sequence = native_sequence(kernel)
    assert len(sequence.steps) >= 2
    check(kernel, rtol=1e-5, atol=1e-2, function=sequence)


def test_short_folds_are_not() -> None:
    assert len(native_sequence(reduction((), (1000,), (0,))).steps) == 1
    assert len(native_sequence(softmax(1, 1 << 17)).steps) == 1


def test_lanes_lie_where_memory_does() -> None:
    assert strategy(reduction((64,), (64,), (0, 1))) == "rows"
    assert strategy(reduction((64,), (64,), (1, 0))) == "columns"
    transposed = generate(elementwise((64, 64), [(1, 0), (0, 1), (0, 1)]), host()).schedule
    assert (transposed.strategy, transposed.packed) == ("columns", (0,))


@pytest.mark.parametrize("extent", [17, 64, 130])
@pytest.mark.parametrize("dtype", [F32, dt.bfloat16, dt.float64], ids=repr)
def test_operands_are_turned_before_they_are_added_up(extent: int, dtype: DType) -> None:
    nest = ((extent,), (90,))
    work = F32 if dtype.itemsize < 4 else dtype
    a, b = operand(dtype, nest, (1, 0)), operand(dtype, nest, (0, 1))
    y = operand(work, nest, missing=[1])
    body = (
        Load("a", 0),
        Load("b", 1),
        compute("c", "add", "a", "b", dtype=work),
        Reduce("s", "sum", "c"),
    )
    check(Kernel(*nest, (a, b, y), (LoopPhase(body, (Store(2, "s"),)),)), rtol=1e-5, atol=1e-4)


def test_an_operand_that_is_read_and_written() -> None:
    nest = ((33,), ())
    p, g = operand(F32, nest), operand(F32, nest)
    body = (Load("p", 0), Load("g", 1), compute("d", "subtract", "p", "g"), Store(0, "d"))
    check(Kernel(*nest, (p, g), (LoopPhase(body),)), rtol=0, atol=0)


def test_positions_along_axes() -> None:
    nest = ((5, 37), ())
    y = operand(dt.int64, nest)
    body = (
        Index("i", 0),
        Index("j", 1),
        Constant("ten", dt.int64, 1000),
        compute("t", "multiply", "i", "ten", dtype=dt.int64),
        compute("n", "add", "t", "j", dtype=dt.int64),
        Store(0, "n"),
    )
    check(Kernel(*nest, (y,), (LoopPhase(body),)))


def test_positions_along_swept_axes() -> None:
    for order in ((0, 1), (1, 0)):
        nest = ((40,), (50,))
        x = operand(dt.int64, nest, order)
        y = operand(dt.int64, nest, missing=[1])
        body = (
            Load("x", 0),
            Index("j", 1),
            Index("i", 0),
            compute("a", "multiply", "x", "j", dtype=dt.int64),
            compute("b", "add", "a", "i", dtype=dt.int64),
            Reduce("s", "sum", "b"),
        )
        check(Kernel(*nest, (x, y), (LoopPhase(body, (Store(1, "s"),)),)))


def test_a_single_point() -> None:
    nest = ((), ())
    x, y = operand(F32, nest), operand(F32, nest)
    check(
        Kernel(*nest, (x, y), (LoopPhase((Load("x", 0), compute("e", "exp", "x"), Store(1, "e"))),))
    )


@pytest.mark.parametrize("kernel", [softmax(64, 500), reduction((500,), (64,), (1, 0)),
                                    elementwise((300, 77), [(1, 0), (0, 1), (0, 1)])],
                         ids=["rows", "columns", "turned"])  # fmt: skip
def test_results_do_not_depend_on_how_blocks_are_shared(kernel: Kernel) -> None:
    from pirkit.lowering.codegen.emit.compile import compile_kernel
    from pirkit.runtime.native.function import NativeFunction

    code = compile_kernel(kernel, host())
    rng = np.random.default_rng(0)
    inputs = [nests.random_bytes(rng, o) for o in kernel.operands]
    results: list[bytes] = []
    for work in (0, 10**9):
        shared = type(code)(**{**{f: getattr(code, f) for f in code.__slots__}, "work": work})
        buffers = [buffer.copy() for buffer in inputs]
        nests.run(kernel, buffers, NativeFunction(shared))
        results.append(b"".join(b.tobytes() for b in buffers))
    assert results[0] == results[1]


@pytest.mark.parametrize("columns", [16400, 17003])
def test_long_rows_are_kept_where_their_result_will_be(columns: int) -> None:
    kernel = softmax(3, columns)
    assert elided_scratch(kernel) == {"e": 1}
    check(kernel)
    assert not elided_scratch(softmax(3, 1000))
    assert not elided_scratch(softmax(3, columns, dt.bfloat16))
    check(softmax(3, columns, dt.bfloat16))
