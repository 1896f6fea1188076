"""The workloads in numpy, and the limits of the machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.workloads import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    LEARNING_RATE,
    WORKLOADS,
    Arrays,
    Call,
    chain,
)

f = np.float32


def gelu_tanh(x: Any, b: Any) -> list[Any]:
    z = x + b
    return [f(0.5) * z * (1 + np.tanh(f(0.7978845608) * (z + f(0.044715) * z * z * z)))]


def softmax(x: Any) -> list[Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return [e]


def log_softmax(x: Any) -> list[Any]:
    d = x - x.max(-1, keepdims=True)
    d -= np.log(np.exp(d).sum(-1, keepdims=True))
    return [d]


def normalized(x: Any, axes: Any) -> tuple[Any, Any]:
    d = x - x.mean(axes, keepdims=True)
    r = 1 / np.sqrt((d * d).mean(axes, keepdims=True) + f(1e-5))
    return d * r, r


def layer_norm(x: Any, w: Any, b: Any, g: Any) -> list[Any]:
    return [normalized(x, -1)[0] * w + b]


def layer_norm_both(x: Any, w: Any, b: Any, g: Any) -> list[Any]:
    h, r = normalized(x, -1)
    gh = g * w
    inner = gh - gh.mean(-1, keepdims=True) - h * (gh * h).mean(-1, keepdims=True)
    return [h * w + b, r * inner, (g * h).sum(0), g.sum(0)]


def batch_norm_both(x: Any, w: Any, b: Any, g: Any) -> list[Any]:
    axes = (0, 2, 3)
    w, b = w[:, None, None], b[:, None, None]
    h, r = normalized(x, axes)
    gw, gb = (g * h).sum(axes), g.sum(axes)
    n = f(x.size // 64)
    gx = r * w * (g - gb[:, None, None] / n - h * (gw[:, None, None] / n))
    return [h * w + b, gx, gw, gb]


def attention(q: Any, k: Any, v: Any, g: Any) -> list[Any]:
    return [softmax((q @ k.swapaxes(-1, -2)) * f(1 / 8))[0] @ v]


def attention_both(q: Any, k: Any, v: Any, g: Any) -> list[Any]:
    (s,) = softmax((q @ k.swapaxes(-1, -2)) * f(1 / 8))
    gs = g @ v.swapaxes(-1, -2)
    gs = s * (gs - (gs * s).sum(-1, keepdims=True)) * f(1 / 8)
    return [s @ v, gs @ k, gs.swapaxes(-1, -2) @ q, s.swapaxes(-1, -2) @ g]


def adamw(arrays: Arrays) -> Call:
    p, m, v = (arrays[k].copy() for k in "pmv")
    g, count = arrays["g"], [0]

    def run() -> list[Any]:
        count[0] += 1
        np.multiply(p, f(1 - LEARNING_RATE * DECAY), p)
        np.multiply(m, f(BETA1), m)
        np.add(m, f(1 - BETA1) * g, m)
        np.multiply(v, f(BETA2), v)
        np.add(v, f(1 - BETA2) * g * g, v)
        rate = f(LEARNING_RATE / (1 - BETA1 ** count[0]))
        root = np.sqrt(v) / f(math.sqrt(1 - BETA2 ** count[0]))
        np.subtract(p, rate * m / (root + f(EPSILON)), p)
        return [p, m, v]

    return run


TABLE: dict[str, Callable[..., list[Any]]] = {
    "gelu_tanh": gelu_tanh,
    "softmax_4096": softmax,
    "softmax_50257": softmax,
    "log_softmax_50257": log_softmax,
    "ln_fwd": layer_norm,
    "ln_fwdbwd": layer_norm_both,
    "bn_fwdbwd": batch_norm_both,
    "add_reduce0": lambda a, b: [(a + b).sum(0)],
    "transpose_add_reduce": lambda a, b: [(a.T + b).sum(1)],
    "attn_fwd": attention,
    "attn_fwdbwd": attention_both,
    "dispatch_100": lambda x, a, b: [chain(x, a, b)],
}


def limit(name: str) -> Call:
    """What moving the bytes, or doing the arithmetic, costs when that is all that is done."""
    workload = WORKLOADS[name]
    if workload.flops:
        n = 1536
        a, b, c = (np.ones((n, n), f) for _ in range(3))
        return lambda: [np.matmul(a, b, out=c)][:0]
    if not workload.nbytes:
        raise NotImplementedError("neither bytes nor arithmetic limit this one")
    source = np.ones(workload.nbytes // 8, f)
    target = np.empty_like(source)
    return lambda: [np.copyto(target, source)][:0]


def build(framework: str, name: str, arrays: Arrays) -> Call:
    if framework == "limit":
        return limit(name)
    if name == "adamw_10m":
        return adamw(arrays)
    if name not in TABLE:
        raise NotImplementedError(name)
    function = TABLE[name]
    return lambda: function(**arrays)
