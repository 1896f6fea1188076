"""The workloads in Paddle, op by op and by `to_static` (`paddle_st`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as functional

from benchmarks.harness.workloads import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    GPT_HEADS,
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
    return 0.5 * z * (1 + paddle.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def gelu_erf(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1 + paddle.erf(z * 0.70710678))


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return functional.layer_norm(x, [x.shape[-1]], w, b)


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return functional.batch_norm(x, paddle.zeros([64]), paddle.ones([64]), w, b, True)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = paddle.matmul(q, k, transpose_y=True) * 0.125
    return paddle.matmul(functional.softmax(scores, -1), v)


FORWARD: dict[str, Callable[..., Any]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "softmax_4096": lambda x: functional.softmax(x, -1),
    "softmax_50257": lambda x: functional.softmax(x, -1),
    "log_softmax_50257": lambda x: functional.log_softmax(x, -1),
    "ln_fwd": layer_norm,
    "add_reduce0": lambda a, b: (a + b).sum(0),
    "transpose_add_reduce": lambda a, b: (a.t() + b).sum(1),
    "attn_fwd": attention,
    "dispatch_100": chain,
}
BOTH: dict[str, Callable[..., Any]] = {
    "ln_fwdbwd": layer_norm,
    "bn_fwdbwd": batch_norm,
    "attn_fwdbwd": attention,
}


def forward(function: Any, tensors: list[Any]) -> Call:
    def run() -> list[Any]:
        with paddle.no_grad():
            return [function(*tensors)]

    return run


def both(function: Any, tensors: list[Any], seed: Any) -> Call:
    for tensor in tensors:
        tensor.stop_gradient = False

    def run() -> list[Any]:
        for tensor in tensors:
            tensor.clear_gradient(False)
        y = function(*tensors)
        paddle.autograd.backward([y], [seed])
        return [y.detach(), *(t.grad for t in tensors)]

    return run


def parameters(tensors: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in params_of(tensors).items():
        found[name] = paddle.create_parameter(value.shape, "float32")
        found[name].set_value(value)
    return found


def adamw(x: dict[str, Any]) -> Call:
    p = paddle.create_parameter(x["p"].shape, "float32")
    p.set_value(x["p"])
    optimizer = paddle.optimizer.AdamW(
        LEARNING_RATE, BETA1, BETA2, EPSILON, parameters=[p], weight_decay=DECAY
    )
    p.grad = x["g"]
    optimizer._create_accumulators(paddle.base.framework.default_main_program().global_block(), [p])
    moments = [optimizer._accumulators[k][p.name] for k in ("moment1", "moment2")]
    for moment, given in zip(moments, "mv", strict=True):
        moment.set_value(x[given])

    def run() -> list[Any]:
        p.grad = x["g"]
        optimizer.step()
        return [p.detach(), *moments]

    return run


def network(params: dict[str, Any], x: Any) -> Any:
    layers = len(params) // 2
    for k in range(layers):
        x = paddle.add(paddle.matmul(x, params[f"w{k}"]), params[f"b{k}"])
        x = paddle.tanh(x) if k < layers - 1 else x
    return x


def pinn(name: str, tensors: dict[str, Any], compiled: Any) -> Call:
    """Masks stand for the ends of the beam: slices have no derivative of that order."""
    paddle.framework.core.set_prim_eager_enabled(True)
    paddle.framework.core._set_prim_all_enabled(True)
    params, x = parameters(tensors), tensors["x"]
    names, x.stop_gradient = sorted(params), False
    ends = [np.zeros(x.shape, np.float32) for _ in range(2)]
    ends[0][0] = ends[1][-1] = 1
    first, last = map(paddle.to_tensor, ends)

    def along(y: Any, x: Any) -> Any:
        return paddle.grad([y], [x], create_graph=True)[0]

    def beam(x: Any) -> Any:
        u = network(params, x)
        u1 = along(u, x)
        u2 = along(u1, x)
        u3 = along(u2, x)
        held = first * (u * u + u1 * u1) + last * (u2 * u2 + u3 * u3)
        return ((along(u3, x) + 1) ** 2).mean() + held.sum()

    def burgers(x: Any) -> Any:
        u = network(params, x)
        d = along(u, x)
        uxx = along(d[:, :1], x)[:, :1]
        return ((d[:, 1:] + u * d[:, :1] - VISCOSITY * uxx) ** 2).mean()

    loss = compiled(beam if "beam" in name else burgers)
    optimizer = paddle.optimizer.Adam(
        LEARNING_RATE, BETA1, BETA2, EPSILON, parameters=[params[k] for k in names]
    )

    def run() -> list[Any]:
        optimizer.clear_grad(False)
        x.clear_gradient(False)
        loss(x).backward()
        optimizer.step()
        return [params[k].grad for k in names]

    return run


def gpt(tensors: dict[str, Any], compiled: Any) -> Call:
    p = parameters(tensors)
    names = sorted(p)

    def loss(x: Any) -> Any:
        batch, length, width = x.shape
        h = layer_norm(x, p["ln1w"], p["ln1b"])
        shape = [batch, length, 3, GPT_HEADS, width // GPT_HEADS]
        qkv = paddle.add(paddle.matmul(h, p["wqkv"]), p["bqkv"]).reshape(shape)
        heads = (qkv[:, :, k] for k in range(3))
        a = functional.scaled_dot_product_attention(*heads, is_causal=True)
        a = a.reshape([batch, length, width])
        x = paddle.add(x + paddle.matmul(a, p["wo"]), p["bo"])
        h = layer_norm(x, p["ln2w"], p["ln2b"])
        inner = functional.gelu(paddle.add(paddle.matmul(h, p["w1"]), p["b1"]), True)
        x = paddle.add(x + paddle.matmul(inner, p["w2"]), p["b2"])
        return (x * x).mean()

    optimizer = paddle.optimizer.AdamW(
        LEARNING_RATE, BETA1, BETA2, EPSILON, parameters=[p[k] for k in names], weight_decay=DECAY
    )
    call = compiled(loss)

    def run() -> list[Any]:
        optimizer.clear_grad(False)
        value = call(tensors["x"])
        value.backward()
        optimizer.step()
        return [value.detach(), *(p[k].grad for k in names)]

    return run


def resnet(tensors: dict[str, Any], compiled: Any) -> Call:
    p, x = parameters(tensors), tensors["x"]
    names, x.stop_gradient = sorted(p), False

    def loss(x: Any, t: Any) -> Any:
        h = batch_norm(functional.conv2d(x, p["w1"], padding=1), p["g1"], p["b1"])
        h = functional.conv2d(functional.relu(h), p["w2"], padding=1)
        h = batch_norm(h, p["g2"], p["b2"])
        return ((functional.relu(h + x) - t) ** 2).mean()

    optimizer = paddle.optimizer.Momentum(0.1, 0.9, parameters=[p[k] for k in names])
    call = compiled(loss)

    def run() -> list[Any]:
        optimizer.clear_grad(False)
        x.clear_gradient(False)
        value = call(x, tensors["t"])
        value.backward()
        optimizer.step()
        return [value.detach(), x.grad, *(p[k].grad for k in names)]

    return run


def build(framework: str, name: str, arrays: Arrays) -> Call:
    paddle.set_device("cpu")
    is_static = framework == "paddle_st"

    def compiled(function: Any) -> Any:
        return paddle.jit.to_static(function, full_graph=True) if is_static else function

    x = {k: paddle.to_tensor(v) for k, v in arrays.items()}
    if name in FORWARD:
        return forward(compiled(FORWARD[name]), operands_of(x))
    if name in BOTH:
        return both(compiled(BOTH[name]), operands_of(x), x["g"])
    if name == "adamw_10m":
        if is_static:
            raise NotImplementedError("an optimizer is no function")
        return adamw(x)
    if name.startswith("pinn"):
        return pinn(name, x, compiled)
    return (gpt if name.startswith("gpt") else resnet)(x, compiled)
