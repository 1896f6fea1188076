"""Convolutions with large filters and few positions (gradients of filters), against the rules."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from pirkit.dialect.opdef import lookup, reference
from pirkit.lowering.codegen.conv.compile_conv import native_weight_grad
from pirkit.lowering.codegen.conv.conv_weight_grad import WeightGrad, weight_grad_blocking_of
from pirkit.lowering.codegen.emit.batch_compile import LazyFunction
from pirkit.lowering.native_conv import bind_convolution
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host
from tests.codegen.guarded import Guarded, survives
from tests.codegen.test_blocked_conv import compare
from tests.codegen.test_tiles import bound

Array = np.ndarray[Any, Any]

# images, groups, each, depth, lengths, windows, positions, move, spread, before
CASES: dict[str, tuple[Any, ...]] = {
    "plain": (5, 1, 7, 3, (9, 11), (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one position": (9, 1, 20, 2, (6, 17), (6, 17), (1, 1), (1, 1), (1, 1), (0, 0)),
    "of stride 2": (4, 1, 3, 3, (13, 20), (7, 10), (3, 3), (1, 1), (2, 2), (1, 1)),
    "of dilation": (3, 1, 17, 2, (13, 12), (7, 8), (3, 3), (3, 2), (1, 1), (0, 0)),
    "lopsided": (3, 1, 2, 2, (6, 9), (7, 8), (4, 2), (1, 1), (1, 2), (3, -1)),
    "groups": (3, 4, 9, 2, (8, 9), (8, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "volumes": (4, 1, 3, 2, (4, 5, 9), (4, 3, 9), (2, 3, 3), (1, 2, 1), (1, 1, 1), (1, 2, 1)),
    "many positions": (2, 1, 5, 2, (30, 60), (12, 40), (2, 21), (1, 1), (1, 1), (0, 0)),
    "many images": (131, 1, 3, 1, (9, 5), (9, 5), (3, 1), (1, 1), (1, 1), (1, 0)),
    "many filters": (3, 1, 300, 1, (9, 9), (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "long rows": (3, 1, 4, 6, (1, 700), (1, 700), (1, 5), (1, 1), (1, 1), (0, 2)),
    "rows in pieces": (3, 2, 9, 2, (2, 2000), (2, 1000), (1, 3), (1, 1), (1, 2), (0, 1)),
    "planes together": (3, 1, 5, 7, (6, 7), (6, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "rows of planes": (3, 1, 18, 2, (23, 40), (23, 40), (3, 3), (1, 1), (1, 1), (1, 1)),
    "rows far apart": (2, 1, 3, 2, (40, 40), (10, 37), (2, 2), (2, 1), (4, 1), (0, 0)),
    "many parts": (2, 1, 3, 40, (12, 30), (12, 30), (3, 3), (1, 1), (1, 1), (1, 1)),
}


def case(name: str, dtype: DType) -> WeightGrad:
    fields: list[Any] = [*CASES[name], dtype]
    return WeightGrad(*fields)


def arrays(c: WeightGrad) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    images = (c.images, c.groups * c.depth, *c.lengths)
    filters = (c.groups * c.group_filters, c.depth, *c.windows)
    x, w = (rng.standard_normal(shape).astype(c.dtype.np) for shape in (images, filters))
    return x, w


def rule(c: WeightGrad, x: Array, w: Array) -> Array:
    """The convolution, with padding behind that gives the positions, or with less of the image."""
    axes = zip(
        c.lengths, c.windows, c.positions, c.image_stride, c.window_stride, c.before, strict=True
    )
    padding: list[int] = []
    for axis, (length, k, positions, move, spread, before) in enumerate(axes):
        cut = max(-before, 0)
        x = np.take(x, range(cut, length), axis + 2)
        behind = (positions - 1) * move + spread * (k - 1) + 1 - before - length
        x = np.take(x, range(x.shape[axis + 2] + min(behind, 0)), axis + 2)
        padding += [max(before, 0), max(behind, 0)]
    attrs = {
        "strides": c.image_stride,
        "paddings": tuple(padding),
        "dilations": c.window_stride,
        "groups": c.groups,
        "padding_algorithm": "EXPLICIT",
        "data_format": "NCHW" if len(c.image_stride) == 2 else "NCDHW",
    }
    return reference.of(lookup(f"pd_op.conv{len(c.image_stride)}d"))(x, w, **attrs)


def run(c: WeightGrad, x: Array, w: Array) -> Array:
    out = np.full((c.images, c.groups * c.group_filters, *c.positions), np.nan, c.dtype.np)
    strides = (*x.strides[:2], *w.strides[:2])
    native_weight_grad(c, strides).bind([x, w, out])()  # pyright: ignore[reportArgumentType]
    return out


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_correlations(name: str, dtype: Any) -> None:
    c = case(name, dtype)
    x, w = arrays(c)
    want = rule(c, x, w)
    assert want.shape[2:] == c.positions
    scale = 1 if dtype is dt.float64 else max(1, c.rows * c.windows[-1] / 50)
    compare(run(c, x, w) / scale, want / scale)


def test_rows_of_images_are_copied_once_for_all_positions() -> None:
    target = replace(host(), l2_bytes=1 << 20)
    cuts = {name: weight_grad_blocking_of(case(name, dt.float32), target) for name in CASES}
    assert cuts["planes together"].planes == 4
    assert cuts["planes together"].shares_copy
    assert cuts["rows of planes"].lines < 23
    assert cuts["rows of planes"].shares_copy
    assert not cuts["rows far apart"].shares_copy


@pytest.mark.skipif(sys.platform != "linux", reason="asks for forbidden pages")
def test_a_segment_of_a_long_row_is_prefetched_and_not_the_row() -> None:
    """Each segment once prefetched whole rows: the time grew with the square of their length."""
    sides = (1, 100_000), (1, 100_004), (1, 5), (1, 1), (1, 1), (0, 4)
    function = native_weight_grad(WeightGrad(1, 1, 1, 1, *sides, dt.float32)).steps[0][0]
    assert isinstance(function, LazyFunction)
    bounds = re.findall(r"icmp slt i64 %\w+, (\d+)\n", function.write().text)
    assert 0 < max(map(int, bounds)) < 4 * 1000


@pytest.mark.parametrize("at_end", [True, False])
def test_nothing_beside_operands_is_touched(at_end: bool) -> None:
    guarded = Guarded()
    runs: list[Any] = []
    for name in ("planes together", "rows of planes", "of stride 2", "volumes", "rows in pieces"):
        c = case(name, dt.float32)
        out = np.zeros((c.images, c.groups * c.group_filters, *c.positions), np.float32)
        held = [guarded(a, at_end) for a in (*arrays(c), out)]
        far = (*held[0].strides[:2], *held[1].strides[:2])
        runs.append(native_weight_grad(c, far).bind(held))  # pyright: ignore[reportArgumentType]

    def run() -> None:
        for each in runs:
            each()

    assert survives(run)


def test_sums_of_parts_are_added() -> None:
    c = case("many parts", dt.float32)
    assert weight_grad_blocking_of(c, host()).parts > 2


def test_axes_may_lie_in_any_order() -> None:
    c = case("of stride 2", dt.float64)
    x, w = arrays(c)
    transposed = [
        np.ascontiguousarray(a.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3) for a in (x, w)
    ]
    np.testing.assert_array_equal(run(c, *transposed), run(c, x, w))


@pytest.mark.parametrize("name", ["plain", "rows in pieces"])
def test_odd_numbers_stay_where_they_belong(name: str) -> None:
    c = case(name, dt.float32)
    x, w = arrays(c)
    x[2, 1, 0, 0] = x[0, 0, 1, -1] = np.inf
    w[3, 1, 1, 4] = np.nan
    with np.errstate(invalid="ignore"):  # some kernels of a BLAS report inf * 0, others do not
        want = rule(c, x, w)
    compare(run(c, x, w), want)


def test_narrower_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", "256")
    host.cache_clear()
    try:
        for name in ("plain", "of stride 2", "many positions"):
            test_correlations(name, dt.float32)
    finally:
        monkeypatch.undo()
        host.cache_clear()


@pytest.mark.parametrize("dtype", [dt.float32, dt.float16], ids=repr)
def test_gradients_of_filters_are_native(dtype: Any) -> None:
    """Batch and channels are exchanged, as views or as copies; halves are widened."""
    b = bound((16, 8, 30, 31), (24, 8, 30, 31), groups=1)
    metas = [m.with_dtype(dtype) for m in (b.input(), b.input(1), b.output())]
    step = bind_convolution(replace(b, inputs=tuple(metas[:2]), outputs=tuple(metas[2:])))
    assert step is not None
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(b.input(k).shape).astype(dtype.np) for k in (0, 1))
    want = reference.of(lookup(b.op))(x.astype(np.float64), w.astype(np.float64), **b.attrs)
    out = np.full(want.shape, np.nan, dtype.np)
    step(x.transpose(1, 0, 2, 3).copy().transpose(1, 0, 2, 3), np.asfortranarray(w), out)
    tolerance = 1e-3 if dtype is dt.float32 else 0.2
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=tolerance, atol=tolerance)
