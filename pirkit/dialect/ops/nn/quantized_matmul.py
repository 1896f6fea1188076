"""Matmul whose right operand is stored in 8 or 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"

WEIGHT_OPERANDS: Final = {"pd_op.matmul": 1, "pd_op.embedding": 1, "pd_op.conv2d": 1}
"""Ops whose weights are quantized, with the operand that holds them."""
STORED: Final = (dt.int8, dt.bfloat16, dt.float16)
"""The element types of weights beside `x` in float32."""
MAX_DEPTH: Final = (2**31 - 1) // 128**2
"""K at most of sums of products of signed 8-bit numbers that an int32 holds."""


@op
class QuantizedMatmul:
    """`matmul` of `x [..., M, K]` with weights `[K, N]` of fewer bits; a float32 `[..., M, N]`.

    With `x` in float32 it is `x (weights scales)`: each column is multiplied by its scale `[N]`.
    With `x` in int8 or uint8 the products are added exactly, in int32, then `offsets [N]`, which
    hold biases and what a zero point of `x` contributes; the float32 nearest to a sum is multiplied
    by the scale of its row, `x_scales [..., M, 1]` or `[1]`, then by that of its column. So results
    of integers have the same bits on every CPU (Jacob et al., CVPR 2018).

    Weights may be in panels, as native code reads them: `[P, K, n]`, panel p with columns `p n` to
    `(p + 1) n`; for integers `[P, L, n, g]`, where row l holds the g (2 or 4) terms from g l on
    of each column. What is beyond N columns or K terms is 0. The pass `quantize` makes this op, and
    `pack-matmuls` the panels.

    C1: `x` is float32 beside weights in int8, bfloat16 or float16, or int8 or uint8 beside int8.
    C2: `x` has two dimensions or more, weights two or those of panels.
    C3: `x` and the weights have the same K; of int8 at most 131,071, of uint8 half of that.
    C4: the weights have `columns` columns; the last panel has at least one of them.
    C5: `scales [columns]` is float32, and is there for int8.
    C6: `x_scales` is float32, and is there if and only if `x` holds integers.
    C7: `offsets [columns]` is int32, beside `x` in integers.
    """

    name = "pir.quantized_matmul"
    dtypes = (dt.float32, dt.int8, dt.uint8)
    signature = "x, weights, scales?, x_scales?, offsets? ; columns: i64 -> out"


@infer_meta(QuantizedMatmul)
def _(
    x: TensorMeta, weights: TensorMeta, scales: TensorMeta | None, x_scales: TensorMeta | None,
    offsets: TensorMeta | None, *, columns: int,
) -> TensorMeta:  # fmt: skip
    exact = x.dtype in (dt.int8, dt.uint8)
    known = (dt.int8,) if exact else STORED
    fits = (exact or x.dtype is dt.float32) and weights.dtype in known
    require(fits, "C1", f"there is no product of {x.dtype} and {weights.dtype}")
    panels = weights.rank == 3 + exact
    require(x.rank >= 2 and (panels or weights.rank == 2), "C2",
            f"input {x} and weights {weights} have other dimensions")  # fmt: skip
    depth, held = x.shape[-1], weights.shape[1 if panels else 0]
    group = weights.shape[3] if exact and panels else 1
    rows = -(-depth // group) if group > 0 and depth != UNKNOWN else depth
    grouped = not (panels and exact) or group in (2, 4, UNKNOWN)
    require((same_dim(rows, held) or group == UNKNOWN) and grouped, "C3",
            f"input {show(x.shape)} does not fit weights {show(weights.shape)}")  # fmt: skip
    most = MAX_DEPTH // 2 if x.dtype is dt.uint8 else MAX_DEPTH
    require(not exact or depth <= most, "C3", f"sums of {depth} products may leave int32")
    if panels:
        count, width = weights.shape[0], weights.shape[2]
        full = UNKNOWN in (count, width) or (count - 1) * width < columns <= count * width
    else:
        full = same_dim(weights.shape[1], columns)
    require(full, "C4", f"there are not {columns} columns in {show(weights.shape)}")
    if scales is None:
        require(weights.dtype is not dt.int8, "C5", "weights in int8 have no scales")
    else:
        found = scales.dtype is dt.float32 and scales.rank == 1
        require(found and same_dim(scales.shape[0], columns), "C5",
                f"scales {scales} are not float32[{columns}]")  # fmt: skip
    require((x_scales is not None) == exact, "C6", "`x_scales` are those of an input in integers")
    if x_scales is not None:
        each = (*x.shape[:-1], 1)
        wanted = (1,) if x_scales.rank == 1 else each
        spread = x_scales.rank == len(wanted) and all(map(same_dim, x_scales.shape, wanted))
        require(x_scales.dtype is dt.float32 and spread, "C6",
                f"scales {x_scales} are neither one nor {show(each)} in float32")  # fmt: skip
    if offsets is not None:
        found = offsets.dtype is dt.int32 and offsets.rank == 1 and exact
        require(found and same_dim(offsets.shape[0], columns), "C7",
                f"offsets {offsets} are not int32[{columns}], or are added to floats")  # fmt: skip
    return TensorMeta((*x.shape[:-1], columns), dt.float32)


def unpacked(weights: Array, depth: int, columns: int) -> Array:
    """The matrix `[K, N]` of weights that may be in panels."""
    if weights.ndim == 2:
        return weights
    if weights.ndim == 4:
        count, rows, width, group = weights.shape
        weights = weights.transpose(0, 1, 3, 2).reshape(count, group * rows, width)
    return weights.transpose(1, 0, 2).reshape(weights.shape[1], -1)[:depth, :columns]


@reference(QuantizedMatmul)
def _(
    x: Array, weights: Array, scales: Array | None, x_scales: Array | None,
    offsets: Array | None = None, *, columns: int,
) -> Array:  # fmt: skip
    matrix = unpacked(weights, x.shape[-1], columns)
    if x_scales is None:
        wide = matrix.astype(np.float32)
        return np.matmul(x, wide if scales is None else wide * scales)
    assert scales is not None
    # float64 holds these sums exactly, and numpy multiplies it fast
    sums = np.matmul(x.astype(np.float64), matrix.astype(np.float64))
    sums = sums if offsets is None else sums + offsets
    return sums.astype(np.float32) * x_scales * scales


@samples(QuantizedMatmul)
def _(s: SampleMaker) -> Iterator[Sample]:
    if s.dtype is dt.float32:
        yield s(s.tensor(3, 4), _bytes(s, 4, 5), s.tensor(5), None, columns=5)
        yield s(s.tensor(2, 3, 4), _bytes(s, 2, 4, 3), s.tensor(5), None, columns=5)
        yield s(s.tensor(3, 4), s.tensor(4, 5, dtype=dt.bfloat16), None, None, columns=5)
        return
    x = s.tensor(2, 3, 5)
    if s.dtype is dt.uint8:
        offsets = s.tensor(4, dtype=dt.int32)
        yield s(x, _bytes(s, 5, 4), _floats(s, 4), _floats(s, 2, 3, 1), offsets, columns=4)
        yield s(x, _bytes(s, 2, 2, 3, 4), _floats(s, 4), _floats(s, 1), offsets, columns=4)
        return
    yield s(x, _bytes(s, 5, 4), _floats(s, 4), _floats(s, 2, 3, 1), columns=4)
    yield s(x, _bytes(s, 2, 3, 3, 2), _floats(s, 4), _floats(s, 1), columns=4)
    yield s(x, _bytes(s, 2, 2, 3, 4), _floats(s, 4), _floats(s, 1), columns=4)


@bad_samples(QuantizedMatmul)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, short, w, scales = _floats(s, 3, 4), _bytes(s, 3, 4), _bytes(s, 4, 5), _floats(s, 5)
    one, half = _floats(s, 1), s.tensor(4, 5, dtype=dt.float16)
    yield "C1", s(x, _floats(s, 4, 5), scales, None, columns=5)
    yield "C1", s(short, half, scales, one, columns=5)
    yield "C2", s(_floats(s, 4), w, scales, None, columns=5)
    yield "C3", s(_floats(s, 3, 6), w, scales, None, columns=5)
    yield "C3", s(short, _bytes(s, 2, 3, 3, 2), scales, one, columns=5)
    yield "C3", s(short, _bytes(s, 2, 2, 3, 3), scales, one, columns=5)
    yield "C4", s(x, w, scales, None, columns=4)
    yield "C4", s(x, _bytes(s, 2, 4, 3), _floats(s, 7), None, columns=7)
    yield "C5", s(x, w, None, None, columns=5)
    yield "C5", s(x, w, _floats(s, 4), None, columns=5)
    yield "C6", s(short, w, scales, None, columns=5)
    yield "C6", s(x, w, scales, one, columns=5)
    yield "C6", s(short, w, scales, _floats(s, 2, 1), columns=5)
    yield "C7", s(short, w, scales, one, scales, columns=5)
    yield "C7", s(x, w, scales, None, s.tensor(5, dtype=dt.int32), columns=5)


def _bytes(s: SampleMaker, *shape: int) -> Any:
    return s.tensor(*shape, dtype=dt.int8)


def _floats(s: SampleMaker, *shape: int) -> Any:
    return s.tensor(*shape, dtype=dt.float32)
