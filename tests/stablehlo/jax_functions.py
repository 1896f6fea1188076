"""Functions of JAX with arguments: networks, solvers, derivatives, random numbers, indexing.

``python -m tests.stablehlo.jax_functions`` exports each for float32 and float64 to `programs`, with
the arguments and what jax computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax, nn, random

FOLDER = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def case(*shapes: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function with arguments: shapes of random floats, or arrays of integers."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[function.__name__] = function, shapes
        return function

    return enter


def arguments(name: str, dtype: str) -> list[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(sum(map(ord, name)))
    return [s if isinstance(s, np.ndarray) else draw.normal(0.0, 0.5, s).astype(dtype)
            for s in FUNCTIONS[name][1]]  # fmt: skip


def normalized(x: Any, axis: Any = -1) -> Any:
    return (x - x.mean(axis, keepdims=True)) * lax.rsqrt(x.var(axis, keepdims=True) + 1e-5)


@case((8, 4), (4, 16), (16,), (16, 3))
def mlp(x: Any, w: Any, b: Any, v: Any) -> Any:
    return nn.log_softmax(nn.relu(x @ w + b) @ v)


@case((2, 3, 8, 8), (4, 3, 3, 3), (4,), (4, 1, 3, 3), (36, 5))
def cnn(x: Any, filters: Any, scale: Any, depthwise: Any, weight: Any) -> Any:
    y = lax.conv_general_dilated(x, filters, (1, 1), "SAME")
    y = nn.relu(normalized(y, (0, 2, 3)) * scale[:, None, None])
    y = lax.conv_general_dilated(y, depthwise, (1, 1), "VALID", feature_group_count=4)
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return y.reshape(2, -1) @ weight


@case((2, 6, 8), (8, 24), (8, 8), (8, 32), (32, 8))
def transformer(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    q, k, v = jnp.split((normalized(x) @ qkv).reshape(2, 6, 6, 4), 3, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2.0
    scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
    x = x + mixed.reshape(2, 6, 8) @ out
    return x + nn.gelu(normalized(x) @ up, approximate=False) @ down


@case((5, 2, 3), (2, 4), (3, 12), (4, 12))
def gru(xs: Any, state: Any, w: Any, u: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        a, b = x @ w, h @ u
        z, r = (nn.sigmoid(a[:, i : i + 4] + b[:, i : i + 4]) for i in (0, 4))
        h = (1 - z) * h + z * jnp.tanh(a[:, 8:] + r * b[:, 8:])
        return h, h

    return lax.scan(step, state, xs)


def field(w: Any, v: Any, at: Any) -> Any:
    return jnp.tanh(at @ w) @ v


@case((7, 2), (2, 8), (8,))
def pinn(points: Any, w: Any, v: Any) -> Any:
    """The residual of the heat equation, and the gradient of its mean square."""

    def loss(w: Any, v: Any) -> Any:
        def residual(at: Any) -> Any:
            u = partial(field, w, v)
            return jax.grad(u)(at)[1] - jax.hessian(u)(at)[0, 0]

        found = jax.vmap(residual)(points)
        return (found**2).mean(), found

    return jax.value_and_grad(loss, (0, 1), has_aux=True)(w, v)


@case((8, 3), (8,), (3, 6), (6,), (3, 6), (6,), (3, 6), (6,))
def adam(x: Any, y: Any, w: Any, v: Any, mw: Any, mv: Any, sw: Any, sv: Any) -> Any:
    """One step of training."""
    loss, grads = jax.value_and_grad(lambda p: ((nn.silu(x @ p[0]) @ p[1] - y) ** 2).mean())((w, v))
    new = []
    for p, g, m, s in zip((w, v), grads, (mw, mv), (sw, sv), strict=True):
        m, s = 0.9 * m + 0.1 * g, 0.999 * s**2 + 0.001 * g**2
        new.append((p - 0.01 * (m / 0.1) / (jnp.sqrt(s / 0.001) + 1e-8), m, s))
    return loss, new


@case((4, 5))
def hessians(x: Any) -> Any:
    return jax.vmap(jax.hessian(lambda v: jnp.prod(jnp.sin(v)) + (v**3).sum()))(x)


@case((4, 6), np.array([3, 0, 3], np.int32), (3, 6))
def indexing(x: Any, rows: Any, updates: Any) -> Any:
    order = jnp.argsort(x, axis=1)
    return (jnp.sort(x, axis=0), order, jnp.argmax(x, axis=1), jnp.argmin(x), lax.top_k(x, 3),
            x[rows], x[rows, ::2], jnp.take_along_axis(x, order, 1), x.at[rows].add(updates),
            x.at[:, 1].set(0.0), x.at[rows, jnp.array([0, 9, 2])].max(5.0),
            jnp.cumsum(x, 1), lax.cummax(x, 0), jnp.searchsorted(x[0], updates))  # fmt: skip


@case((4, 6), (2, 8))
def fourier(x: Any, y: Any) -> Any:
    spectrum = jnp.fft.rfft(y) * jnp.exp(-1j * jnp.arange(5))
    return jnp.fft.fft2(x), jnp.fft.irfft(spectrum), jnp.abs(spectrum), jnp.fft.ifft(x)


@case((3, 4), np.array(1, np.int32))
def branches(x: Any, which: Any) -> Any:
    y = lax.cond(x.sum() > 0, jnp.sin, lambda a: a - 1, x)
    z = lax.switch(which, [lambda a: a, lambda a: a * 2, lambda a: a + 3], y)
    n, w = lax.while_loop(
        lambda s: (s[1] < 50).all(), lambda s: (s[0] + 1, s[1] * 2 + 1), (0, z**2)
    )
    return y, z, n, w


@case(np.array([0, 42], np.uint32), np.array([1, 5, 2**31, 2**32 - 1], np.uint32), (5,))
def bits(key: Any, words: Any, x: Any) -> Any:
    key, other = random.split(random.wrap_key_data(key))
    n = words.astype(jnp.int32)
    return (random.uniform(key, (3, 4), x.dtype), random.normal(other, (5,), x.dtype) * x,
            random.bits(key, (4,)), random.randint(other, (6,), 0, 17), words // 3, words % 7,
            words >> 3, n >> 3, n // 4, lax.population_count(words), lax.clz(words), ~words ^ 5,
            random.bernoulli(key, 0.3, (8,)), words.max(), words.astype(jnp.float32))  # fmt: skip


@case((2, 1, 8), (2, 2, 6, 4), (2, 2, 6, 4), np.array(3, np.int32), (8, 24), (8, 16))
def decode(x: Any, keys: Any, values: Any, at: Any, qkv: Any, vocabulary: Any) -> Any:
    """A step of a decoder with a cache of keys and values."""
    q, k, v = jnp.split((normalized(x) @ qkv).reshape(2, 1, 6, 4).transpose(0, 2, 1, 3), 3, axis=1)
    zero = jnp.zeros_like(at)
    keys = lax.dynamic_update_slice(keys, k, (zero, zero, at, zero))
    values = lax.dynamic_update_slice(values, v, (zero, zero, at, zero))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) * 0.5
    scores = jnp.where(jnp.arange(6) <= at, scores, jnp.finfo(x.dtype).min)
    x = x + jnp.einsum("bhqk,bhkd->bqhd", nn.softmax(scores), values).reshape(2, 1, 8)
    logits = x[:, 0] @ vocabulary
    return jnp.argmax(logits, -1), logits, keys, values


@case((4, 4), (4, 2))
def solvers(a: Any, b: Any) -> Any:
    spd = a @ a.T + 2 * jnp.eye(4, dtype=a.dtype)
    factor = jnp.linalg.cholesky(spd)
    low = jax.scipy.linalg.solve_triangular(factor, b, lower=True)
    return (jnp.linalg.solve(spd, b), low, jnp.linalg.inv(spd), jnp.linalg.slogdet(spd),
            jnp.linalg.eigh(spd)[0], jnp.linalg.svd(a, compute_uv=False),
            jnp.abs(jnp.linalg.qr(a)[1]), jnp.linalg.det(a))  # fmt: skip


@case((2, 6, 6, 3), (3, 3, 3, 4), (3, 3, 4, 3))
def pooling(x: Any, filters: Any, back: Any) -> Any:
    """Windows in other layouts, and their derivatives."""
    layout = ("NHWC", "HWIO", "NHWC")

    def loss(x: Any, filters: Any) -> Any:
        y = lax.conv_general_dilated(x, filters, (2, 2), "SAME", dimension_numbers=layout)
        y = lax.conv_transpose(y, back, (2, 2), "SAME", dimension_numbers=layout)
        most = lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        mean = lax.reduce_window(y, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID") / 4
        return (most**2).sum() + (mean**3).sum()

    return jax.value_and_grad(loss, (0, 1))(x, filters)


def exported(name: str, arrays: list[Any]) -> str:
    """The text of a function for arguments, which all stay inputs."""
    function = jax.jit(FUNCTIONS[name][0], keep_unused=True)
    text = export.export(function, platforms=["cpu"])(*arrays).mlir_module()
    return text.replace(f"{ROOT}/", "")


def computed(name: str, arrays: list[Any]) -> list[np.ndarray[Any, Any]]:
    """What jax computes, one array for each leaf of the result."""
    return [np.asarray(a) for a in jax.tree.leaves(jax.jit(FUNCTIONS[name][0])(*arrays))]


def record() -> None:
    """Write the programs and numbers."""
    jax.config.update("jax_enable_x64", True)
    for name in FUNCTIONS:
        for dtype in ("float32", "float64"):
            given = arguments(name, dtype)
            text = exported(name, given)
            if name != "mlp":  # one program keeps its locations
                text = re.sub(r" loc\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\)", "", text)
                text = re.sub(r"^#loc.*\n", "", text, flags=re.MULTILINE)
            (FOLDER / f"{name}.{dtype}.mlir").write_text(text)
            wanted = computed(name, given)
            held = {f"input_{i}": a for i, a in enumerate(given)}
            np.savez_compressed(FOLDER / f"{name}.{dtype}.npz", **held,
                                **{f"output_{i}": a for i, a in enumerate(wanted)})  # fmt: skip


if __name__ == "__main__":
    record()
