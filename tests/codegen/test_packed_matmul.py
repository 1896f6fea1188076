"""Matmuls with packed weights: the numbers of numpy, on every vector width, in whole programs."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit.diag.errors import UsageError
from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul import gemm
from pirkit.lowering.codegen.matmul.gemm import gemm_draft
from pirkit.lowering.codegen.matmul.macrokernel import tile_shape_for
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, MatrixBatch
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.execution import Array, parsed

SIZES = [(1, 1, 1), (8, 24, 16), (9, 49, 17), (3, 5, 7), (130, 301, 401), (65, 290, 48)]


def packed(right: Array, columns: int) -> Array:
    depth, width = right.shape
    filled = np.pad(right, ((0, 0), (0, -width % columns)))
    return np.ascontiguousarray(filled.reshape(depth, -1, columns).transpose(1, 0, 2))


def product_of(size: tuple[int, int, int], dtype: DType, target: Target) -> Gemm:
    rows, columns, depth = size
    panel, item = tile_shape_for(dtype, target, columns).columns, dtype.itemsize
    a, c = (MatrixBatch((), (n * item, item), rows * n * item) for n in (depth, columns))
    panels = -(-columns // panel) * panel * depth * item
    b = MatrixBatch((), (panel * item, depth * item), panels)
    return Gemm((), *size, dtype, a, b, c, panel)


def check(size: tuple[int, int, int], dtype: DType, target: Target, threads: int) -> Array:
    rows, columns, depth = size
    random, p = np.random.default_rng(depth), product_of(size, dtype, target)
    a, right = (random.standard_normal(s).astype(dtype.np) for s in ((rows, depth), size[:0:-1]))
    made = np.full((rows, columns), np.nan, dtype.np)
    draft = gemm_draft(p, target, threads)
    looped = made.copy()
    NativeFunction(compiled(draft, target)).bind([a, packed(right, p.panel), made])()
    run_loops(draft.stages[-1].nest, [a, packed(right, p.panel), looped])
    wanted = a.astype(np.float64) @ right.astype(np.float64)
    for found in (made, looped):
        assert abs(found - wanted).max() <= 2 * np.finfo(dtype.np).eps * (depth + 8)
    return made


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("size", SIZES)
def test_as_numpy(size: tuple[int, int, int], bits: int) -> None:
    if bits > host().vector_bits:
        pytest.skip("the CPU has no such vectors")
    target = replace(host(), vector_bits=bits)
    for dtype in (dt.float32, dt.float64):
        check(size, dtype, target, threads=1)


def test_threads_and_caches_change_no_bit() -> None:
    """Blocks of the result begin at panels, and chunks of rows meet the same ones."""
    size = (130, 301, 401)
    whole = check(size, dt.float32, host(), 1)
    np.testing.assert_array_equal(check(size, dt.float32, host(), 16), whole)
    small = replace(host(), l2_bytes=1 << 14)
    np.testing.assert_array_equal(check(size, dt.float32, small, 1), whole)


@pytest.mark.parametrize("option", ["panel=-5", "group=3", "group=-2"])
def test_panels_that_cannot_be_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match="PK0703"):
        run_passes(Program(parsed("pir.program @main {}")), f"pack-matmuls{{{option}}}")


def test_nothing_is_packed_in_a_call() -> None:
    p = product_of((64, 96, 96), dt.float32, host())
    assert gemm_draft(p, host(), 1).code.scratch == 0
    plain = replace(p, b=MatrixBatch((), (96 * 4, 4), 96 * 96 * 4), panel=0)
    assert gemm_draft(plain, host(), 1).code.scratch > 0


@pytest.mark.parametrize("bits", [128, 256])
def test_a_panel_stays_in_the_first_cache(bits: int) -> None:
    target = replace(host(), vector_bits=bits)
    p = product_of((64, 96, 5000), dt.float32, target)
    shape = tile_shape_for(p.dtype, target)
    depth = gemm.blocking(p, shape, target, 1).depth
    assert 8 << 10 <= shape.panel_bytes(depth) <= 20 << 10


PROGRAM = """pir.program @main(%x "x" : tensor<{x}xf32>) {{
  %w = pir.parameter() {{parameter_name = "w"}} : () -> tensor<{w}xf32>
  %b = pir.parameter() {{parameter_name = "b"}} : () -> tensor<{n}xf32>
  %y = pd_op.matmul(%x, %w) {{transpose_x = false, transpose_y = {turned}}} : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
  %s = pd_op.add(%y, %b) : (tensor<{y}xf32>, tensor<{n}xf32>) -> tensor<{y}xf32>
  {more}
  %r = pd_op.relu(%s) : (tensor<{y}xf32>) -> tensor<{y}xf32>
  pir.shadow_output(%r) {{output_name = "r"}} : (tensor<{y}xf32>) -> ()
}}"""  # noqa: E501


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [(61,), (3, 25)])
@pytest.mark.parametrize("sorts", [False, True], ids=["one call", "steps"])
def test_frozen_programs(turned: bool, rows: tuple[int, ...], sorts: bool) -> None:
    """With and without a step that numpy runs, which makes a plan of several steps."""
    depth, columns = 5000, 25  # one column beyond a panel: the constant grows by a lot
    random = np.random.default_rng(1)
    x = random.standard_normal((*rows, depth), dtype=np.float32)
    w = random.standard_normal((columns, depth) if turned else (depth, columns), dtype=np.float32)
    b = random.standard_normal(columns, dtype=np.float32)
    shapes = {"x": x.shape, "w": w.shape, "y": (*rows, columns), "n": (columns,)}
    given = {name: "x".join(map(str, shape)) for name, shape in shapes.items()}
    y = given["y"]
    more = f'%o, %i = pd_op.argsort(%s) {{axis = -1 : i32, descending = false}} : (tensor<{y}xf32>) -> (tensor<{y}xf32>, tensor<{y}xi64>)\n  pir.shadow_output(%o) {{output_name = "o"}} : (tensor<{y}xf32>) -> ()'  # noqa: E501
    text = PROGRAM.format(**given, turned=str(turned).lower(), more=more if sorts else "")
    frozen = pirkit.compile(Program(parsed(text), {"w": w, "b": b}), freeze=True)
    held = [a.shape for name, a in frozen.params.items() if name.startswith("constant")]
    assert any(len(s) == 3 and prod(s) >= prod(w.shape) for s in held)
    wanted = x.astype(np.float64) @ (w.T if turned else w) + b
    found = frozen(x=x)
    np.testing.assert_allclose(found["r"], np.maximum(wanted, 0), atol=1e-3)
    if sorts:
        np.testing.assert_allclose(found["o"], np.sort(wanted), atol=1e-3)
