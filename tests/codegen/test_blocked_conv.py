"""Convolutions as products in blocks, against the reference rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pirkit.dialect.opdef import lookup, reference
from pirkit.lowering.codegen.conv import compile_conv, conv_blocking
from pirkit.lowering.codegen.conv.compile_conv import native_blocked_conv
from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem, conv_blocking_of
from pirkit.lowering.codegen.conv.transposed_conv_phases import (
    ConvSizes,
    conv_phases,
    transposed_conv_phases,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

# n, groups, each, depth, lengths, filter, strides, dilations, padding before and behind
CASES: dict[str, tuple[Any, ...]] = {
    "plain": (2, 1, 9, 5, (11, 13), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    "one by one": (3, 1, 17, 19, (7, 5), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "stride 2": (2, 1, 8, 6, (13, 12), (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))),
    "stride beyond filter": (1, 1, 5, 4, (17, 19), (2, 1), (3, 5), (1, 1), ((0, 2), (1, 0))),
    "dilated": (1, 1, 4, 3, (19, 40), (3, 3), (1, 1), (4, 7), ((4, 4), (7, 7))),
    "stride and dilation": (2, 1, 3, 2, (15, 20), (3, 4), (2, 3), (2, 3), ((2, 1), (5, 4))),
    "lopsided": (1, 1, 3, 2, (6, 9), (4, 2), (1, 2), (1, 1), ((3, 0), (0, 1))),
    "groups": (2, 3, 4, 2, (9, 8), (3, 3), (2, 1), (1, 1), ((1, 1), (0, 2))),
    "volumes": (2, 1, 6, 3, (5, 4, 9), (2, 3, 3), (2, 1, 2), (1, 2, 1), ((1, 0), (2, 2), (1, 1))),
    "many channels": (1, 1, 30, 150, (5, 6), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))),
    "many filters": (1, 1, 700, 3, (4, 4), (1, 1), (1, 1), (1, 1), ((0, 0), (0, 0))),
    "long rows": (1, 1, 2, 3, (1, 1501), (1, 5), (1, 1), (1, 1), ((0, 0), (2, 2))),
    "long rows, stride 2": (1, 1, 3, 2, (2, 2100), (1, 4), (1, 2), (1, 1), ((0, 0), (1, 2))),
    "long rows, padded": (1, 1, 8, 4, (8, 1500), (3, 3), (1, 1), (1, 128), ((1, 1), (128, 128))),
    "padding only": (1, 1, 2, 2, (1, 1), (3, 3), (1, 1), (1, 1), ((4, 4), (3, 3))),
    "any stride": (1, 1, 3, 2, (3, 4), (2, 2), (2**31 - 1,) * 2, (1, 1), ((0, 0), (0, 0))),
    "larger filter": (1, 1, 3, 2, (5, 6), (5, 6), (1, 1), (1, 1), ((0, 0), (0, 0))),
}


def sizes_of(case: tuple[Any, ...], dtype: DType) -> ConvSizes:
    n, groups, each, depth, lengths, sizes, strides, dilations, padding = case
    positions = tuple(
        (length + sum(p) - d * (k - 1) - 1) // s + 1
        for length, k, s, d, p in zip(lengths, sizes, strides, dilations, padding, strict=True)
    )
    before = tuple(p[0] for p in padding)
    sides = (lengths, sizes, positions, strides, dilations, before)
    return ConvSizes(n, groups, each, depth, dtype, *sides)


def attrs_of(case: tuple[Any, ...]) -> dict[str, Any]:
    *_, strides, dilations, padding = case
    return {
        "strides": strides,
        "paddings": tuple(p for pair in padding for p in pair),
        "dilations": dilations,
        "padding_algorithm": "EXPLICIT",
        "data_format": "NCHW" if len(strides) == 2 else "NCDHW",
        "groups": case[1],
    }


def arrays(dtype: DType, *shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype.np) for shape in shapes]


def run(parts: tuple[ConvProblem, ...], x: Array, w: Array, shape: tuple[int, ...]) -> Array:
    out = np.full(shape, np.nan, x.dtype)
    native_blocked_conv(parts).bind([x, w, out])()
    return out


def compare(found: Array, want: Array) -> None:
    tolerance = 1e-4 if found.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=repr)
def test_convolutions(name: str, dtype: DType) -> None:
    check_forward(name, dtype)


@pytest.mark.parametrize("name", ["plain", "stride 2", "groups", "volumes", "many channels"])
def test_filters_that_are_laid_out_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_blocking, "MAX_PLAIN_POSITIONS", 0)
    check_forward(name, dt.float32)


def check_forward(name: str, dtype: DType) -> None:
    case = CASES[name]
    s, op = sizes_of(case, dtype), f"pd_op.conv{len(case[4])}d"
    images = (s.n, s.groups * s.depth, *s.lengths)
    x, w = arrays(dtype, images, (s.groups * s.group_filters, s.depth, *s.sizes))
    want = reference.of(lookup(op))(x, w, **attrs_of(case))
    compare(run(conv_phases(s), x, w, want.shape), want)


@pytest.mark.parametrize("name", CASES)
def test_transposed_convolutions(name: str) -> None:
    """They turn the result of a convolution into its image."""
    case = CASES[name]
    f = sizes_of(case, dt.float32)
    s = ConvSizes(
        f.n, f.groups, f.depth, f.group_filters, f.dtype,
        f.positions, f.sizes, f.lengths, f.strides, f.dilations, f.before,
    )  # fmt: skip
    g, w = arrays(
        f.dtype,
        (f.n, f.groups * f.group_filters, *f.positions),
        (f.groups * f.group_filters, f.depth, *f.sizes),
    )
    least = [
        (p - 1) * m + d * (k - 1) + 1 - sum(pad)
        for p, k, m, d, pad in zip(
            f.positions, f.sizes, f.strides, f.dilations, case[-1], strict=True
        )
    ]
    extra = tuple(n - m for n, m in zip(f.lengths, least, strict=True))
    op = f"pd_op.conv{len(f.sizes)}d_transpose"
    attrs = {**attrs_of(case), "output_padding": extra, "output_size": ()}
    want = reference.of(lookup(op))(g, w, **attrs)
    assert want.shape[2:] == f.lengths
    compare(run(transposed_conv_phases(s), g, w, want.shape), want)


def test_odd_numbers_stay_where_they_belong() -> None:
    case = CASES["plain"]
    s = sizes_of(case, dt.float32)
    x, w = arrays(dt.float32, (2, 5, 11, 13), (9, 5, 3, 3))
    x[0, 2, 4, 5], x[1, 0, 10, 12] = np.nan, np.inf
    want = reference.of(lookup("pd_op.conv2d"))(x, w, **attrs_of(case))
    compare(run(conv_phases(s), x, w, want.shape), want)


def test_rows_outside_are_zeros_however_they_are_cut() -> None:
    """What stands in for them is multiplied, by infinities too."""
    s = sizes_of((1, 1, 8, 4, (8, 1500), (3, 3), (1, 1), (1, 16), ((1, 1), (16, 16))), dt.float32)
    x, w = arrays(dt.float32, (1, 4, 8, 1500), (8, 4, 3, 3))
    w[0, 0, 0, 0] = np.inf
    attrs = {"strides": (1, 1), "paddings": (1, 16), "dilations": (1, 16), "groups": 1,
             "padding_algorithm": "EXPLICIT", "data_format": "NCHW"}  # fmt: skip
    with np.errstate(invalid="ignore"):
        want = reference.of(lookup("pd_op.conv2d"))(x, w, **attrs)
    compare(run(conv_phases(s), x, w, want.shape), want)


@pytest.mark.parametrize("bits", ["128", "256"])
def test_narrower_vectors(bits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIRKIT_VECTOR_BITS", bits)
    host.cache_clear()
    try:
        for name in ("plain", "stride 2", "stride beyond filter", "long rows"):
            check_forward(name, dt.float32)
            test_transposed_convolutions(name)
    finally:
        monkeypatch.undo()
        host.cache_clear()


def test_every_part_of_large_sizes_has_work_for_threads() -> None:
    s = ConvSizes(
        1, 1, 64, 64, dt.float32, (56,) * 2, (3,) * 2, (56,) * 2, (1,) * 2, (1,) * 2, (1,) * 2
    )
    (c,) = conv_phases(s)
    cut = conv_blocking_of(c, host(), 16)
    assert -(-56 // cut.lines) * -(-64 // (cut.rows * cut.filter_tiles)) >= 8


def test_tasks_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """More threads share finer blocks; each sum has its terms in the same order."""
    sides = (14, 9), (3, 3), (14, 9), (1, 1), (1, 1), (1, 1)
    phases = conv_phases(ConvSizes(2, 1, 45, 33, dt.float32, *sides))
    x, w = arrays(dt.float32, (2, 33, 14, 9), (45, 33, 3, 3))
    found: list[Array] = []
    for threads in (1, 16):
        monkeypatch.setattr(compile_conv, "thread_count", lambda threads=threads: threads)
        found.append(run(phases, x, w, (2, 45, 14, 9)))
    np.testing.assert_array_equal(found[0], found[1])
    blocks = [conv_blocking_of(phases[0], host(), threads) for threads in (1, 16)]
    assert blocks[0] != blocks[1]


@pytest.mark.parametrize("filters", [28, 44, 45])
def test_filters_of_several_tiles_share_the_vectors_left(filters: int) -> None:
    """One vector is left over; the filters of some tiles run together, those of others alone."""
    lengths = (1, host().vector_bits // 32 - 3)
    s = ConvSizes(1, 1, filters, 200, dt.float32, lengths, (1, 1), lengths, (1, 1), (1, 1), (0, 0))
    (c,) = conv_phases(s)
    cut = conv_blocking_of(c, host(), 1)
    assert cut.stacked > 1
    x, w = arrays(dt.float32, (1, 200, *lengths), (filters, 200, 1, 1))
    want = np.einsum("fc,ncyx->nfyx", w[:, :, 0, 0].astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(run((c,), x, w, want.shape), want, rtol=1e-4, atol=1e-4)
