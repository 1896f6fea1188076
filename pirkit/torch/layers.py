"""Layers that capture records as one op of the library `pirkit`, to make first calls faster.

Torch would record a linear layer as four ops, a product of two batches of matrices as seven, and
batch norm in inference as one op of three results, whose shapes it infers by a decomposition.
Recording takes longer than any other step of compiling a small graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.torch.aten.matmul import product
from pirkit.torch.aten.normalization import normalized
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.libtorch import torch
from pirkit.torch.rules import RULES

_LIBRARY: Final[Any] = torch.library.Library("pirkit", "FRAGMENT")
_LIBRARY.define("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
_LIBRARY.define("matmul(Tensor x, Tensor y) -> Tensor")
_LIBRARY.define(
    "batch_norm(Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor variance, float eps)"
    " -> Tensor"
)

_LINEAR: Final[Any] = torch.nn.functional.linear
_BATCH_NORM: Final[Any] = torch.nn.functional.batch_norm
_PRODUCTS: Final[Any] = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__)


@torch.library.impl(_LIBRARY, "linear", "Meta")
def _(x: Any, weight: Any, bias: Any) -> Any:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


@torch.library.impl(_LIBRARY, "matmul", "Meta")
def _(x: Any, y: Any) -> Any:
    return x.new_empty((*x.shape[:-1], y.shape[-1]))


@torch.library.impl(_LIBRARY, "batch_norm", "Meta")
def _(x: Any, *_: Any) -> Any:
    return torch.empty_like(x)


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`torch.nn.functional.linear` as one op.

    It is torch's own under autocast, for tensors of fewer than two dimensions, and where torch
    would refuse the shapes or types.
    """
    known = [x, weight] if bias is None else [x, weight, bias]
    plain = (
        _is_recorded(known)
        and _is_of_one_type(known)
        and x.dim() > 1
        and weight.dim() == 2
        and x.shape[-1] == weight.shape[1]
        and (bias is None or tuple(bias.shape) == (weight.shape[0],))
    )
    return torch.ops.pirkit.linear.default(x, weight, bias) if plain else _LINEAR(x, weight, bias)


def batch_norm(
    x: Any, mean: Any, variance: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-05,
) -> Any:  # fmt: skip
    """`torch.nn.functional.batch_norm` as one op; torch's own in training."""
    known = [x, mean, variance, *[t for t in (weight, bias) if t is not None]]
    if training or mean is None or not _is_recorded(known):
        return _BATCH_NORM(x, mean, variance, weight, bias, training, momentum, eps)
    return torch.ops.pirkit.batch_norm.default(x, weight, bias, mean, variance, eps)


def matmul(x: Any, y: Any, **options: Any) -> Any:
    """`torch.matmul` of two batches of matrices as one op; of other operands it is torch's own."""
    plain = (
        not options
        and isinstance(x, torch.Tensor)
        and isinstance(y, torch.Tensor)
        and _is_recorded([x, y])
        and _is_of_one_type([x, y])
        and x.dim() == y.dim() > 2
        and x.shape[:-2] == y.shape[:-2]
        and x.shape[-1] == y.shape[-2]
    )
    return torch.ops.pirkit.matmul.default(x, y) if plain else torch.matmul(x, y, **options)


def _is_of_one_type(tensors: list[Any]) -> bool:
    """Whether torch computes a product of the tensors in the element type that they have."""
    return len({t.dtype for t in tensors}) == 1 and not torch.is_autocast_enabled("cpu")


def _is_recorded(tensors: list[Any]) -> bool:
    """Whether neither `torch.func` nor autograd sees the call: they cannot derive ops of pirkit."""
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    return not depth and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))


COMPOSED: Final[dict[Any, Callable[..., Any]]] = {
    _LINEAR: linear, _BATCH_NORM: batch_norm, **dict.fromkeys(_PRODUCTS, matmul)
}  # fmt: skip
"""Functions of torch, and what capture calls instead."""


def _linear(b: AtenBuilder, x: Value, weight: Value, bias: Value | None) -> Value:
    rows = b.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    found = product(b, rows, b.permute(weight, [1, 0]))
    return b.reshape(found if bias is None else b.add(found, bias), b.shape)


def _batch_norm(
    b: AtenBuilder, x: Value, scale: Value | None, bias: Value | None, mean: Value, variance: Value,
    eps: float,
) -> Value:  # fmt: skip
    return normalized(b, x, scale, bias, mean, variance, eps, training=False)[0]


LAYERS: Final = {
    "pirkit.linear.default": _linear, "pirkit.batch_norm.default": _batch_norm,
    "pirkit.matmul.default": product,
}  # fmt: skip
RULES.update(LAYERS)
