"""Rows whose stores go past the caches where results begin at cache lines, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pirkit.lowering.codegen.emit.compile import compile_kernel
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host
from tests.codegen.nests import layer_norm

Array = np.ndarray[Any, Any]


def scaled(rows: int, columns: int, dtype: DType, stream: bool) -> Kernel:
    """Squares, and rows times the sums of their squares: a stage that stores and adds up."""
    size = dtype.itemsize
    strides, nbytes = ((columns * size,), (size,)), rows * columns * size
    x = Operand(dtype, *strides, nbytes)
    y, z = (Operand(dtype, *strides, nbytes, 0, stream) for _ in "yz")
    squares = Compute("square", "multiply", ("x", "x"), dtype)
    first = LoopPhase((Load("x", 0), squares, Store(1, "square"), Reduce("sum", "sum", "square")))
    times = Compute("times", "multiply", ("again", "sum"), dtype)
    second = LoopPhase((Load("again", 0), times, Store(2, "times")))
    return Kernel((rows,), (columns,), (x, y, z), (first, second))


@pytest.fixture(params=["128", "256", "512"])
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code for vectors as wide, where the CPU has them."""
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", request.param)
    host.cache_clear()
    yield
    monkeypatch.undo()
    host.cache_clear()


def shifted(like: Array, bytes_on: int) -> Array:
    """Poison of a shape that begins so far behind a cache line."""
    room = np.zeros(like.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + bytes_on
    found = room[start : start + like.nbytes].view(like.dtype).reshape(like.shape)
    found[...] = np.nan
    return found


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
@pytest.mark.parametrize("columns", [1, 16, 33, 64, 320, 1024, 1040])
def test_results_are_the_same_wherever_they_begin(columns: int, dtype: DType) -> None:
    x = np.random.default_rng(0).standard_normal((3, columns)).astype(dtype.np)
    x[0, 0], x[1, -1] = np.nan, np.inf
    plain = NativeFunction(compile_kernel(scaled(3, columns, dtype, False), host()))
    wanted = [shifted(x, 0) for _ in "yz"]
    plain.bind((x, *wanted))()
    streaming = NativeFunction(compile_kernel(scaled(3, columns, dtype, True), host()))
    for first, second in ((0, 0), (8, 0), (0, 16), (40, 40)):
        found = [shifted(x, first), shifted(x, second)]
        streaming.bind((x, *found))()
        for got, meant in zip(found, wanted, strict=True):
            assert got.tobytes() == meant.tobytes()


def test_only_what_stores_is_written_twice() -> None:
    plain, streaming = (generate(layer_norm(64, 1024, s), host()).text for s in (False, True))
    assert "nontemporal" in streaming
    assert streaming.count("\n") < 1.5 * plain.count("\n")
    odd = generate(layer_norm(64, 1023, True), host()).text
    assert "nontemporal" not in odd
    assert odd.count("phi") == generate(layer_norm(64, 1023, False), host()).text.count("phi")
