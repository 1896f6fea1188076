"""Lanes whose indices lie in one vector of neighbors are permuted, others gathered."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compile_kernel, native_sequence
from pirkit.lowering.codegen.emit.memory_access import Memory, load_near
from pirkit.lowering.codegen.ir.llvm_text import PTR, Builder, Type, Value
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, LoopPhase, Operand, Store
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.codegen.guarded import Guarded, survives

Array = np.ndarray[Any, Any]
SIZES = [(1, 33), (7, 16), (8, 17), (16, 16), (17, 33), (40, 15), (40, 33)]
TYPES = [
    (dt.float32, dt.int32), (dt.float32, dt.int64), (dt.float64, dt.int64), (dt.int32, dt.int64),
    (dt.int64, dt.int32), (dt.float16, dt.int64), (dt.int8, dt.int32),
]  # fmt: skip


def lookup(dtype: DType, places: DType, size: int, count: int) -> Kernel:
    """``y[i] = x[t[i]]``."""
    x = Operand(dtype, (0,), (), size * dtype.itemsize)
    t = Operand(places, (places.itemsize,), (), count * places.itemsize)
    y = Operand(dtype, (dtype.itemsize,), (), count * dtype.itemsize)
    body = (Load("at", 1), Load("v", 0, "at", size - 1), Store(2, "v"))
    return Kernel((count,), (), (x, t, y), (LoopPhase(body),))


def tables(size: int, count: int) -> list[Array]:
    """Places that rise slowly, one by one, by steps, that fall, and that are anywhere."""
    along = np.arange(count)
    drawn = np.random.default_rng(count).integers(0, size, count)
    found = [along // 2, along, size - count + along, 3 * along, size - 1 - along, drawn]
    return [np.clip(t, 0, size - 1) for t in found]


@pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")
@pytest.mark.parametrize("bits", ["128", "256", "512"])
def test_elements_at_places_near_and_far(bits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", bits)
    host.cache_clear()

    def run() -> None:
        guarded = Guarded()
        for dtype, places in TYPES:
            for size, count in SIZES:
                native = native_sequence(lookup(dtype, places, size, count))
                x = np.arange(1, size + 1).astype(dtype.np)
                for k, table in enumerate(tables(size, count)):
                    for at_end in (False, True):
                        held = guarded(x, at_end), guarded(table.astype(places.np), at_end)
                        made = guarded(np.zeros(count, dtype.np), at_end)
                        native.bind([*held, made])()
                        if not np.array_equal(made, x[table]):
                            os._exit(1 + k)

    try:
        assert survives(run)
    finally:
        monkeypatch.undo()
        host.cache_clear()


@pytest.mark.parametrize("gathers", [True, False])
def test_a_load_for_each_lane_in_place_of_a_gather(
    gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At places that data say, and at one distance."""
    monkeypatch.setattr(Target, "gathers", property(lambda _: gathers))
    for dtype, places in TYPES:
        far, x = lookup(dtype, places, 400, 43), np.arange(400).astype(dtype.np)
        step = replace(far.operands[0], outer=(9 * dtype.itemsize,))
        body = LoopPhase((Load("v", 0), Store(2, "v")))
        strided = replace(far, operands=(step, *far.operands[1:]), loop_phases=(body,))
        for kernel, table in ((far, np.arange(43) * 37 % 400), (strided, np.arange(43) * 9)):
            made = np.zeros(43, dtype.np)
            code = compile_kernel(kernel, host())
            NativeFunction(code).bind([x, table.astype(places.np), made])()
            np.testing.assert_array_equal(made, x[table])


@pytest.mark.parametrize(
    ("is_wide", "limit", "permutes"), [(True, 15, 1), (True, 14, 0), (False, 15, 0)]
)
def test_a_vector_is_permuted_where_the_operand_holds_one(
    is_wide: bool, limit: int, permutes: int
) -> None:
    b = Builder(scalef=is_wide)
    at, zero = Value("%at", Type("i32", 16)), Value("zeroinitializer", Type("float", 16))
    load_near(b, dt.float32, Memory(Value("%x", PTR), 0), at, limit, None, lambda: zero)
    assert sum("@llvm.x86.avx512.permvar" in line for line in b.lines) == permutes
