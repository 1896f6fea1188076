"""Lanes that lie near each other are read as whole vectors, and nothing beyond the last one."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest

from pirkit.lowering.codegen.emit.compile import native_sequence
from pirkit.lowering.codegen.emit.generate import generate
from pirkit.lowering.codegen.emit.memory_access import is_near
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, LoopPhase, Operand, Reduce, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host
from tests.codegen.guarded import Guarded, survives

Array = np.ndarray[Any, Any]

CASES = [
    (dtype, separate, count)
    for dtype in (dt.float32, dt.float64, dt.float16, dt.int8, dt.int64)
    for separate in (2, 3, 4, 5)
    for count in (1, 3, 15, 16, 17, 33, 64)
]


def nest(dtype: DType, separate: int, count: int) -> Kernel:
    """The largest of ``separate`` neighbours, for each run of them."""
    size = dtype.itemsize
    x = Operand(
        dtype, (separate * count * size, separate * size), (size,), 3 * separate * count * size
    )
    y = Operand(dtype, (count * size, size), (0,), 3 * count * size)
    body = (Load("x", 0), Reduce("m", "max", "x"))
    return Kernel((3, count), (separate,), (x, y), (LoopPhase(body, (Store(1, "m"),)),))


def reversal(dtype: DType, count: int) -> Kernel:
    """Rows in reversed order."""
    size = dtype.itemsize
    x = Operand(dtype, (count * size, -size), (), 3 * count * size, (count - 1) * size)
    y = Operand(dtype, (count * size, size), (), 3 * count * size)
    return Kernel((3, count), (), (x, y), (LoopPhase((Load("x", 0),), (Store(1, "x"),)),))


@pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")
@pytest.mark.parametrize("bits", ["128", "256", "512"])
def test_nothing_is_read_beyond_the_last_lane(bits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", bits)
    host.cache_clear()

    def run() -> None:
        guarded = Guarded()
        for dtype, separate, count in CASES:
            x = (
                np.random.default_rng(separate)
                .integers(-99, 99, (3, count, separate))
                .astype(dtype.np)
            )
            out = np.zeros((3, count), dtype.np)
            for at_end in (False, True):
                held, made = guarded(x, at_end), guarded(out, at_end)
                native_sequence(nest(dtype, separate, count)).bind([held, made])()
                if not np.array_equal(made, x.max(-1)):
                    os._exit(1)
                line, back = guarded(x[:, :, 0], at_end), guarded(out, at_end)
                native_sequence(reversal(dtype, count)).bind([line, back])()
                if not np.array_equal(back, x[:, ::-1, 0]):
                    os._exit(2)

    try:
        assert survives(run)
    finally:
        monkeypatch.undo()
        host.cache_clear()


def test_near_lanes_are_shuffled_and_not_gathered() -> None:
    near = [is_near(4 * k, 4) for k in (-2, -1, 0, 1, 2, 4, 5)]
    assert near == [False, True, False, False, True, True, False]
    assert not is_near(6, 4)
    text = generate(nest(dt.float32, 2, 64), host()).text
    assert "gather" not in text
    assert "shufflevector" in text
