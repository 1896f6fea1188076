"""The workloads in torch, eager and compiled by inductor."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

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
    return 0.5 * z * (1 + torch.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def gelu_erf(x: Any, b: Any) -> Any:
    z = x + b
    return 0.5 * z * (1 + torch.erf(z * 0.70710678))


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return functional.layer_norm(x, (x.shape[-1],), w, b)


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return functional.batch_norm(x, None, None, w, b, True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-1, -2)) * 0.125, -1) @ v


FORWARD: dict[str, Callable[..., Any]] = {
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "softmax_4096": lambda x: torch.softmax(x, -1),
    "softmax_50257": lambda x: torch.softmax(x, -1),
    "log_softmax_50257": lambda x: torch.log_softmax(x, -1),
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
        with torch.no_grad():
            return [function(*tensors)]

    return run


def both(function: Any, tensors: list[Any], seed: Any) -> Call:
    leaves = [t.requires_grad_() for t in tensors]

    def run() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        y = function(*leaves)
        y.backward(seed)
        return [y.detach(), *(leaf.grad for leaf in leaves)]

    return run


def adamw(x: dict[str, Any]) -> Call:
    p = x["p"].requires_grad_()
    p.grad = x["g"]
    optimizer = torch.optim.AdamW(
        [p], lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=DECAY, fused=True
    )
    optimizer.state[p] = {"step": torch.tensor(0.0), "exp_avg": x["m"], "exp_avg_sq": x["v"]}

    def run() -> list[Any]:
        optimizer.step()
        return [p.detach(), x["m"], x["v"]]

    return run


def adamw_compiled(x: dict[str, Any]) -> Call:
    count, c1, c2 = [0], torch.zeros(()), torch.zeros(())

    def update(p: Any, m: Any, v: Any, g: Any, c1: Any, c2: Any) -> None:
        p.mul_(1 - LEARNING_RATE * DECAY)
        m.lerp_(g, 1 - BETA1)
        v.mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
        p.sub_(c1 * m / (v.sqrt() * c2 + EPSILON))

    compiled = torch.compile(update, dynamic=False)

    def run() -> list[Any]:
        count[0] += 1
        with torch.no_grad():
            c1.fill_(LEARNING_RATE / (1 - BETA1 ** count[0]))
            c2.fill_(1 / math.sqrt(1 - BETA2 ** count[0]))
            compiled(x["p"], x["m"], x["v"], x["g"], c1, c2)
        return [x["p"], x["m"], x["v"]]

    return run


def network(params: dict[str, Any], x: Any) -> Any:
    layers = len(params) // 2
    for k in range(layers):
        x = x @ params[f"w{k}"] + params[f"b{k}"]
        x = torch.tanh(x) if k < layers - 1 else x
    return x


def pinn(name: str, tensors: dict[str, Any]) -> Call:
    params = params_of(tensors)
    leaves = [params[k].requires_grad_() for k in sorted(params)]
    optimizer = torch.optim.Adam(leaves, lr=LEARNING_RATE, fused=True)

    def along(y: Any, x: Any) -> Any:
        return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]

    def run() -> list[Any]:
        optimizer.zero_grad()
        x = tensors["x"].detach().requires_grad_()
        u = network(params, x)
        d = along(u, x)
        if "beam" in name:
            u2 = along(d, x)
            u3 = along(u2, x)
            u4 = along(u3, x)
            ends = u[0, 0] ** 2 + d[0, 0] ** 2 + u2[-1, 0] ** 2 + u3[-1, 0] ** 2
            loss = ((u4 + 1) ** 2).mean() + ends
        else:
            uxx = along(d[:, :1], x)[:, :1]
            loss = ((d[:, 1:] + u * d[:, :1] - VISCOSITY * uxx) ** 2).mean()
        loss.backward()
        optimizer.step()
        return [leaf.grad for leaf in leaves]

    return run


def pinn_compiled(name: str, tensors: dict[str, Any]) -> Call:
    """Double backward is not supported by the compiler: gradients of functions inside of it.

    The update is eager: compiled in one graph with the rest it crashes.
    """
    from torch.func import grad

    params, x = params_of(tensors), tensors["x"]

    def loss(params: Any, x: Any) -> Any:
        fields = [lambda x: network(params, x)]
        for _ in range(4 if "beam" in name else 1):
            fields.append(grad(lambda x, f=fields[-1]: f(x).sum()))
        if "beam" in name:
            u, u1, u2, u3, u4 = (field(x) for field in fields)
            return (
                ((u4 + 1) ** 2).mean()
                + u[0, 0] ** 2
                + u1[0, 0] ** 2
                + (u2[-1, 0] ** 2 + u3[-1, 0] ** 2)
            )
        u, d = (field(x) for field in fields)
        uxx = grad(lambda x: fields[1](x)[:, 0].sum())(x)[:, :1]
        return ((d[:, 1:] + u * d[:, :1] - VISCOSITY * uxx) ** 2).mean()

    compiled = torch.compile(lambda p, x: grad(loss)(p, x), dynamic=False)
    names = sorted(params)
    leaves = [params[k].requires_grad_() for k in names]
    optimizer = torch.optim.Adam(leaves, lr=LEARNING_RATE, fused=True)

    def run() -> list[Any]:
        with torch.no_grad():
            found = compiled({k: p.detach() for k, p in zip(names, leaves, strict=True)}, x)
        for k, p in zip(names, leaves, strict=True):
            p.grad = found[k]
        optimizer.step()
        return [p.grad for p in leaves]

    return run


def gpt(tensors: dict[str, Any], compiled: Callable[..., Any]) -> Call:
    params = params_of(tensors)
    leaves = [params[k].requires_grad_() for k in sorted(params)]

    def loss(p: Any, x: Any) -> Any:
        batch, length, width = x.shape
        h = functional.layer_norm(x, (width,), p["ln1w"], p["ln1b"])
        shape = (batch, length, 3, GPT_HEADS, width // GPT_HEADS)
        q, k, v = (h @ p["wqkv"] + p["bqkv"]).view(*shape).permute(2, 0, 3, 1, 4)
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(batch, length, width) @ p["wo"] + p["bo"]
        h = functional.layer_norm(x, (width,), p["ln2w"], p["ln2b"])
        inner = functional.gelu(h @ p["w1"] + p["b1"], approximate="tanh")
        x = x + inner @ p["w2"] + p["b2"]
        return (x * x).mean()

    call = compiled(loss)
    optimizer = torch.optim.AdamW(
        leaves, lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=DECAY, fused=True
    )

    def run() -> list[Any]:
        optimizer.zero_grad()
        value = call(params, tensors["x"])
        value.backward()
        optimizer.step()
        return [value.detach(), *(leaf.grad for leaf in leaves)]

    return run


def resnet(tensors: dict[str, Any], compiled: Callable[..., Any]) -> Call:
    params, x = params_of(tensors), tensors["x"].requires_grad_()
    leaves = [params[k].requires_grad_() for k in sorted(params)]

    def loss(p: Any, x: Any, t: Any) -> Any:
        h = torch.relu(batch_norm(functional.conv2d(x, p["w1"], padding=1), p["g1"], p["b1"]))
        h = batch_norm(functional.conv2d(h, p["w2"], padding=1), p["g2"], p["b2"])
        return ((torch.relu(h + x) - t) ** 2).mean()

    call = compiled(loss)
    optimizer = torch.optim.SGD(leaves, lr=0.1, momentum=0.9, fused=True)

    def run() -> list[Any]:
        optimizer.zero_grad()
        x.grad = None
        value = call(params, x, tensors["t"])
        value.backward()
        optimizer.step()
        return [value.detach(), x.grad, *(leaf.grad for leaf in leaves)]

    return run


def build(framework: str, name: str, arrays: Arrays) -> Call:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    is_compiled = framework == "inductor"

    def compiled(function: Any) -> Any:
        return torch.compile(function, dynamic=False) if is_compiled else function

    x = {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}
    if name in FORWARD:
        return forward(compiled(FORWARD[name]), operands_of(x))
    if name in BOTH:
        return both(compiled(BOTH[name]), operands_of(x), x["g"])
    if name == "adamw_10m":
        return adamw_compiled(x) if is_compiled else adamw(x)
    if name.startswith("pinn"):
        return (pinn_compiled if is_compiled else pinn)(name, x)
    return (gpt if name.startswith("gpt") else resnet)(x, compiled)
