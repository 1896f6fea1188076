"""Rows times weights of fewer bits in panels: on every vector width, in whole programs."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit.dialect.opdef import lookup, reference
from pirkit.dialect.program import Program
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.gemm import gemm_draft
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, MatrixBatch
from pirkit.lowering.codegen.matmul.quantized_rows import (
    exact_group,
    product_tile,
    rows_product_draft,
)
from pirkit.lowering.codegen.matmul.quantized_tile import RowsProduct
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.execution import Array, parsed

SIZES = [(1, 1, 1), (1, 50, 33), (2, 24, 16), (3, 5, 7), (4, 72, 31), (9, 49, 17), (37, 101, 259)]
OP = "pir.quantized_matmul"


def panels(weights: Array, columns: int, group: int) -> Array:
    depth, width = weights.shape
    filled = np.pad(weights, ((0, -depth % group), (0, -width % columns)))
    split = filled.reshape(-1, group, filled.shape[1] // columns, columns).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(split if group > 1 else split[..., 0])


def weights_of(random: np.random.Generator, size: tuple[int, int], dtype: DType) -> Array:
    if dtype is dt.int8:
        return random.integers(-127, 128, size, np.int8)
    return random.standard_normal(size).astype(dtype.np)


def at_width(bits: int) -> Target:
    if bits > host().vector_bits:
        pytest.skip("the CPU has no such vectors")
    return replace(host(), vector_bits=bits)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("group", [2, 4])
def test_integers_have_the_bits_of_the_reference(bits: int, threads: int, group: int) -> None:
    """Pairs, and groups of four by `vpdpbusd`: extreme numbers too, whose sums need offsets."""
    target = at_width(bits)
    if group > exact_group(target):
        pytest.skip("the CPU has no VNNI")
    for rows, columns, depth in SIZES:
        random = np.random.default_rng(depth)
        x, w = (weights_of(random, s, dt.int8) for s in ((rows, depth), (depth, columns)))
        for each in (True, False):
            scales = random.random(columns, np.float32)
            of_rows = random.random((rows, 1) if each else 1, np.float32)
            added = random.integers(-(10**6), 10**6, columns, np.int32)
            if not each:
                x[:], w[:] = -128, 127
            check_integers(x, w, scales, of_rows, None, (target, group, threads))
            check_integers(x.view(np.uint8), w, scales, of_rows, added, (target, group, threads))


def check_integers(
    x: Array, w: Array, scales: Array, of_rows: Array, added: Array | None,
    how: tuple[Target, int, int],
) -> None:  # fmt: skip
    (rows, depth), columns, (target, group, threads) = x.shape, w.shape[1], how
    unsigned, each = x.dtype == np.uint8, of_rows.ndim == 2
    p = RowsProduct(rows, columns, depth, dt.int8, True, True, each, group, unsigned,
                    added is not None)  # fmt: skip
    small = replace(target, l2_bytes=4096)  # several blocks of rows
    held = panels(w, product_tile(target, True, columns).columns, group)
    rule = reference.get(lookup(OP))
    assert rule is not None
    wanted = rule(x, held, scales, of_rows, added, columns=columns)
    given = [scales, of_rows] if added is None else [scales, of_rows, added]
    for cache in (target, small):
        made, looped = (np.full((rows, columns), np.nan, np.float32) for _ in range(2))
        draft = rows_product_draft(p, cache, threads)
        NativeFunction(compiled(draft, cache)).bind([x, held, made, *given])()
        np.testing.assert_array_equal(made, wanted)
        run_loops(draft.stages[-1].nest, [x, held, looped, *given])
        np.testing.assert_array_equal(looped, wanted)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("dtype", [dt.int8, dt.bfloat16, dt.float16, dt.float32], ids=str)
def test_floats(dtype: DType, bits: int) -> None:
    """Few rows, and panels that are widened for many."""
    target = at_width(bits)
    if dtype is dt.float16 and not target.has("f16c"):
        pytest.skip("the CPU does not convert float16")
    for rows, columns, depth in SIZES:
        random = np.random.default_rng(depth)
        x = random.standard_normal((rows, depth), np.float32)
        w, scales = weights_of(random, (depth, columns), dtype), random.random(columns, np.float32)
        width = product_tile(target, False, columns).columns
        held = panels(w, width, 1)
        a, c = (MatrixBatch((), (n * 4, 4), rows * n * 4) for n in (depth, columns))
        b = MatrixBatch((), (width * w.itemsize, depth * w.itemsize), held.nbytes)
        drafts = [rows_product_draft(RowsProduct(rows, columns, depth, dtype, True), target, 2)]
        if dtype is not dt.float32:
            how = {"panel": width, "stored": dtype, "scales": True}
            p = Gemm((), rows, columns, depth, dt.float32, a, b, c, **how)
            drafts.append(gemm_draft(p, target, 2))
        wanted = x.astype(np.float64) @ (w.astype(np.float64) * scales)
        scale = np.abs(x).astype(np.float64) @ np.abs(w.astype(np.float64) * scales)
        for draft in drafts:
            made = np.full((rows, columns), np.nan, np.float32)
            raw = held.view(np.int16) if dtype is dt.bfloat16 else held
            NativeFunction(compiled(draft, target)).bind([x, raw, made, scales])()
            assert (abs(made - wanted) <= 1e-6 * (scale + 1e-6)).all()
            for stage in draft.stages:
                run_loops(stage.nest, [x, raw, looped := np.full_like(made, np.nan), scales])
                assert (abs(looped - wanted) <= 1e-6 * (scale + 1e-6)).all()


PROGRAM = """pir.program @main(%x "x" : tensor<{m}x{k}xf32>) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> tensor<{k}x{n}xf32>
  %y = pd_op.matmul(%x, %w) {{transpose_x = false, transpose_y = false}} : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %s = pd_op.i0e(%y) : (tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  pir.shadow_output(%y) {{output_name = "y"}} : (tensor<{m}x{n}xf32>) -> ()
  {more}
}}"""  # noqa: E501
CALLED = 'pir.shadow_output(%s) {{output_name = "s"}} : (tensor<{m}x{n}xf32>) -> ()'


@pytest.mark.parametrize(("rows", "calls"), [(1, False), (8, False), (9, True)])
@pytest.mark.parametrize("how", ["weights=bfloat16", "weights=int8", "activations=int8",
                                 "activations=int8,ranges=w:6"])  # fmt: skip
def test_programs(rows: int, how: str, calls: bool) -> None:
    """Native code for panels, with the numbers of the reference rules for rows.

    Of 9 rows, a library computes something else, so that there is no single native call.
    """
    size = {"m": rows, "k": 67, "n": 50}
    more = CALLED.format(**size) if calls else ""
    random = np.random.default_rng(rows)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((rows, 67), (67, 50)))
    program = Program(parsed(PROGRAM.format(**size, more=more)), {"w": w})
    small = pirkit.run_passes(program, f"quantize{{min-elements=1,{how}}}")
    exe = pirkit.compile(small, freeze=True)
    assert OP not in str(exe.reasons)
    assert (exe.native is None) == calls
    found, wanted = exe(x=x)["y"], pirkit.compile(small, backend="reference")(x=x)["y"]
    if "activations" in how:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert abs(found - x @ w).max() < (0.1 if "bfloat16" in how else 0.6)
