"""Which spellings of PyTorch's ops pirkit compiles: values and gradients beside eager.

``python tools/torch_spellings.py [names] [--bad]`` runs one call of each spelling in GraphNet's
graphs, compiled with ``strict``, in float32. A row says ``covered``; ``torch computes``,
if only without ``strict``; or what is wrong. An op of Python that makes no op of ATen, such as a
size, counts as covered if the function around it does.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import pirkit.torch  # noqa: F401  registers the backend

A = torch.ops.aten


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context: Any, *seeds: Any) -> Any:
        return 3 * context.saved_tensors[0] * seeds[0]


def operands() -> dict[str, Any]:
    """What a case asks for by the names of its arguments."""
    torch.manual_seed(0)

    def learned(*shape: int) -> Any:
        return torch.randn(*shape).requires_grad_()

    attention = torch.nn.MultiheadAttention(8, 2)
    return {
        "x": learned(4, 6), "y": learned(4, 6), "p": (torch.rand(4, 6) + 0.5).requires_grad_(),
        "v": learned(6), "w": learned(5, 6), "sq": learned(6, 6), "b3": learned(2, 4, 6),
        "c3": learned(2, 6, 5), "q": learned(2, 2, 5, 4), "image": learned(2, 4, 8, 8),
        "line": learned(2, 4, 10), "volume": learned(1, 2, 5, 5, 5), "kernel": learned(4, 4, 3, 3),
        "k1": learned(4, 4, 3), "k3": learned(3, 2, 2, 2, 2), "c": learned(4),
        "mask": torch.rand(4, 6) > 0.5, "n": torch.randint(0, 4, (4, 6)),
        "m": torch.randint(1, 5, (4, 6)), "ids": torch.tensor([0, 3, 1, 1]), "scale": learned(1),
        "z": torch.tensor(2.5, dtype=torch.float64), "seq": learned(5, 2, 8), "mha": attention,
        "grid": (torch.rand(2, 5, 5, 2) * 2 - 1).requires_grad_(),
        "columns": learned(2, 4 * 9, 36), "layer": torch.nn.TransformerEncoderLayer(
            8, 2, 16, batch_first=True, dropout=0.0).eval(),
    }  # fmt: skip


def _attention(mha: Any, seq: Any) -> Any:
    return F.multi_head_attention_forward(
        seq, seq, seq, 8, 2, mha.in_proj_weight, mha.in_proj_bias, None, None, False, 0.0,
        mha.out_proj.weight, mha.out_proj.bias,
    )  # fmt: skip


def _native_attention(mha: Any, seq: Any) -> Any:
    with torch.no_grad():
        return torch._native_multi_head_attention(
            seq, seq, seq, 8, 2, mha.in_proj_weight, mha.in_proj_bias, mha.out_proj.weight,
            mha.out_proj.bias, need_weights=False,
        )[0]  # fmt: skip


def _autocast(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, w)


def _without_gradient(x: Any, y: Any) -> Any:
    with torch.no_grad():
        z = x * 2
    return z * y


def _vmap(x: Any, y: Any) -> Any:
    return torch.vmap(lambda a, b: (a * b).sum())(x, y)


def _changed(name: str, *args: Any) -> Callable[[Any], Any]:
    """An in-place method on a tensor that is not a leaf."""

    def call(x: Any) -> Any:
        return getattr(x * 1, name)(*args)

    return call


def _set(x: Any, v: Any) -> Any:
    out = x * 1
    out[1] = v
    out[2:, ::2] = 0
    return out


def _inplace(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(x: Any, p: Any) -> Any:
        return operator(x * 1, p)

    return call


def _grouped(image: Any) -> Any:
    return F.group_norm(image, 2)


def _empty(x: Any) -> Any:
    return torch.empty(4, 6).fill_(2.0) * x


def _iadd(a: Any, b: Any) -> Any:
    a += b
    return a


def _isub(a: Any, b: Any) -> Any:
    a -= b
    return a


def _imul(a: Any, b: Any) -> Any:
    a *= b
    return a


def _itruediv(a: Any, b: Any) -> Any:
    a /= b
    return a


def _ifloordiv(m: Any) -> Any:
    m = m * 3
    m //= 2
    return m


CASES: dict[str, Callable[..., Any]] = {
    "operator.add": lambda x, y: x + y,
    "torch._C._nn.linear": lambda x, w: torch._C._nn.linear(x, w),
    "torch.nn.functional.dropout": lambda x: F.dropout(x, 0.3, True) + F.dropout(x, 0.3, False),
    "operator.getitem": lambda x, ids: x[1:, None, ..., ::2].sum() + x[ids] + x[1],
    "Tensor.transpose": lambda x: x.transpose(0, 1),
    "operator.mul": lambda x, y: x * y * 2,
    "Tensor.view": lambda x: x.view(2, -1),
    "builtin.slice": lambda x: x[slice(1, 3)],
    "torch.nn.functional.layer_norm": lambda x, v: F.layer_norm(x, (6,), v, v),
    "Tensor.reshape": lambda x: x.reshape(3, 8),
    "Tensor.contiguous": lambda x: x.t().contiguous(),
    "Tensor.expand": lambda v: v.expand(3, -1),
    "operator.sub": lambda x, y: 1 - x - y,
    "torch.conv2d": lambda image, kernel, c: torch.conv2d(image, kernel, c, 2, 1),
    "Tensor.to": lambda x: x.to(torch.float64).to(torch.float32),
    "torch._C._nn.scaled_dot_product_attention":
        lambda q: torch._C._nn.scaled_dot_product_attention(q, q, q, is_causal=True),
    "torch.nn.functional.embedding": lambda n, w: F.embedding(n, w, padding_idx=1),
    "torch.arange": lambda x: torch.arange(6) * x + torch.arange(0.5, 6.5, 1.0),
    "Tensor.masked_fill": lambda x, mask: x.masked_fill(mask, -1e9),
    "Tensor.flatten": lambda image: image.flatten(1),
    "torch.tensor": lambda x: x * torch.tensor(2.0) + torch.tensor([1, 2, 3, 4, 5, 6]),
    "torch._C._nn.gelu": lambda x: torch._C._nn.gelu(x) + torch._C._nn.gelu(x, approximate="tanh"),
    "torch.nn.functional.relu": lambda x: F.relu(x * 1, inplace=True),
    "torch.full": lambda x: torch.full((4, 6), 3.0) * x,
    "torch.nn.functional.silu": lambda x: F.silu(x * 1, inplace=True),
    "torch.nn.functional.batch_norm":
        lambda image, c: F.batch_norm(image, None, None, c, c, True)
        + F.batch_norm(image, c.detach(), c.detach().exp(), c, c, False),
    "operator.gt": lambda x, y: (x > y) * x,
    "torch.cat": lambda x, y: torch.cat([x, y], -1),
    "operator.imul": _inplace(_imul),
    "Tensor.permute": lambda b3: b3.permute(2, 0, 1),
    "operator.iadd": _inplace(_iadd),
    "torch.nn.functional.adaptive_avg_pool2d":
        lambda image: F.adaptive_avg_pool2d(image, 1) + F.adaptive_avg_pool2d(image, (3, 5)).sum(),
    "Tensor.unsqueeze": lambda x: x.unsqueeze(1),
    "builtin.tuple_getitem": lambda x: x.split(2)[1],
    "operator.truediv": lambda x, p: x / p / 2,
    "Tensor.mean": lambda b3: b3.mean((-1, 0), keepdim=True) + b3.mean(),
    "torch.nn.functional.max_pool2d":
        lambda image: F.max_pool2d(image, 3, 2, 1) + F.max_pool2d(image, 3, 2, ceil_mode=True),
    "torch.nn.functional.softmax": lambda b3: F.softmax(b3, 1),
    "torch.tanh": lambda x: torch.tanh(x),
    "torch.nn.functional.interpolate":
        lambda image: F.interpolate(image, scale_factor=2) + F.interpolate(
            image, (16, 16), mode="bilinear", align_corners=True)
        + F.interpolate(image, (16, 16), mode="bicubic"),
    "torch.matmul": lambda b3, c3: torch.matmul(b3, c3),
    "Tensor.type_as": lambda x, n: n.type_as(x) * x,
    "Tensor.sigmoid": lambda x: x.sigmoid(),
    "Tensor.float": lambda x, n: n.float() * x,
    "operator.matmul": lambda x, w: x @ w.t(),
    "Tensor.softmax": lambda x: x.softmax(-1),
    "torch.stack": lambda x, y: torch.stack([x, y], 1),
    "operator.lt": lambda x, y: (x < y) * y,
    "torch.sigmoid": lambda x: torch.sigmoid(x),
    "torch._C._nn.avg_pool2d":
        lambda image: torch._C._nn.avg_pool2d(image, 3, 2, 1, False, False)
        + torch._C._nn.avg_pool2d(image, 3, 2, 0, True, True),
    "Tensor.item": lambda x, z: x * z.item(),
    "Tensor.chunk": lambda x: x.chunk(2, -1)[1],
    "Tensor.pow": lambda p: p.pow(2) + p.pow(0.3) + p.pow(3),
    "Tensor.split": lambda x: x.split([1, 3])[1],
    "operator.neg": lambda x: -x,
    "Tensor.unbind": lambda x: x.unbind(0)[2] * x.unbind(0)[0],
    "Tensor.repeat": lambda x: x.repeat(2, 1, 3),
    "torch.rsqrt": lambda p: torch.rsqrt(p),
    "torch._C._nn.pad":
        lambda image: F.pad(image, (1, 2, 0, 1), value=2.0).sum()
        + F.pad(image, (1, 2, 2, 1), mode="reflect") + F.pad(image, (1, 2, 2, 1), mode="replicate"),
    "torch.where": lambda x, y, mask: torch.where(mask, x, y) + torch.where(mask, x, 0.0),
    "Tensor.long": lambda x, n: x * n.float().long(),
    "torch.log": lambda p: torch.log(p),
    "torch.nn.functional.dropout2d": lambda image: F.dropout2d(image, 0.4, True),
    "torch.flatten": lambda image: torch.flatten(image, 2),
    "torch.cumsum": lambda x: torch.cumsum(x, 1),
    "torch.functional.meshgrid":
        lambda v, c: torch.functional.meshgrid(v, c, indexing="ij")[0]
        * torch.functional.meshgrid(v, c, indexing="ij")[1],
    "torch.functional.split": lambda x: torch.functional.split(x, 4, 1)[1],
    "torch.triu": lambda x: torch.triu(x, 1),
    "torch.bmm": lambda b3, c3: torch.bmm(b3, c3),
    "Tensor.int": lambda x, n: x * n.int(),
    "torch.zeros": lambda x: torch.zeros(4, 6) + x,
    "torch.conv_transpose2d":
        lambda image, kernel, c: torch.conv_transpose2d(image, kernel, c, 2, 1, 1),
    "torch.min": lambda x, y: torch.min(x, y) + torch.min(x) + torch.min(x, 1)[0].sum(),
    "torch.full_like": lambda x: torch.full_like(x, 2.0) * x,
    "Tensor.ne": lambda x, n: n.ne(2) * x,
    "operator.setitem": _set,
    "torch.zeros_like": lambda x: torch.zeros_like(x) + x,
    "torch.conv1d": lambda line, k1, c: torch.conv1d(line, k1, c, 2, 1),
    "torch.pow": lambda p, x: torch.pow(p, x) + torch.pow(2.0, x),
    "torch.ops.aten._local_scalar_dense": lambda x, z: x * A._local_scalar_dense(z),
    "torch.abs": lambda x: torch.abs(x),
    "Tensor.exp": lambda x: x.exp(),
    "torch.nn.functional.multi_head_attention_forward": _attention,
    "torch._C._log_api_usage_once":
        lambda x: (torch._C._log_api_usage_once("pirkit"), x * 2)[1],
    "Tensor.cos": lambda x: x.cos(),
    "Tensor.sin": lambda x: x.sin(),
    "Tensor.sum": lambda b3: b3.sum((0, 2)),
    "Tensor.t": lambda x: x.t(),
    "Tensor.clone": lambda x: x.clone(),
    "Tensor.squeeze": lambda x: x[:, :1].squeeze(-1),
    "Tensor.norm": lambda x: x.norm(dim=-1, keepdim=True) + x.norm(),
    "operator.invert": lambda x, mask: ~mask * x,
    "Tensor.__eq__": lambda x, n: n.__eq__(2) * x,
    "Tensor.masked_fill_": lambda x, mask: (x * 1).masked_fill_(mask, 3.0),
    "torch.nn.functional.group_norm": _grouped,
    "torch.nn.functional.hardsigmoid": lambda x: F.hardsigmoid(x * 3),
    "torch.functional.einsum":
        lambda b3, c3: torch.functional.einsum("bij,bjk->bik", b3, c3),
    "operator.ne": lambda x, n: (n != 1) * x,
    "Tensor.new_ones": lambda x: x.new_ones(4, 6) * x,
    "operator.pow": lambda p: p**2 + p**-0.5 + 2**p,
    "Tensor.expand_as": lambda v, x: v.expand_as(x) * x,
    "torch.sqrt": lambda p: torch.sqrt(p),
    "Tensor.mul": lambda x, y: x.mul(y),
    "operator.le": lambda x, y: (x <= y) * x,
    "Tensor.le": lambda x, y: x.le(y) * x,
    "torch.sum": lambda x: torch.sum(x, dim=1),
    "Tensor.cumsum": lambda x: x.cumsum(-1),
    "torch.div":
        lambda x, p: torch.div(x, p) + torch.div(x, p, rounding_mode="floor")
        + torch.div(x, 0.3, rounding_mode="trunc"),
    "Tensor.__and__": lambda x, mask, n: mask.__and__(n > 1) * x,
    "torch.ops.aten.index": lambda x, ids: A.index(x, [ids]),
    "torch.clamp": lambda x: torch.clamp(x, -0.5, 0.5),
    "torch.ones": lambda x: torch.ones(6) * x,
    "torch.softmax": lambda x: torch.softmax(x, 0),
    "torch.rand": lambda x: torch.rand(4, 6) * x,
    "Tensor.bool": lambda x, n: n.bool() * x,
    "torch.nn.functional.hardswish": lambda x: F.hardswish(x * 3),
    "torch.nn.functional.hardtanh": lambda x: F.hardtanh(x * 1, -0.5, 0.6, True),
    "operator.eq": lambda x, n: (n == 1) * x,
    "Tensor.detach": lambda x: x.detach() * x,
    "torch._weight_norm": lambda x, c: torch._weight_norm(x, c.view(4, 1), 0),
    "Tensor.argmax": lambda x: x.argmax(-1),
    "torch.roll": lambda image: torch.roll(image, (-2, 3), (2, 3)),
    "torch._functorch.predispatch._add_batch_dim": _vmap,
    "torch._functorch.predispatch._remove_batch_dim": _vmap,
    "torch._functorch.predispatch._vmap_decrement_nesting": _vmap,
    "torch._functorch.predispatch._vmap_increment_nesting": _vmap,
    "torch._functorch.predispatch.lazy_load_decompositions": _vmap,
    "torch.cos": lambda x: torch.cos(x),
    "torch.sin": lambda x: torch.sin(x),
    "torch.nn.functional.normalize": lambda x: F.normalize(x, dim=-1),
    "torch.mean": lambda x: torch.mean(x, -1),
    "builtin.torch.sym_sum": lambda x: x.reshape(torch.sym_sum([x.size(0), x.size(1), 2]), -1),
    "torch.gather": lambda x, n: torch.gather(x, 1, n),
    "torch.transpose": lambda b3: torch.transpose(b3, 1, 2),
    "sym.floordiv": lambda x: x.view(x.size(0) // 2, -1),
    "Tensor.index_select": lambda x, ids: x.index_select(0, ids),
    "torch.addcmul": lambda x, y, p: torch.addcmul(x, y, p, value=0.5),
    "Tensor.new_zeros": lambda x: x.new_zeros(4, 6) + x,
    "operator.and": lambda x, mask, n: (mask & (n > 1)) * x,
    "torch.adaptive_avg_pool1d": lambda line: torch.adaptive_avg_pool1d(line, 3),
    "Tensor.rsqrt": lambda p: p.rsqrt(),
    "torch.logical_and": lambda x, mask, n: torch.logical_and(mask, n) * x,
    "torch.ceil": lambda x: torch.ceil(x) + x,
    "torch.sign": lambda x: torch.sign(x) * x,
    "Tensor.tensor_split": lambda x: x.tensor_split(3, 1)[1],
    "torch.floor": lambda x: torch.floor(x) * x,
    "Tensor.reshape_as": lambda x, y: x.view(-1).reshape_as(y),
    "torch.square": lambda x: torch.square(x),
    "sym.mul": lambda x: x.view(x.size(0) * x.size(1)),
    "torch.addmm": lambda v, x, sq: torch.addmm(v, x, sq, beta=0.5, alpha=2),
    "Tensor.repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "torch.nn.functional.glu": lambda x: F.glu(x),
    "torch.reshape": lambda x: torch.reshape(x, (2, -1)),
    "torch.nn.functional.unfold": lambda image: F.unfold(image, 3, padding=1, stride=2),
    "torch._C._set_grad_enabled": _without_gradient,
    "Tensor.clamp": lambda x: x.clamp(min=0.1),
    "torch._C._linalg.linalg_norm":
        lambda x: torch._C._linalg.linalg_norm(x, dim=-1) + torch.linalg.norm(x),
    "torch.unsqueeze": lambda x: torch.unsqueeze(x, -1),
    "Tensor.scatter_add_": lambda x, y, n: (x * 1).scatter_add_(1, n, y),
    "Tensor.baddbmm": lambda b3, c3: torch.ones(2, 4, 5).baddbmm(b3, c3),
    "torch.repeat_interleave": lambda x: torch.repeat_interleave(x, 2, dim=0),
    "torch._C._functorch._add_batch_dim": _vmap,
    "torch._C._functorch._remove_batch_dim": _vmap,
    "torch._C._functorch._vmap_decrement_nesting": _vmap,
    "torch._C._functorch._vmap_increment_nesting": _vmap,
    "torch._functorch.vmap.lazy_load_decompositions": _vmap,
    "torch.conv3d": lambda volume, k3: torch.conv3d(volume, k3, None, 2, 1),
    "attr.T": lambda x: x.T,
    "torch.nn.functional.linear": lambda x, w: F.linear(x, w),
    "torch.nn.functional.leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "Tensor.type": lambda x, n: n.type(torch.float32) * x,
    "torch.max": lambda x, y: torch.max(x, y) + torch.max(x) + torch.max(x, -1)[0].sum(),
    "torch.amp.autocast_mode._enter_autocast": _autocast,
    "torch.amp.autocast_mode._exit_autocast": _autocast,
    "torch.broadcast_to": lambda v: torch.broadcast_to(v, (3, 6)),
    "torch.nn.functional.elu": lambda x: F.elu(x, 0.7),
    "Tensor.mul_": lambda x, y: (x * 1).mul_(y),
    "torch.rms_norm": lambda x, v: torch.rms_norm(x, (6,), v, 1e-5),
    "torch.permute": lambda b3: torch.permute(b3, (1, 2, 0)),
    "torch.mul": lambda x, y: torch.mul(x, y),
    "torch.unbind": lambda x: torch.unbind(x, 1)[3],
    "operator.ge": lambda x, y: (x >= y) * x,
    "operator.itruediv": _inplace(_itruediv),
    "torch.ops.aten._assert_scalar.default":
        lambda x: (A._assert_scalar.default(x.size(0) > 1, "size"), x * 2)[1],
    "operator.mod": lambda x, p: x % p + x % 0.7,
    "torch.functional.norm": lambda x: torch.functional.norm(x, dim=1) + torch.functional.norm(x),
    "torch.autograd.function.FunctionCtx": lambda x: _Double.apply(x),
    "sym.getitem": lambda x: x.new_ones(x.shape[1]) * x,
    "Tensor.size": lambda x: x * x.size(-1),
    "operator.floordiv": lambda x, m: m // 2 * x,
    "Tensor.tanh": lambda x: x.tanh(),
    "torch.prelu": lambda image, c: torch.prelu(image, c),
    "Tensor.matmul": lambda x, w: x.matmul(w.t()),
    "Tensor.fill_": lambda x: torch.empty(4, 6).fill_(2.0) * x,
    "torch._native_multi_head_attention": _native_attention,
    "torch.erf": lambda x: torch.erf(x),
    "torch.empty": _empty,
    "Tensor.view_as": lambda x, y: x.view_as(y) * y,
    "Tensor.gather": lambda x, n: x.gather(1, n),
    "Tensor.topk": lambda x: x.topk(3, -1)[0],
    "torch.relu": lambda x: torch.relu(x),
    "Tensor.amax": lambda x: x.amax(-1, keepdim=True),
    "Tensor.bmm": lambda b3, c3: b3.bmm(c3),
    "torch.nn.functional.scaled_dot_product_attention":
        lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1),
    "Tensor.clamp_": lambda x: (x * 1).clamp_(-0.3, 0.4),
    "torch.multiply": lambda x, y: torch.multiply(x, y),
    "torch.linspace": lambda x: torch.linspace(0, 1, 6) * x,
    "builtin.torch._check_is_size": lambda x: (torch._check_is_size(x.size(0)), x * 2)[1],
    "torch.ops.aten.sym_size.int": lambda x: x * A.sym_size.int(x, 0),
    "Tensor.pow_": lambda p: (p * 1).pow_(2.0),
    "torch.as_tensor": lambda x: torch.as_tensor([1.0, 2, 3, 4, 5, 6]) * x,
    "Tensor.max": lambda x: x.max(-1)[0] + x.max(),
    "torch.chunk": lambda x: torch.chunk(x, 3, 1)[2],
    "torch.exp": lambda x: torch.exp(x),
    "torch.nn.functional.grid_sample":
        lambda image, grid: F.grid_sample(image, grid, align_corners=False),
    "torch.nn.functional.gelu": lambda x: F.gelu(x),
    "Tensor.zero_": lambda x: (x * 1).zero_() + x,
    "torch.outer": lambda v, c: torch.outer(v, c),
    "attr.real": lambda x: torch.fft.fft(x).real,
    "torch._C._fft.fft_fftn": lambda b3: torch._C._fft.fft_fftn(b3, dim=(1, 2)).real,
    "Tensor.scatter_reduce_":
        lambda x, y, n: (x * 1).scatter_reduce_(1, n, y, "sum")
        + (x * 1).scatter_reduce_(1, n, y, "amax"),
    "torch._C._nn.softplus": lambda x: torch._C._nn.softplus(x, 2.0),
    "torch._C._nn.one_hot": lambda ids: torch._C._nn.one_hot(ids, 5),
    "torch.eye": lambda sq: torch.eye(6) * sq,
    "torch.nn.functional.sigmoid": lambda x: F.sigmoid(x),
    "Tensor.unfold": lambda line: line.unfold(2, 4, 2),
    "Tensor.sub": lambda x, y: x.sub(y, alpha=2),
    "Tensor.gt": lambda x: x.gt(0.1) * x,
    "Tensor.prod": lambda x: x.prod(-1),
    "sym.le": lambda x: x * (2 if x.size(0) <= 5 else 3),
    "torch.all": lambda x, mask: torch.all(mask, 1),
    "torch.avg_pool1d": lambda line: torch.avg_pool1d(line, 3, 2),
    "torch.pixel_shuffle": lambda image: torch.pixel_shuffle(image, 2),
    "torch.relu_": lambda x: torch.relu_(x * 1),
    "torch.add": lambda x, y: torch.add(x, y, alpha=3),
    "torch.index_select": lambda x, ids: torch.index_select(x, 1, ids),
    "Tensor.div": lambda x, p: x.div(p),
    "torch.var": lambda x: torch.var(x, 1) + torch.var(x, dim=1, unbiased=False),
    "Tensor.copy_": lambda x, v: (x * 1).copy_(v),
    "operator.ifloordiv": _ifloordiv,
    "torch.ones_like": lambda x: torch.ones_like(x) * x,
    "torch._C._special.special_logit":
        lambda x: torch._C._special.special_logit(x.sigmoid(), eps=1e-3),
    "Tensor.eq": lambda x, n: n.eq(1) * x,
    "Tensor.__or__": lambda x, mask, n: mask.__or__(n > 2) * x,
    "operator.isub": _inplace(_isub),
    "torch.diag": lambda sq, v: torch.diag(sq) + torch.diag(v).sum(0),
    "Tensor.tile": lambda x: x.tile(2, 2),
    "sym.add": lambda x: x.new_ones(x.size(0) + 2) * x.sum(),
    "torch.concat": lambda x, y: torch.concat([x, y]),
    "torch.ge": lambda x, y: torch.ge(x, y) * x,
    "torch.le": lambda x, y: torch.le(x, y) * x,
    "torch.nn.functional.adaptive_avg_pool3d":
        lambda volume: F.adaptive_avg_pool3d(volume, 1) + F.adaptive_avg_pool3d(volume, 2).sum(),
    "Tensor.add_": lambda x, y: (x * 1).add_(y, alpha=2),
    "torch.swapaxes": lambda b3: torch.swapaxes(b3, 0, 2),
    "torch.nn.functional.adaptive_max_pool2d": lambda image: F.adaptive_max_pool2d(image, 4),
    "Tensor.where": lambda x, y, mask: x.where(mask, y),
    "torch._C._fft.fft_rfft": lambda x: torch.view_as_real(torch._C._fft.fft_rfft(x)),
    "torch._C._linalg.linalg_vector_norm":
        lambda x: torch._C._linalg.linalg_vector_norm(x, 2, -1)
        + torch._C._linalg.linalg_vector_norm(x, 1, -1)
        + torch._C._linalg.linalg_vector_norm(x, float("inf"), -1),
    "Tensor.all": lambda mask: mask.all(),
    "Tensor.sqrt": lambda p: p.sqrt(),
    "torch._C._fft.fft_irfft":
        lambda x, v: torch._C._fft.fft_irfft(torch.fft.rfft(x) * torch.fft.rfft(v), n=6),
    "Tensor.relu": lambda x: x.relu(),
    "builtin.torch.sym_int": lambda x: x.new_ones(torch.sym_int(x.size(0) / 2)) * x.sum(),
    "torch.clip": lambda x: torch.clip(x, -0.4, 0.3),
    "torch.sort": lambda x: torch.sort(x, -1, descending=True)[0],
    "Tensor.lt": lambda x: x.lt(0.2) * x,
    "torch.concatenate": lambda x, y: torch.concatenate([x, y], 1),
    "torch.nn.functional.fold": lambda columns: F.fold(columns, (8, 8), 3),
    "Tensor.ge": lambda x: x.ge(0.2) * x,
    "Tensor.neg": lambda x: x.neg(),
    "Tensor.relu_": lambda x: (x * 1).relu_(),
    "attr.device": lambda x: torch.ones(6, device=x.device) * x,
    "operator.or": lambda x, mask, n: (mask | (n > 2)) * x,
    "sym.mod": lambda x: x.new_ones(x.size(1) % 4) * x.sum(),
    "torch.argmax": lambda x: torch.argmax(x, 1),
    "torch.conv_transpose1d": lambda line, k1, c: torch.conv_transpose1d(line, k1, c, 2, 1),
    "torch.eq": lambda x, n: torch.eq(n, 2) * x,
    "torch.nn.functional.max_pool1d": lambda line: F.max_pool1d(line, 3, 2),
    "torch.prod": lambda x: torch.prod(x, 1) + torch.prod(x),
    "torch.randn": lambda x: torch.randn(4, 6) * x,
    "torch.split_with_sizes": lambda x: torch.split_with_sizes(x, [2, 4], 1)[1],
    "torch.squeeze": lambda x: torch.squeeze(x.unsqueeze(1), 1),
}  # fmt: skip

BREAKS = {"Tensor.item", "torch.ops.aten._local_scalar_dense"}
"""Cases in which Dynamo breaks the graph."""

DYNAMIC = {"builtin.torch.sym_sum", "builtin.torch.sym_int", "torch.ops.aten.sym_size.int"}
"""Cases that are run with symbols as sizes, besides those whose names begin with ``sym``."""


def observed(function: Callable[..., Any], names: list[str]) -> list[Any]:
    """The results of a call, and the gradients of a function of them."""
    held = operands()
    given = [held[name] for name in names]
    torch.manual_seed(1)
    found = function(*given)
    results = [t for t in torch.utils._pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
    live = [t for t in results if t.requires_grad]
    seen = [t.detach() for t in results]
    if live:
        sum((t.double() * t.double()).sum() + t.double().sin().sum() for t in live).backward()
        leaves = [t for t in given if isinstance(t, torch.Tensor) and t.requires_grad]
        seen += [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]
        seen += [p.grad for t in given if isinstance(t, torch.nn.Module) for p in t.parameters()
                 if p.grad is not None]  # fmt: skip
    return seen


def verdict(name: str) -> str:
    """``covered``, ``torch computes ...`` or what is wrong."""
    case = CASES[name]
    names = list(inspect.signature(case).parameters)
    expected = observed(case, names)
    loose = 2e-2 if "autocast" in name else 2e-5
    why = ""
    for strict in (True, False):
        torch._dynamo.reset()
        compiled = torch.compile(
            case, backend="pirkit", options={"strict": strict}, fullgraph=name not in BREAKS,
            dynamic=True if name in DYNAMIC or name.startswith("sym.") else None,
        )  # fmt: skip
        try:
            actual = observed(compiled, names)
        except Exception as error:  # the verdict is the message
            why = why or str(error).strip().replace("\n", " ")[:160]
            continue
        if len(actual) != len(expected):
            return f"wrong: {len(actual)} tensors instead of {len(expected)}"
        for place, (a, e) in enumerate(zip(actual, expected, strict=True)):
            try:
                torch.testing.assert_close(a, e, rtol=loose, atol=loose, equal_nan=True)
            except AssertionError as error:
                return f"wrong: tensor {place}: {str(error).splitlines()[0]}"
        return f"torch computes: {why}" if why else "covered"
    return f"refused: {why}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="spellings, whole or without what is before a dot")
    parser.add_argument("--bad", action="store_true", help="show only what is not covered")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pirkit.torch").setLevel(logging.ERROR)
    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    torch._dynamo.config.cache_size_limit = 1000
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    asked = {n: [case for case in CASES if f".{case}".endswith(f".{n}")] for n in arguments.names}
    if unknown := [name for name, cases in asked.items() if not cases]:
        parser.error(f"no such spelling: {', '.join(unknown)}; CASES in this file lists them")
    for name in itertools.chain(*asked.values()) if asked else CASES:
        found = verdict(name)
        counts[found.partition(":")[0]] += 1
        if found != "covered" or not arguments.bad:
            print(f"{name:50} {found}", flush=True)
    print(f"{counts.total()} spellings: {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
