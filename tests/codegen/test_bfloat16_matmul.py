"""Products of bfloat16: pairs of terms in float32 in a stated order, one rounding at the end."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.compile import compiled
from pirkit.lowering.codegen.interpret_loops import run_loops
from pirkit.lowering.codegen.matmul.gemm import gemm_draft
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm
from pirkit.lowering.whole_program.matmul import matmul_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import Target, host
from tests.codegen.test_gemm import product_like

Array = np.ndarray[Any, Any]

SIZES = [
    (1, 70, 1031),  # few rows
    (5, 33, 300),
    (20, 300, 1000),
    (45, 5, 301),  # few columns
    (9, 33, 17),  # panels
    (65, 290, 48),
    (300, 70, 1601),  # two slices of the depth
]
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


def given(p: Gemm, transposed: tuple[bool, bool]) -> tuple[Array, Array, Array, Array]:
    """a and b as they lie in memory, and as matrices in float32."""
    random = np.random.default_rng(p.rows + p.depth)
    shapes = [(p.rows, p.depth), (p.depth, p.columns)]
    lying = [
        random.standard_normal((*p.batch, *(s[::-1] if t else s))).astype(p.dtype.np)
        for s, t in zip(shapes, transposed, strict=True)
    ]
    a, b = (
        (x.swapaxes(-1, -2) if t else x).astype(np.float32)
        for x, t in zip(lying, transposed, strict=True)
    )
    return lying[0], lying[1], a, b


def run(p: Gemm, a: Array, b: Array, target: Target, threads: int = 1) -> Array:
    made = np.full((*p.batch, p.rows, p.columns), np.nan, p.dtype.np)
    NativeFunction(compiled(gemm_draft(p, target, threads), target)).bind([a, b, made])()
    return made


def is_close(made: Array, a: Array, b: Array) -> bool:
    """Whether results are half a unit of bfloat16 from the product, plus what sums round."""
    wanted = a.astype(np.float64) @ b
    sums = (abs(a).astype(np.float64) @ abs(b)) * a.shape[-1] * 2.0**-24
    return bool((abs(made.astype(np.float64) - wanted) <= abs(wanted) * 2.0**-8 + sums).all())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", LAYOUTS)
def test_as_numpy(size: tuple[int, int, int], transposed: tuple[bool, bool]) -> None:
    for batch, threads in ((), 1), ((2,), 4):
        p = product_like(*size, transposed, batch, dt.bfloat16)
        x, y, a, b = given(p, transposed)
        assert is_close(run(p, x, y, host(), threads), a, b)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", LAYOUTS)
def test_the_loops_compute_the_matmul(
    size: tuple[int, int, int], transposed: tuple[bool, bool]
) -> None:
    """Also with a small cache, where later chunks of rows find the panels packed."""
    p = product_like(*size, transposed, (2,), dt.bfloat16)
    x, y, a, b = given(p, transposed)
    for cache, threads in ((1 << 14, 1), (1 << 20, 4)):
        nest = gemm_draft(p, replace(host(), l2_bytes=cache), threads).stages[-1].nest
        made = np.full((2, p.rows, p.columns), np.nan, p.dtype.np)
        run_loops(nest, [x, y, made])
        assert is_close(made, a, b)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("has_pairs", [True, False])
@pytest.mark.parametrize("transposed", LAYOUTS)
def test_the_order_of_a_sum(bits: int, has_pairs: bool, transposed: tuple[bool, bool]) -> None:
    """In panels, the bits are the same on every CPU: the odd term of each pair, then the even one,
    each sum rounded to float32. A slice of 1536 terms begins with 0.
    """
    if bits > host().vector_bits or (has_pairs and not host().has("avx512bf16")):
        pytest.skip("this CPU has no such vectors")
    # Tile registers have an order of their own.
    features = host().features.replace("+amx-", "-amx-")
    target = replace(host(), vector_bits=bits, l2_bytes=1 << 16, features=features)
    if not has_pairs:
        target = replace(target, features=target.features.replace("+avx512bf16,", ""))
        assert not target.has("avx512bf16")
    for depth in (7, 64, 1538):
        p = product_like(40, 35, depth, transposed, (), dt.bfloat16)
        x, y, a, b = given(p, transposed)
        half = -(-depth // -(-depth // 1536))
        half += half % 2
        total = np.zeros((p.rows, p.columns), np.float32)
        for first in range(0, depth, half):
            last, part = min(first + half, depth), np.zeros_like(total)
            for k in range(first, last, 2):
                for term in (k + 1, k):
                    if term < last:
                        # A product of two bfloat16 is exact in float32.
                        part = part + a[:, term, None] * b[term]
            total = part + total if first else part
        np.testing.assert_array_equal(run(p, x, y, target), total.astype(dt.bfloat16.np))


@pytest.mark.parametrize("size", SIZES[:4])
def test_without_the_instruction(size: tuple[int, int, int]) -> None:
    for bits in (128, 256, 512):
        if bits <= host().vector_bits:
            features = host().features.replace("+avx512bf16,", "")
            target = replace(host(), vector_bits=bits, features=features)
            for transposed in LAYOUTS:
                p = product_like(*size, transposed, (), dt.bfloat16)
                x, y, a, b = given(p, transposed)
                assert is_close(run(p, x, y, target), a, b)


def test_infinities_and_nan() -> None:
    """Neither the 0 beside the last term of an odd depth nor the padding of a panel meets them."""
    for rows, transposed in product((1, 5, 20), LAYOUTS):
        p = product_like(rows, 35, 33, transposed, (), dt.bfloat16)
        x, y, a, b = given(p, transposed)
        a[0, 32], b[32, 3], b[31, 4] = np.inf, np.nan, -np.inf
        x[...], y[...] = (m.T if t else m for m, t in zip((a, b), transposed, strict=True))
        with np.errstate(invalid="ignore"):
            wanted = a @ b
        made = run(p, x, y, host()).astype(np.float32)
        np.testing.assert_array_equal(np.isnan(made), np.isnan(wanted))
        np.testing.assert_array_equal(made[np.isinf(wanted)], wanted[np.isinf(wanted)])


def test_large_matmuls_are_native() -> None:
    x, y, out = (TensorMeta(s, dt.bfloat16) for s in ((128, 300), (200, 300), (128, 200)))
    assert isinstance(matmul_of(x, y, out, (False, True)), Gemm)
