"""Attention as matmuls around a softmax."""

from __future__ import annotations

import math

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, may_draw
from pirkit.dialect.rules.movement.movement import arange
from pirkit.dialect.rules.nn.dropout import drawn_above
from pirkit.dialect.rules.random.random import shape_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN


@decompose("pd_op.flash_attn")
def _(c: OpCall) -> tuple[Value | None, ...]:
    """In float32. Rows that see nothing are zero."""
    b, q = c.b, c.q
    heads = (q.shape[2], c.k.shape[2])
    if UNKNOWN in heads or q.shape[3] == UNKNOWN or not c.k.shape[1]:  # no key has a greatest score
        return NotImplemented
    keys, values = (_shared(b, b.wide(x), heads[0] // max(heads[1], 1)) for x in (c.k, c.v))
    queries = b.transpose(b.wide(q), perm=(0, 2, 1, 3))
    scores = b.matmul(queries, keys, transpose_y=True) * (1 / math.sqrt(max(q.shape[3], 1)))
    if c.attn_mask is not None:
        scores = scores + b.wide(c.attn_mask)
    if c.causal:
        scores = b.where(_hidden(b, q, c.k), b.value(-math.inf, scores), scores)
    top = b("pd_op.max", scores, axis=(-1,), keepdim=True)
    sees = b.isfinite(top)
    shown = b.where(sees, scores, b.zeros_like(scores))
    weights = b.where(sees, b.softmax(shown, axis=-1), b.zeros_like(scores))
    if may_draw(c.definition, c.op.attribute_values()):
        keep_mask = drawn_above(b, c.dropout, shape_of(b, weights))
        larger = b.scaled(weights, 1 / max(1 - c.dropout, 1e-30))
        weights = b.where(keep_mask, larger, b.zeros_like(weights))
    out = b.cast(b.transpose(weights @ values, perm=(0, 2, 1, 3)), q.dtype)
    return out, *_sides(c, scores, weights), b.const(0, dt.int64, (2,))


def _shared(b: Builder, x: Value, times: int) -> Value:
    """Keys or values ``[batch, heads, length, d]``, each head for several of the queries."""
    x = b.transpose(x, perm=(0, 2, 1, 3))
    return x if times == 1 else b.repeat_interleave(x, repeats=times, axis=1)


def _hidden(b: Builder, q: Value, k: Value) -> Value:
    """True where a key is after the position of a query, counted from the end."""
    rows, columns = arange(b, q, 1), arange(b, k, 1)
    last = b("pd_op.max", rows, axis=(0,), keepdim=True)
    end = b("pd_op.max", columns, axis=(0,), keepdim=True)
    places = b.unsqueeze(rows - last + end, axis=(1,))
    return b.greater_than(columns, places)


def _sides(c: OpCall, scores: Value, weights: Value) -> tuple[Value | None, Value | None]:
    """The weights and the logarithms of the sums, padded to the sizes that Paddle gives them."""
    b = c.b
    softmax = lse = None
    if c.is_used("softmax"):
        softmax = _filled(b, b.cast(weights, c.q.dtype), c.result_meta("softmax").shape)
        softmax = softmax if c.return_softmax else b.zeros_like(softmax)
    if c.is_used("softmax_lse"):
        found = b.logsumexp(scores, axis=(-1,), keepdim=False, reduce_all=False)
        lse = _filled(b, b.cast(found, dt.float32), c.result_meta("softmax_lse").shape)
    return softmax, lse


def _filled(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """``x`` padded with zeros at the end, up to a shape."""
    pads = [
        n
        for have, want in zip(x.shape, shape, strict=True)
        for n in (0, 0 if want == UNKNOWN else want - have)
    ]
    return b.pad(x, paddings=tuple(pads), pad_value=0.0) if any(pads) else x
