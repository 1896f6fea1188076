"""The workloads in jax: compiled, with derivatives by Taylor series (`jax_jet`), op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import jet

from benchmarks.harness.workloads import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    GPT_HEADS,
    GPT_LENGTH,
    LEARNING_RATE,
    VISCOSITY,
    Arrays,
    Call,
    chain,
    operands_of,
    params_of,
)


def gelu_tanh(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1 + jnp.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def gelu_erf(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1 + jax.lax.erf(z * 0.70710678))


def normalized(x: Any, axes: Any) -> Any:
    d = x - x.mean(axes, keepdims=True)
    return d * jax.lax.rsqrt((d * d).mean(axes, keepdims=True) + 1e-5)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return normalized(x, -1) * w + b


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return normalized(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None]


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(jnp.einsum("bhsd,bhtd->bhst", q, k) * 0.125, -1) @ v


FORWARD: dict[str, Callable[..., Any]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "softmax_4096": jax.nn.softmax,
    "softmax_50257": jax.nn.softmax,
    "log_softmax_50257": jax.nn.log_softmax,
    "ln_fwd": layer_norm,
    "add_reduce0": lambda a, b: (a + b).sum(0),
    "transpose_add_reduce": lambda a, b: (a.T + b).sum(1),
    "attn_fwd": attention,
    "dispatch_100": chain,
}
BOTH: dict[str, Callable[..., Any]] = {
    "ln_fwdbwd": layer_norm,
    "bn_fwdbwd": batch_norm,
    "attn_fwdbwd": attention,
}


def adam(p: Any, m: Any, v: Any, g: Any, t: Any, decay: float = 0.0) -> tuple[Any, Any, Any]:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    root = jnp.sqrt(v) / jnp.sqrt(1 - BETA2**t)
    rate = LEARNING_RATE / (1 - BETA1**t)
    return p * (1 - LEARNING_RATE * decay) - rate * m / (root + EPSILON), m, v


def updated(params: Any, m: Any, v: Any, gradients: Any, t: Any, decay: float) -> tuple[Any, ...]:
    new = {k: adam(params[k], m[k], v[k], gradients[k], t, decay) for k in params}
    return tuple({k: new[k][i] for k in params} for i in range(3))


def training(loss: Callable[..., Any], params: Any, decay: float, with_loss: bool) -> Call:
    """Steps of Adam; parameters and moments stay in the buffers they are in."""

    def step(p: Any, m: Any, v: Any, t: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(p)
        return *updated(p, m, v, gradients, t, decay), value, gradients

    compiled = jax.jit(step, donate_argnums=(0, 1, 2))
    zeros = [{k: jnp.zeros_like(v) for k, v in params.items()} for _ in "mv"]
    state, count, names = [params, *zeros], [0], sorted(params)

    def run() -> list[Any]:
        count[0] += 1
        *state[:], value, gradients = jax.block_until_ready(compiled(*state, float(count[0])))
        return [value] * with_loss + [gradients[k] for k in names]

    return run


def network(params: Any, x: Any) -> Any:
    layers = len(params) // 2
    for k in range(layers):
        x = x @ params[f"w{k}"] + params[f"b{k}"]
        x = jnp.tanh(x) if k < layers - 1 else x
    return x


def beam(params: Any, x: Any, series: bool) -> Any:
    if series:
        one, zero = jnp.ones_like(x), jnp.zeros_like(x)
        found = jet.jet(lambda x: network(params, x), (x,), ([one, zero, zero, zero],))
        u, u1, u2, u3, u4 = (a[:, 0] for a in (found[0], *found[1]))
    else:
        fields = [lambda s: network(params, s[None])[0]]
        for _ in range(4):
            fields.append(jax.grad(fields[-1]))
        u, u1, u2, u3, u4 = (jax.vmap(field)(x[:, 0]) for field in fields)
    return ((u4 + 1) ** 2).mean() + u[0] ** 2 + u1[0] ** 2 + u2[-1] ** 2 + u3[-1] ** 2


def burgers(params: Any, x: Any, forward: bool) -> Any:
    if forward:

        def field(x: Any) -> Any:
            return network(params, x)

        ex, et = (jnp.broadcast_to(jnp.array(e), x.shape) for e in ([1.0, 0.0], [0.0, 1.0]))
        u, ut = jax.jvp(field, (x,), (et,))
        ux, uxx = jax.jvp(lambda x: jax.jvp(field, (x,), (ex,))[1], (x,), (ex,))
    else:

        def point(s: Any) -> Any:
            return network(params, s)[0]

        u, d = jax.vmap(point)(x)[:, None], jax.vmap(jax.grad(point))(x)
        uxx = jax.vmap(jax.grad(lambda s: jax.grad(point)(s)[0]))(x)[:, :1]
        ux, ut = d[:, :1], d[:, 1:]
    return ((ut + u * ux - VISCOSITY * uxx) ** 2).mean()


def gpt(p: Any, x: Any) -> Any:
    batch, length, width = x.shape
    mask = jnp.tril(jnp.ones((GPT_LENGTH, GPT_LENGTH), bool))
    h = layer_norm(x, p["ln1w"], p["ln1b"])
    shape = (batch, length, 3, GPT_HEADS, width // GPT_HEADS)
    q, k, v = jnp.transpose((h @ p["wqkv"] + p["bqkv"]).reshape(*shape), (2, 0, 3, 1, 4))
    s = jnp.where(mask, jnp.einsum("bhsd,bhtd->bhst", q, k) * 0.125, -1e30)
    a = (jax.nn.softmax(s, -1) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = x + a @ p["wo"] + p["bo"]
    h = layer_norm(x, p["ln2w"], p["ln2b"])
    x = x + jax.nn.gelu(h @ p["w1"] + p["b1"], approximate=True) @ p["w2"] + p["b2"]
    return (x * x).mean()


def convolution(x: Any, w: Any) -> Any:
    names = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=names)


def resnet(arrays: dict[str, Any]) -> Call:
    def loss(p: Any, x: Any, t: Any) -> Any:
        h = jax.nn.relu(batch_norm(convolution(x, p["w1"]), p["g1"], p["b1"]))
        h = batch_norm(convolution(h, p["w2"]), p["g2"], p["b2"])
        return ((jax.nn.relu(h + x) - t) ** 2).mean()

    def step(p: Any, m: Any, x: Any, t: Any) -> Any:
        value, (gradients, gx) = jax.value_and_grad(loss, (0, 1))(p, x, t)
        m = {k: 0.9 * m[k] + gradients[k] for k in p}
        return {k: p[k] - 0.1 * m[k] for k in p}, m, value, gx, gradients

    params = params_of(arrays)
    compiled = jax.jit(step, donate_argnums=(0, 1))
    state = [params, {k: jnp.zeros_like(v) for k, v in params.items()}]

    def run() -> list[Any]:
        found = jax.block_until_ready(compiled(*state, arrays["x"], arrays["t"]))
        *state[:], value, gx, gradients = found
        return [value, gx, *(gradients[k] for k in sorted(params))]

    return run


def adamw(x: dict[str, Any]) -> Call:
    compiled = jax.jit(lambda *a: adam(*a, DECAY), donate_argnums=(0, 1, 2))
    state, count = [x["p"], x["m"], x["v"]], [0]

    def run() -> list[Any]:
        count[0] += 1
        state[:] = jax.block_until_ready(compiled(*state, x["g"], float(count[0])))
        return list(state)

    return run


def build(framework: str, name: str, arrays: Arrays) -> Call:
    if framework == "jax_jet" and not name.startswith("pinn"):
        raise NotImplementedError(name)
    x = {k: jnp.array(v) for k, v in arrays.items()}
    if name in FORWARD:
        call = FORWARD[name] if framework == "jax_eager" else jax.jit(FORWARD[name])
        return lambda: [jax.block_until_ready(call(*operands_of(x)))]
    if framework == "jax_eager":
        raise NotImplementedError(name)
    if name in BOTH:

        def step(g: Any, *args: Any) -> list[Any]:
            y, pullback = jax.vjp(BOTH[name], *args)
            return [y, *pullback(g)]

        compiled = jax.jit(step)
        return lambda: jax.block_until_ready(compiled(x["g"], *operands_of(x)))
    if name == "adamw_10m":
        return adamw(x)
    if name == "resnet_block_step":
        return resnet(x)
    params = params_of(x)
    if name == "gpt_block_step":
        return training(lambda p: gpt(p, x["x"]), params, DECAY, True)
    series = framework == "jax_jet"
    field = beam if "beam" in name else burgers
    return training(lambda p: field(p, x["x"], series), params, 0.0, False)
