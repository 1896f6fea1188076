"""Matmuls by the tile registers of AMX: their loops on any CPU, their code where AMX exists."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.gemm import gemm_draft
from pirkit.lowering.codegen.matmul.quantized_rows import product_tile, rows_product_draft
from pirkit.lowering.codegen.matmul.quantized_tile import RowsProduct
from pirkit.lowering.codegen.matmul.tile_registers import has_tiles
from pirkit.runtime import dtype as dt
from pirkit.runtime.native import target as target_of_host
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.codegen.test_bfloat16_matmul import LAYOUTS, given, is_close
from tests.codegen.test_gemm import product_like

_FEATURES: Final = (
    "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi2,+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512bf16,"
    "+avx512vnni,+amx-tile,+amx-bf16,+amx-int8"
)
AMX: Final = Target("x86_64-unknown-linux-gnu", "x86-64-v4", _FEATURES, 512, 1 << 21)
SIZES: Final = [(20, 17, 40), (32, 32, 64), (33, 65, 47), (70, 100, 1100)]
NEEDS_AMX: Final = pytest.mark.skipif(
    not has_tiles(host(), "amx-bf16"), reason="this CPU has no tile registers"
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", LAYOUTS)
def test_loops_of_bfloat16(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    """Also with a small cache, where later chunks of rows find the panels packed."""
    p = product_like(*size, transposed, (2,), dt.bfloat16)
    x, y, a, b = given(p, transposed)
    for cache in (1 << 14, 1 << 21):
        draft = gemm_draft(p, replace(AMX, l2_bytes=cache), 2)
        assert "tdpbf16ps" in draft.text
        made = np.full((2, p.rows, p.columns), np.nan, p.dtype.np)
        run_loops(draft.stages[-1].nest, [x, y, made])
        assert is_close(made, a, b)


@NEEDS_AMX
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", LAYOUTS)
def test_code_of_bfloat16(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    """NaN behind the rows of A must not meet the zeros of panels."""
    p = product_like(*size, transposed, (), dt.bfloat16)
    x, y, a, b = given(p, transposed)
    room = np.full(x.size + 64, np.nan, x.dtype)
    room[: x.size] = x.ravel()
    for threads in (1, 3):
        made = np.full((p.rows, p.columns), np.nan, p.dtype.np)
        function = NativeFunction(compiled(gemm_draft(p, host(), threads), host()))
        function.bind([room[: x.size].reshape(x.shape), y, made])()
        assert is_close(made, a, b)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 33, 64), (40, 100, 128), (33, 64, 64)])
@pytest.mark.parametrize("unsigned", [True, False])
def test_bytes_are_exact(rows: int, columns: int, depth: int, unsigned: bool) -> None:
    random = np.random.default_rng(rows)
    kind, low, high = (np.uint8, 0, 256) if unsigned else (np.int8, -128, 128)
    x = random.integers(low, high, (rows, depth)).astype(kind)
    width = product_tile(AMX, True, columns).columns
    count = -(-columns // width)
    w = np.zeros((depth, count * width), np.int8)
    w[:, :columns] = random.integers(-127, 128, (depth, columns))
    panels = w.reshape(depth // 4, 4, count, width).transpose(2, 0, 3, 1).copy()
    scales, row_scales = (random.random(n, np.float32) for n in (columns, rows))
    p = RowsProduct(rows, columns, depth, dt.int8, True, True, True, 4, unsigned)
    sums = x.astype(np.int32) @ w[:, :columns].astype(np.int32)
    wanted = sums.astype(np.float32) * row_scales[:, None] * scales
    draft = rows_product_draft(p, AMX, 2)
    assert "tdpbusd" in draft.text
    made = np.full((rows, columns), np.nan, np.float32)
    operands = [x, panels, made, scales, row_scales]
    run_loops(draft.stages[-1].nest, operands)
    np.testing.assert_array_equal(made, wanted)
    if has_tiles(host(), "amx-int8"):
        made[...] = np.nan
        NativeFunction(compiled(rows_product_draft(p, host(), 2), host())).bind(operands)()
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.skipif(not host().x86, reason="LLVM compiles here for another architecture")
def test_code_is_generated_on_cpus_without_tile_registers() -> None:
    p = product_like(70, 100, 1100, (False, True), (), dt.bfloat16)
    assert compiled(gemm_draft(p, AMX, 1), AMX).image


def test_tile_registers_need_permission_and_accesses_that_nobody_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert has_tiles(AMX, "amx-int8")
    assert not has_tiles(replace(AMX, sanitized=True), "amx-int8")
    monkeypatch.setattr(target_of_host, "tiles_permitted", lambda: False)
    assert not target_of_host.host.__wrapped__().has("amx-tile")
