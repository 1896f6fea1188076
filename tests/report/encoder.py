"""A transformer encoder, whose lines a report shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pirkit import ops

Tree = dict[str, Any]


def attention(x: Any, p: Tree, heads: int) -> Any:
    b, n, d = x.shape

    def split_heads(w: Any) -> Any:
        return ops.transpose(ops.reshape(x @ w, [b, n, heads, d // heads]), [0, 2, 1, 3])

    q, k, v = (split_heads(p[name]) for name in ("q", "k", "v"))
    scores = ops.matmul(q, k, transpose_y=True) * (1 / math.sqrt(d // heads))
    weights = ops.softmax(scores)
    mixed = ops.transpose(ops.matmul(weights, v), [0, 2, 1, 3])
    return ops.reshape(mixed, [b, n, d]) @ p["o"]


def normalized(x: Any, p: Tree) -> Any:
    centered = x - x.mean(axis=-1, keepdim=True)
    variance = (centered * centered).mean(axis=-1, keepdim=True)
    return centered * ops.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def feed_forward(x: Any, p: Tree) -> Any:
    hidden = ops.gelu(x @ p["w1"] + p["b1"])
    return hidden @ p["w2"] + p["b2"]


def layer(x: Any, p: Tree, heads: int = 4) -> Any:
    x = x + attention(normalized(x, p["before_attention"]), p["attention"], heads)
    return x + feed_forward(normalized(x, p["before_hidden"]), p["hidden"])


def loss(layers: list[Tree], x: Any, y: Any) -> Any:
    for p in layers:
        x = layer(x, p)
    return ((x - y) ** 2).mean()


def arguments(layers: int, width: int = 64) -> tuple[list[Tree], Any, Any]:
    """Parameters, input and target of batches of 4 sequences of 32 rows."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) / 8).astype(np.float32)

    def one() -> Tree:
        norms = {"scale": weights(width), "shift": weights(width)}
        hidden = {
            "w1": weights(width, 4 * width),
            "b1": weights(4 * width),
            "w2": weights(4 * width, width),
            "b2": weights(width),
        }
        return {
            "attention": {name: weights(width, width) for name in "qkvo"},
            "before_attention": norms,
            "before_hidden": dict(norms),
            "hidden": hidden,
        }

    x = weights(4, 32, width)
    return [one() for _ in range(layers)], x, x
