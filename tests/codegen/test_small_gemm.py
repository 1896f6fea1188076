"""Products of small matrices as steps of a plan: any sizes and strides, and a row behind."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np
import pytest

from pirkit import ops
from pirkit.frontend.compile import compile
from pirkit.frontend.tracing import trace
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.small_gemm import MAX_DEPTH
from pirkit.lowering.explain_kernels import why_kernels
from pirkit.lowering.gemm_kernel import SmallGemm, is_small
from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_ops import SMALL_GEMM
from pirkit.runtime import dtype as dt
from pirkit.runtime.executor import Executable
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.segment import LaunchSegment, SegmentMember
from pirkit.runtime.plan import Call

Array = np.ndarray[Any, Any]
Random = np.random.Generator

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40)
ROUNDS = 2000 if os.environ.get("PIRKIT_EXHAUSTIVE") else 150
EDGE = 64


def guarded(shape: tuple[int, ...], dtype: Any, rng: Random) -> tuple[Array, Array]:
    """An array, and the memory around it, which nobody may touch."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.full(size + 2 * EDGE, 0xFF, np.uint8)  # NaN, where it is read
    array = raw[EDGE : EDGE + size].view(dtype).reshape(shape)
    array[...] = rng.standard_normal(shape)
    return array, raw


def laid(shape: tuple[int, ...], dtype: Any, rng: Random) -> Array:
    """An array of a shape in memory of some kind, with NaN all around."""
    how = rng.integers(0, 4)
    if how == 0:
        return guarded(shape, dtype, rng)[0]
    if how == 1:
        axes = rng.permutation(len(shape))
        transposed, _ = guarded(tuple(shape[a] for a in axes), dtype, rng)
        return transposed.transpose(np.argsort(axes))
    if how == 2:
        return guarded(shape, dtype, rng)[0][..., ::-1]
    one = tuple(1 if rng.integers(0, 2) else s for s in shape)
    return np.broadcast_to(guarded(one, dtype, rng)[0], shape)


def case(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    kind = (dt.float32, dt.float64)[rng.integers(0, 2)]
    rows, depth, columns = (int(rng.choice(SIZES)) for _ in range(3))
    if rng.random() < 0.05:
        depth = int(rng.integers(MAX_DEPTH - 10, MAX_DEPTH + 1))
    batch = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 3)))
    leads = [
        tuple(1 if rng.random() < 0.3 else n for n in batch)[rng.integers(0, len(batch) + 1) :]
        for _ in range(2)
    ]
    transposed = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    ends = (rows, depth), (depth, columns)
    seen = [end[::-1] if t else end for end, t in zip(ends, transposed, strict=True)]
    shapes = [(*lead, *end) for lead, end in zip(leads, seen, strict=True)]
    x, y = (laid(shape, kind.np, rng) for shape in shapes)
    bias = laid((columns,), kind.np, rng) if rng.random() < 0.4 else None
    if bias is not None and not bias.flags.c_contiguous:
        bias = bias.copy()
    if rng.random() < 0.2 and x.size and x.flags.writeable:
        x[tuple(rng.integers(0, n) for n in x.shape)] = rng.choice([np.nan, np.inf, -np.inf])
    return kind, x, y, bias, transposed, rng


def failed(number: int, error: Exception) -> NoReturn:
    raise error


@pytest.mark.parametrize("chunk", range(3))
def test_any_product_is_that_of_numpy(chunk: int) -> None:
    for seed in range(chunk * ROUNDS, (chunk + 1) * ROUNDS):
        kind, x, y, bias, transposed, rng = case(seed)
        sides = zip((x, y), transposed, strict=True)
        left, right = (np.swapaxes(a, -1, -2) if t else a for a, t in sides)
        with np.errstate(all="ignore"):
            wanted = left.astype(np.float64) @ right.astype(np.float64)
            size = np.abs(left.astype(np.float64)) @ np.abs(right.astype(np.float64))
        wanted, size = (wanted, size) if bias is None else (wanted + bias, size + np.abs(bias))
        out, around = guarded(wanted.shape, kind.np, rng)
        metas = [TensorMeta(a.shape, kind) for a in (x, y, out)]
        attrs = {"transpose_x": transposed[0], "transpose_y": transposed[1], "results": (metas[2],)}
        step = SmallGemm(metas[0], metas[1], bias is not None, attrs)
        values = [x, y, *([] if bias is None else [bias]), out]
        dense = [k for k, a in enumerate(values) if a.flags.c_contiguous]
        moving = frozenset(k for k in dense if rng.random() < 0.4)
        member = SegmentMember(step, tuple(range(len(values))))
        with np.errstate(all="ignore"):
            LaunchSegment(values, [member], moving).call(failed)()
        margin = np.finfo(kind.np).eps * max(left.shape[-1], 8) * size
        finite = np.isfinite(size)
        assert (np.abs(out[finite] - wanted[finite]) <= margin[finite]).all(), seed
        assert (np.isnan(out) == np.isnan(wanted)).all(), seed
        assert (around[:EDGE] == 0xFF).all(), seed
        assert (around[around.size - EDGE :] == 0xFF).all(), seed


def test_loops_are_interpreted_as_they_are_defined_and_in_tiles() -> None:
    for seed in range(40):
        kind, x, y, bias, transposed, _ = case(seed)
        if x.size * y.size > 50_000 or MAX_DEPTH in x.shape:
            continue
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        left, right = (
            np.swapaxes(a, -1, -2) if t else a for a, t in zip((x, y), transposed, strict=True)
        )
        with np.errstate(all="ignore"):
            wanted = left @ right if bias is None else left @ right + bias
        metas = [TensorMeta(a.shape, kind) for a in (x, y, wanted)]
        attrs = {"transpose_x": transposed[0], "transpose_y": transposed[1], "results": (metas[2],)}
        step = SmallGemm(metas[0], metas[1], bias is not None, attrs)
        part = step.launch_part({})
        (work,) = part.works
        assert isinstance(work.function, LazyFunction)
        for stage in work.function.write().stages:
            out = np.full(wanted.shape, 7, kind.np)
            arrays = [x, y, *([] if bias is None else [bias]), out]
            memory = dict(enumerate(arrays)) | dict(part.own)
            run_loops(stage.nest, [memory[k] for k in work.operands])
            np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{seed}")


def test_which_products_are_small() -> None:
    def small(rows: int, depth: int, columns: int, kind: dt.DType = dt.float32, **kw: bool) -> bool:
        attrs = {"transpose_x": False, "transpose_y": False} | kw
        shapes = (rows, depth), (depth, columns), (rows, columns)
        x, y, out = (TensorMeta(s, kind) for s in shapes)
        return is_small(x, y, out, attrs)

    assert small(4, 20, 20)
    assert small(16, 16, 16, transpose_y=True)
    assert not small(512, 512, 512)
    assert not small(1, 1000, 1000)
    assert not small(4, MAX_DEPTH + 1, 4)
    assert not small(4, 20, 20, dt.float16)
    assert not small(0, 20, 20)


def network(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    return ops.matmul(ops.relu(ops.matmul(x, w) + b) * 2.0, v) + c


def given(rows: int = 5) -> dict[str, Array]:
    shapes = ((rows, 7), (7, 20), (20,), (20, 3), (3,))
    rng = np.random.default_rng(0)
    return {f"x{k}": rng.standard_normal(s).astype(np.float32) for k, s in enumerate(shapes)}


def calls(exe: Executable, inputs: dict[str, Array]) -> list[str]:
    _, metas = exe._feed(inputs)
    fed = {slot: meta for slot, meta in zip(exe._slots, metas, strict=True) if meta}
    return [i.kernel for i in exe.library.grouped(exe.plan, fed).body if isinstance(i, Call)]


def test_a_network_is_one_call() -> None:
    inputs = given()
    program = trace(network, tuple(inputs.values())).program
    exe = compile(program, pipeline="@default")
    assert calls(exe, inputs) == [SMALL_GEMM, "pir.map_expr", SMALL_GEMM]
    exact = compile(program, backend="reference")
    for scale in (1, 2):
        scaled = {name: array * np.float32(scale) for name, array in inputs.items()}
        for found, wanted in zip(exe.run(scaled).values(), exact.run(scaled).values(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    (session,) = next(iter(exe._sessions._idle.values()))
    assert len([c for c in session._steps.calls if "put" not in str(c)]) == 1


def test_what_is_added_is_left_alone_where_it_is_no_row_or_the_product_is_read_twice() -> None:
    def column(x: Any, w: Any, c: Any) -> Any:
        return ops.matmul(ops.exp(x) * 2.0, w) + c

    def twice(x: Any, w: Any, c: Any) -> Any:
        y = ops.matmul(ops.exp(x) * 2.0, w)
        return y, ops.cumsum(y + c, 0)

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((6, 7), (7, 6)))
    for function, shape in ((column, (6, 1)), (twice, (6,))):
        inputs = {"x0": x, "x1": w, "x2": rng.standard_normal(shape).astype(np.float32)}
        program = trace(function, tuple(inputs.values())).program
        exe = compile(program, pipeline="@default")
        assert "pd_op.add" in calls(exe, inputs)
        exact = compile(program, backend="reference")
        for found, wanted in zip(exe.run(inputs).values(), exact.run(inputs).values(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_sum_of_two_products_takes_one_of_them_along(rows: int) -> None:
    def both(x: Any, w: Any, h: Any, u: Any) -> Any:
        return ops.matmul(x, w) + ops.matmul(h, u), ops.exp(x) * 2.0

    rng = np.random.default_rng(0)
    shapes = ((rows, 5), (5, 4), (rows, 3), (3, 4))
    x, w, h, u = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    inputs = {"x0": x, "x1": w, "x2": h, "x3": u}
    exe = compile(trace(both, (x, w, h, u)).program, pipeline="@default")
    assert calls(exe, inputs).count(SMALL_GEMM) == 2
    found = next(iter(exe.run(inputs).values()))
    np.testing.assert_allclose(found, x @ w + h @ u, rtol=1e-5, atol=1e-5)


def test_a_plan_without_fused_kernels_keeps_numpy_s_bits() -> None:
    inputs = given()
    program = trace(network, tuple(inputs.values())).program
    exe = compile(program, pipeline="@simplify")
    assert SMALL_GEMM not in calls(exe, inputs)
    x, w, b, v, c = inputs.values()
    np.testing.assert_array_equal(
        next(iter(exe.run(inputs).values())), np.maximum(x @ w + b, 0) * np.float32(2) @ v + c
    )


def test_it_is_told_which_steps_are_one_call() -> None:
    def function(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        return ops.cumsum(network(x, w, b, v, c), 0)

    program = trace(function, tuple(given().values())).program
    known = why_kernels(compile(program, pipeline="@default").plan, KernelLibrary()).splitlines()
    assert [line.strip() for line in known if "native call" in line][:-1] == [
        *["in native call 1"] * 3,
        "in no native call: it has no native form",
    ]
