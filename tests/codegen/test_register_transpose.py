"""What is turned in registers and added up at once: `register_transpose.py`."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compile_kernel
from pirkit.lowering.codegen.emit.schedule import schedule
from pirkit.lowering.codegen.ir.loopnest import (
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    ReduceKind,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host
from tests.codegen import nests
from tests.codegen.guarded import Guarded, survives
from tests.codegen.nests import check, compute, operand
from tests.codegen.test_guarded import bits  # noqa: F401  (a fixture)

Array = np.ndarray[Any, Any]
SIZES = ((16, 16), (1, 40), (40, 1), (33, 50), (17, 15), (130, 70), (300, 67), (48, 300), (300, 80))
DTYPES = (dt.float32, dt.float64, dt.bfloat16, dt.float16, dt.int32, dt.int64)


def added(
    size: tuple[int, int], dtype: DType = dt.float32, kind: ReduceKind = "sum",
    batch: Sequence[int] = (), transposed: int = 1,
) -> Kernel:  # fmt: skip
    """Sums of columns and, turned, of as many rows."""
    nest = ((*batch, size[0]), (size[1],))
    rank = len(batch)
    work = dt.float32 if dtype.is_float and dtype.itemsize < 4 else dtype
    other = operand(dtype, nest, (*range(rank), rank + 1, rank))
    y = operand(work, nest, missing=[rank + 1])
    body: list[Any] = [Load("x0", 0)]
    for k in range(transposed):
        body.append(Load(f"t{k}", 1 + k))
        body.append(compute(f"x{k + 1}", "add", f"x{k}", f"t{k}", dtype=work))
    phase = LoopPhase((*body, Reduce("s", kind, f"x{transposed}")), (Store(1 + transposed, "s"),))
    return Kernel(*nest, (other, *[operand(dtype, nest)] * transposed, y), (phase,))


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_as_numpy(dtype: DType) -> None:
    for size in SIZES:
        check(added(size, dtype), rtol=1e-5, atol=1e-4)


@pytest.mark.usefixtures("bits")
def test_vectors_of_all_widths_touch_nothing_else() -> None:
    pytest.importorskip("mmap")
    if sys.platform != "linux":
        pytest.skip("asks for forbidden pages")
    guarded, runs = Guarded(), []
    for dtype in (dt.float32, dt.bfloat16, dt.float64):
        for size in ((33, 50), (17, 15), (48, 70)):
            kernel = added(size, dtype)
            check(kernel, rtol=1e-5, atol=1e-4)
            target = replace(host(), l2_bytes=1 << 9)
            function = NativeFunction(compile_kernel(kernel, target))
            for at_end in (True, False):
                arrays = [guarded(nests.poisoned(o), at_end) for o in kernel.operands]
                runs.append(function.bind(arrays))
    for run in runs:
        assert survives(run)


def test_batches_folds_and_operands() -> None:
    check(added((40, 50), batch=(3,)), rtol=1e-5, atol=1e-4)
    for transposed in (2, 3):
        check(added((40, 50), transposed=transposed), rtol=1e-5, atol=1e-4)
    for kind in ("max", "min", "prod"):
        check(added((50, 37), dt.int64, kind))


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_what_is_not_finite_stays(kind: ReduceKind) -> None:
    kernel, rng = added((35, 40), kind=kind), np.random.default_rng(0)
    buffers = [nests.random_bytes(rng, o) for o in kernel.operands]
    x, t = buffers[0].reshape(40, 35), buffers[1].reshape(35, 40)
    x[3, 1], t[34, 39], t[5, 2], x[2, 5], t[6, 1] = np.nan, np.nan, np.inf, -np.inf, np.inf
    reduction = {"sum": np.sum, "max": np.max, "min": np.min}[kind]
    with np.errstate(invalid="ignore"):
        wanted = reduction(x.T + t, axis=1)
    nests.run(kernel, buffers)
    np.testing.assert_allclose(buffers[2], wanted, 1e-5, 1e-4)
    assert [k for k in range(35) if math.isnan(buffers[2][k])] == [1, 5, 34]


def test_bits_do_not_depend_on_who_runs_a_block() -> None:
    kernel = added((700, 90))
    code, rng = compile_kernel(kernel, host()), np.random.default_rng(0)
    inputs = [nests.random_bytes(rng, o) for o in kernel.operands]
    found: set[bytes] = set()
    for work in (0, 10**9):
        buffers = [buffer.copy() for buffer in inputs]
        nests.run(kernel, buffers, NativeFunction(replace(code, work=work)))
        found.add(buffers[2].tobytes())
    assert len(found) == 1


def placed(array: Array, ahead: int) -> Array:
    """A copy that begins ``ahead`` elements after a cache line."""
    whole = np.full(array.nbytes + 256, 0x5A, np.uint8)
    start = 64 + -(whole.ctypes.data + 64) % 64 + ahead * array.itemsize
    inside = whole[start : start + array.nbytes].view(array.dtype)
    inside[...] = array
    return inside


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("size", [(16, 30), (48, 16), (304, 70), (48, 130)], ids=str)
def test_bits_do_not_depend_on_where_operands_begin(size: tuple[int, int]) -> None:
    """Squares begin at cache lines, wherever those are."""
    target = replace(host(), l2_bytes=1 << 9)
    kinds: tuple[ReduceKind, ...] = ("sum", "max", "sum")
    for dtype, kind in zip((dt.float32, dt.float32, dt.float64), kinds, strict=True):
        kernel, rng = added(size, dtype, kind), np.random.default_rng(0)
        function = NativeFunction(compile_kernel(kernel, target))
        inputs = [-abs(nests.random_bytes(rng, o)) for o in kernel.operands]
        x, t = inputs[0].reshape(size[::-1]), inputs[1].reshape(size)
        found: set[bytes] = set()
        for ahead in range(17):
            arrays = [placed(a, (ahead * (1 + k)) % 17) for k, a in enumerate(inputs)]
            arrays[2][...] = np.nan
            function.bind(arrays)()
            wanted = np.max(x.T + t, 1) if kind == "max" else np.sum(x.T + t, 1)
            np.testing.assert_allclose(arrays[2], wanted, 1e-5, 1e-4)
            found.add(arrays[2].tobytes())
        assert len(found) == 1


def test_when_squares_stay_in_registers() -> None:
    def chosen(kernel: Kernel) -> tuple[bool, int]:
        plan = schedule(kernel, host())
        assert plan.packed
        return plan.register_tiles, plan.block

    assert chosen(added((512, 512))) == (True, 128)
    assert chosen(added((4096, 512))) == (True, 256)
    # what lies along the lanes is in the minority, but nothing is gathered
    assert schedule(added((512, 512), transposed=2), host()).packed == (1, 2)
    assert chosen(added((512, 512), transposed=2))[0]
    assert not chosen(added((512, 512), transposed=3))[0]
    # too narrow to be turned
    assert schedule(added((8, 512), transposed=2), host()).strategy == "rows"
    whole = added((512, 512))
    heavy = LoopPhase(
        (Load("x", 0), Load("t", 1), compute("z", "add", "x", "t"), compute("e", "exp", "z"),
         Reduce("s", "sum", "e")), (Store(2, "s"),),
    )  # fmt: skip
    assert not chosen(replace(whole, loop_phases=(heavy,)))[0]
    y = Operand(dt.float32, whole.operands[0].outer, whole.operands[0].inner, 512 * 512 * 4)
    stores = LoopPhase((Load("x", 0), Load("t", 1), compute("z", "add", "x", "t"), Store(2, "z")))
    flat = replace(whole, operands=(*whole.operands[:2], y), loop_phases=(stores,))
    assert not chosen(flat)[0]


@pytest.mark.skipif("PIRKIT_EXHAUSTIVE" not in os.environ, reason="takes minutes")
@pytest.mark.parametrize("part", range(4))
@pytest.mark.usefixtures("bits")
def test_all_sizes(part: int) -> None:
    for rows in (*range(1, 36), 127, 128, 129, 255, 257)[part::4]:
        for columns in (*range(1, 36), 63, 64, 65, 130):
            check(added((rows, columns)), rtol=1e-5, atol=1e-4)
