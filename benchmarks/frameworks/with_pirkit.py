"""The workloads in pirkit: each one a program that is recorded and compiled.

`register` is for harnesses that take a function of inputs for each workload.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import pirkit
from benchmarks.harness.workloads import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    GPT_HEADS,
    LEARNING_RATE,
    VISCOSITY,
    WORKLOADS,
    Arrays,
    Call,
    chain,
    operands_of,
    params_of,
)
from pirkit import ops
from pirkit.frontend.tracing import trace
from pirkit.frontend.tree import flatten

FUSED = "taylor,expand-gradients,@fused"
THREADS = int(os.environ.get("PIRKIT_NUM_THREADS", "1"))


def gelu_tanh(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1.0 + ops.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def gelu_erf(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1.0 + ops.erf(z * 0.70710678))


def normalized(x: Any, axes: list[int]) -> Any:
    d = x - x.mean(axes, keepdim=True)
    return d * ops.rsqrt((d * d).mean(axes, keepdim=True) + 1e-5)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return normalized(x, [-1]) * w + b


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    shape = [1, 64, 1, 1]
    return normalized(x, [0, 2, 3]) * ops.reshape(w, shape) + ops.reshape(b, shape)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = ops.matmul(q, k, transpose_y=True) * 0.125
    return ops.matmul(ops.softmax(scores, -1), v)


FORWARD: dict[str, Callable[..., Any]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "softmax_4096": lambda x: ops.softmax(x, -1),
    "softmax_50257": lambda x: ops.softmax(x, -1),
    "log_softmax_50257": lambda x: ops.log_softmax(x, -1),
    "ln_fwd": layer_norm,
    "add_reduce0": lambda a, b: (a + b).sum(0),
    "transpose_add_reduce": lambda a, b: (ops.transpose(a, [1, 0]) + b).sum(1),
    "attn_fwd": attention,
    "dispatch_100": chain,
}
BOTH: dict[str, Callable[..., Any]] = {
    "ln_fwdbwd": layer_norm,
    "bn_fwdbwd": batch_norm,
    "attn_fwdbwd": attention,
}


def compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """A function of arrays: one native call where that is possible, else a plan of kernels."""
    traced = trace(function, arguments)
    whole = pirkit.compile(traced.program, fast_math=True)
    if whole.native is not None:
        return whole.native
    executable = pirkit.compile(traced.program, pipeline=FUSED, threads=THREADS)
    names = [p.name for p in executable.plan.inputs]
    results = [o.name for o in executable.plan.outputs]

    def call(*arrays: Any) -> list[Any]:
        found = executable.run(dict(zip(names, arrays, strict=True)))
        return [found[name] for name in results]

    return call


def backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The result of a function, and the cotangents of its arguments, as one function."""

    def both(g: Any, *args: Any) -> Any:
        gradient = pirkit.grad(lambda *a: (function(*a) * g).sum(), tuple(range(len(args))))
        return function(*args), *gradient(*args)

    return both


def step_of_adam(
    p: Any, m: Any, v: Any, g: Any, rate: Any, root: Any, decay: float
) -> tuple[Any, Any, Any]:
    m = m * BETA1 + g * (1 - BETA1)
    v = v * BETA2 + g * g * (1 - BETA2)
    kept = p * (1 - LEARNING_RATE * decay) if decay else p
    return kept - rate * m / (ops.sqrt(v) * root + EPSILON), m, v


def rates(t: Any) -> tuple[Any, Any]:
    """What Adam multiplies with in step ``t``."""
    rate = LEARNING_RATE / (1.0 - ops.exp(t * math.log(BETA1)))
    return rate, ops.rsqrt(1.0 - ops.exp(t * math.log(BETA2)))


def bound(step: Callable[..., Any], state: list[Any], others: tuple[Any, ...]) -> Call:
    """Steps that write their state where it is; ``step`` gives new state, then what it returns.

    Bound to a native call, the other results are the same arrays in all steps, too.
    """
    arguments = (*state, *others)
    call = compiled(step, arguments)
    leaves = [np.ascontiguousarray(leaf) for leaf in flatten(tuple(arguments))[0]]
    held = len(flatten(tuple(state))[0])
    if not hasattr(call, "bind"):

        def run() -> list[Any]:
            found = call(*leaves)
            leaves[:held] = found[:held]
            return list(found[held:])

        return run
    made = [*leaves[:held], *(np.empty(m.shape, m.dtype.np) for m in call.results[held:])]
    go = call.bind(leaves, made)

    def run_in_place() -> list[Any]:
        go()
        return made[held:]

    return run_in_place


def training(
    loss: Callable[..., Any], params: Arrays, others: tuple[Any, ...], decay: float, with_loss: bool
) -> Call:
    names = sorted(params)

    def step(p: Any, m: Any, v: Any, t: Any, *rest: Any) -> Any:
        value, gradients = pirkit.value_and_grad(lambda p: loss(p, *rest))(p)
        t = t + 1.0
        new = {k: step_of_adam(p[k], m[k], v[k], gradients[k], *rates(t), decay) for k in names}
        state = ({k: new[k][i] for k in names} for i in range(3))
        return *state, t, *[value] * with_loss, *[gradients[k] for k in names]

    zeros = [{k: np.zeros_like(a) for k, a in params.items()} for _ in "mv"]
    held = {k: a.copy() for k, a in params.items()}
    return bound(step, [held, *zeros, np.zeros(1, np.float32)], others)


def adamw(x: Arrays) -> Call:
    def step(p: Any, m: Any, v: Any, t: Any, g: Any) -> Any:
        t = t + 1.0
        return *step_of_adam(p, m, v, g, *rates(t), DECAY), t

    state = [x[k].copy() for k in "pmv"]
    run = bound(step, [*state, np.zeros(1, np.float32)], (x["g"],))

    def steps() -> list[Any]:
        run()
        return state

    return steps


def network(params: Any, x: Any) -> Any:
    layers = len(params) // 2
    for k in range(layers):
        x = ops.add(ops.matmul(x, params[f"w{k}"]), params[f"b{k}"])
        x = ops.tanh(x) if k < layers - 1 else x
    return x


def beam(params: Any, x: Any, first: Any, last: Any) -> Any:
    one, zero = ops.full_like(x, 1.0), ops.full_like(x, 0.0)
    series = (one, zero, zero, zero)
    u, (u1, u2, u3, u4) = pirkit.jet(lambda y: network(params, y), (x,), (series,))
    return ((u4 + 1.0) ** 2).mean() + (first * (u * u + u1 * u1) + last * (u2 * u2 + u3 * u3)).sum()


def burgers(params: Any, x: Any, along: Any, later: Any) -> Any:
    zero = ops.full_like(x, 0.0)
    u, (ux, uxx) = pirkit.jet(lambda y: network(params, y), (x,), ((along, zero),))
    _, (ut,) = pirkit.jet(lambda y: network(params, y), (x,), ((later,),))
    return ((ut + u * ux - VISCOSITY * uxx) ** 2).mean()


def pinn(name: str, arrays: Arrays) -> Call:
    params, x = params_of(arrays), arrays["x"]
    marks = np.zeros_like(x), np.zeros_like(x)
    if "beam" in name:
        marks[0][0] = marks[1][-1] = 1
    else:
        marks[0][:, 0] = marks[1][:, 1] = 1
    return training(beam if "beam" in name else burgers, params, (x, *marks), 0.0, False)


def gpt(p: Any, x: Any, mask: Any) -> Any:
    batch, length, width = x.shape
    h = layer_norm(x, p["ln1w"], p["ln1b"])
    qkv = ops.matmul(h, p["wqkv"]) + p["bqkv"]
    qkv = ops.reshape(qkv, [batch, length, 3, GPT_HEADS, width // GPT_HEADS])
    q, k, v = ops.unbind(ops.transpose(qkv, [2, 0, 3, 1, 4]), 0)
    scores = ops.matmul(q, k, transpose_y=True) * 0.125 + mask
    a = ops.transpose(ops.matmul(ops.softmax(scores, -1), v), [0, 2, 1, 3])
    x = x + ops.matmul(ops.reshape(a, [batch, length, width]), p["wo"]) + p["bo"]
    h = layer_norm(x, p["ln2w"], p["ln2b"])
    inner = ops.gelu(ops.matmul(h, p["w1"]) + p["b1"], True)
    x = x + ops.matmul(inner, p["w2"]) + p["b2"]
    return (x * x).mean()


def resnet(p: Any, x: Any, t: Any) -> Any:
    def convolution(x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, paddings=[1, 1])

    h = ops.relu(batch_norm(convolution(x, p["w1"]), p["g1"], p["b1"]))
    h = batch_norm(convolution(h, p["w2"]), p["g2"], p["b2"])
    return ((ops.relu(h + x) - t) ** 2).mean()


def resnet_steps(arrays: Arrays) -> Call:
    params = params_of(arrays)
    names = sorted(params)

    def step(p: Any, m: Any, x: Any, t: Any) -> Any:
        value, (gradients, gx) = pirkit.value_and_grad(resnet, (0, 1))(p, x, t)
        m = {k: m[k] * 0.9 + gradients[k] for k in names}
        p = {k: p[k] - m[k] * 0.1 for k in names}
        return p, m, value, gx, *[gradients[k] for k in names]

    zeros = {k: np.zeros_like(a) for k, a in params.items()}
    return bound(step, [params, zeros], (arrays["x"], arrays["t"]))


def build(framework: str, name: str, arrays: Arrays) -> Call:
    if name in FORWARD or name in BOTH:
        function, given = FORWARD.get(name) or BOTH[name], operands_of(arrays)
        if name in BOTH:
            function, given = backward(function), [arrays["g"], *given]
        call = compiled(function, tuple(given))
        return lambda: list(call(*given))
    if name == "adamw_10m":
        return adamw(arrays)
    if name.startswith("pinn"):
        return pinn(name, arrays)
    if name.startswith("gpt"):
        length = arrays["x"].shape[1]
        mask = np.triu(np.full((length, length), -1e30, np.float32), 1)
        return training(gpt, params_of(arrays), (arrays["x"], mask), DECAY, True)
    return resnet_steps(arrays)


def register(add: Callable[[str, str, Callable[[Arrays], Call]], None]) -> None:
    """Hand all workloads to a harness: framework, name, and what makes a call of its inputs."""
    for name in WORKLOADS:
        add("pirkit", name, lambda arrays, name=name: build("pirkit", name, arrays))
