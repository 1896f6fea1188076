"""Attention as a single op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from pirkit.dialect.opdef import (
    RANDOM,
    bad_samples,
    draws,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"

ROUNDED = 128
"""Paddle rounds the lengths of its side results up to a multiple of this."""


@op
class FlashAttention:
    """`softmax(q k^T / sqrt(d) + mask) v` for `[batch, length, heads, d]`, f32 inside.

    With `causal` a query sees the keys up to its own place, counted from the end. Fewer heads of
    `k` and `v` are each shared by several of `q`. `softmax_lse` is the logarithm of the sum of
    exponentials of each row; its length and that of `softmax`, which is filled with
    `return_softmax` only, are rounded up to 128 as in Paddle, the rest being zero.

    C1: `q`, `k` and `v` have four dimensions and one dtype.
    C2: batch and depth of `q`, `k` and `v` agree, as do the lengths of `k` and `v`.
    C3: the heads of `q` are a multiple of those of `k` and `v`.
    C4: `dropout` lies in [0, 1].
    """

    name = "pd_op.flash_attn"
    signature = (
        "q, k, v, fixed_seed_offset?, attn_mask? ; dropout: f32 = 0.0, causal: bool = False, "
        'return_softmax: bool = False, is_test: bool = False, rng_name: str = "" '
        "-> out, softmax~, softmax_lse~, seed_offset~"
    )
    dtypes = dt.FLOATS
    effects = RANDOM


@infer_meta(FlashAttention)
def _(
    q: TensorMeta,
    k: TensorMeta,
    v: TensorMeta,
    seed: TensorMeta | None,
    mask: TensorMeta | None,
    *,
    dropout: float,
    **_: object,
) -> tuple[TensorMeta, ...]:
    require(q.rank == k.rank == v.rank == 4, "C1", f"{q}, {k} and {v} have not four dimensions")
    require(q.dtype is k.dtype is v.dtype, "C1", f"dtypes of {q}, {k} and {v} differ")
    fits = all(same_dim(q.shape[i], k.shape[i]) for i in (0, 3))
    fits = fits and same_dim(k.shape[1], v.shape[1]) and same_dim(k.shape[2], v.shape[2])
    require(fits, "C2", f"{show(q.shape)}, {show(k.shape)} and {show(v.shape)} do not fit")
    known = UNKNOWN not in (q.shape[2], k.shape[2])
    shared = not known or (k.shape[2] > 0 and q.shape[2] % k.shape[2] == 0)
    require(shared, "C3", f"{q.shape[2]} heads share {k.shape[2]}")
    require(0 <= dropout <= 1, "C4", f"dropout {dropout}")
    rows = (q.shape[0], q.shape[2], _rounded(q.shape[1]))
    return (
        q.with_shape((*q.shape[:3], v.shape[3])),
        q.with_shape((*rows, _rounded(k.shape[1]))),
        TensorMeta(rows, dt.float32),
        TensorMeta((2,), dt.int64),
    )


def _rounded(length: int) -> int:
    return UNKNOWN if length == UNKNOWN else -(-length // ROUNDED) * ROUNDED


@draws(FlashAttention)
def _(attrs: Mapping[str, Any]) -> bool:
    return attrs["dropout"] > 0 and not attrs["is_test"]


@reference(FlashAttention)
def _(
    q: Array,
    k: Array,
    v: Array,
    seed: Array | None,
    mask: Array | None,
    *,
    dropout: float,
    causal: bool,
    return_softmax: bool,
    is_test: bool,
    rng: np.random.Generator,
    **_: object,
) -> tuple[Array, ...]:
    shared = q.shape[2] // max(k.shape[2], 1)
    queries: Array = widened(q).transpose(0, 2, 1, 3)
    keys: Array = np.repeat(widened(k).transpose(0, 2, 1, 3), shared, axis=1)
    values: Array = np.repeat(widened(v).transpose(0, 2, 1, 3), shared, axis=1)
    kind = queries.dtype.type
    scores: Array = queries @ keys.swapaxes(-1, -2) * kind(1 / np.sqrt(max(q.shape[3], 1)))
    rows: int = q.shape[1]
    columns: int = k.shape[1]
    if mask is not None:
        scores = scores + widened(mask)
    if causal:
        places: Array = np.arange(rows)[:, None] + (columns - rows)
        hidden: Array = np.asarray(np.arange(columns) > places)
        scores = np.where(hidden, kind(-np.inf), scores)
    # A row that the mask hides entirely has the maximum -inf and the sum 0; its weights are zeros.
    top: Array = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, kind(0))
    powers: Array = np.exp(scores - top)
    total: Array = powers.sum(axis=-1, keepdims=True)
    weights: Array = powers / np.where(total > 0, total, kind(1))
    if dropout and not is_test:
        drawn: Array = rng.random(cast("tuple[int, ...]", powers.shape))
        keep_mask: Array = np.asarray(drawn >= dropout)
        scaled: Array = weights / kind(max(1 - dropout, 1e-30))
        weights = np.where(keep_mask, scaled, kind(0))
    out: Array = (weights @ values).transpose(0, 2, 1, 3)
    long = (_rounded(rows), _rounded(columns))  # Paddle pads these two results
    lse = np.zeros((*scores.shape[:2], long[0]), np.float32)
    lse[..., :rows] = (top + np.log(total))[..., 0]
    shown: Array = np.broadcast_to(np.zeros((), q.dtype), (*scores.shape[:2], *long))
    if return_softmax:
        shown = np.zeros((*scores.shape[:2], *long), q.dtype)
        shown[..., :rows, :columns] = weights
    return out.astype(q.dtype), shown, lse, np.zeros(2, np.int64)


@samples(FlashAttention)
def _(s: SampleMaker) -> Iterator[Sample]:
    q, k = s.tensor(2, 3, 4, 2), s.tensor(2, 5, 2, 2)
    yield s(q, s.tensor(2, 3, 4, 2), s.tensor(2, 3, 4, 2), causal=True)
    yield s(q, k, s.tensor(2, 5, 2, 2), None, s.tensor(2, 1, 3, 5), is_test=True)
    yield s(q, k, s.tensor(2, 5, 2, 2), dropout=0.5, return_softmax=True)
    yield s(s.tensor(0, 3, 1, 2), s.tensor(0, 3, 1, 2), s.tensor(0, 3, 1, 2))


@bad_samples(FlashAttention)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 3, 4, 2)
    yield "C1", s(s.tensor(3, 4, 2), x, x)
    yield "C2", s(x, s.tensor(1, 3, 4, 2), x)
    yield "C3", s(x, s.tensor(2, 3, 3, 2), s.tensor(2, 3, 3, 2))
    yield "C4", s(x, x, x, dropout=1.5)
