"""Functions that capture composes of other functions of torch while it runs a graph (`Composed`).

Attention and encoder layers become parts that pirkit fuses. A few functions get the derivative that
torch has for them, where that of their decomposition is another one.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pirkit.diag.errors import UnsupportedError
from pirkit.torch.layers import COMPOSED, matmul
from pirkit.torch.libtorch import overrides, torch


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """`torch.nn.functional.scaled_dot_product_attention`, composed of products and a softmax.

    ``query``, ``key`` and ``value`` are ``[..., length, depth]``. A row of the mask that excludes
    all keys gives zeros, as in torch's kernels, and no gradient. Such rows are found in the mask,
    which is usually smaller than the scores, for it is the same for all heads.
    """
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = matmul(query, key.transpose(-2, -1)) * factor
    empty = None
    if is_causal:
        rows, columns = query.size(-2), key.size(-2)
        attn_mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        empty = attn_mask.any(-1, keepdim=True).logical_not()
    elif attn_mask is not None:
        empty = (attn_mask == float("-inf")).all(-1, keepdim=True)
        scores = (scores + attn_mask).masked_fill(empty, 0.0)
    weights = torch.softmax(scores, -1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    if dropout_p:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return matmul(weights, value)


def _laid_out(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    """Attention with the strides that torch's fused kernel for CPUs gives: those of the query.

    Callers rely on them when they merge heads and depth by `view`. For fake tensors torch does not
    say which kernel it would take, so the conditions of the fused one on shapes are repeated here.
    """
    found = attention(query, key, value, *args, **kwargs)
    dropout = args[1] if len(args) > 1 else kwargs.get("dropout_p", 0.0)
    by_rows = (
        query.dim() == key.dim() == value.dim() == 4
        and not dropout
        and query.size(-1) == key.size(-1) == value.size(-1)
        and query.size(0) == key.size(0) == value.size(0)
        and torch.backends.cuda.flash_sdp_enabled()
        and query.stride(1) < query.stride(2)
    )
    return found.transpose(1, 2).contiguous().transpose(1, 2) if by_rows else found


def _asks_for_sparse(function: Any, args: Any, kwargs: Any) -> bool:
    """Whether a lookup wants a sparse gradient, which no program can give."""
    at = _LOOKUPS.get(function)
    if at is None or not torch.is_grad_enabled():
        return False
    return bool(args[at] if len(args) > at else kwargs.get("sparse", False))


def self_attention(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, mask: Any = None,
) -> Any:  # fmt: skip
    """Attention of ``x [b, length, width]`` to itself, with the projections before and after."""
    qkv = torch.nn.functional.linear(x, qkv_weight, qkv_bias)
    parts = qkv.unflatten(-1, (3, heads, width // heads)).permute(2, 0, 3, 1, 4)
    found = attention(parts[0], parts[1], parts[2], mask)
    return torch.nn.functional.linear(found.transpose(1, 2).flatten(-2), proj_weight, proj_bias)


def native_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any,
    proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """`torch._native_multi_head_attention` of a tensor to itself, if no weights are returned.

    NotImplemented for other calls. The mask is True where a key is left out; it has the shape
    ``[length, length]`` (type 0), ``[b, length]`` (type 1) or that of the scores (type 2).
    """
    if need_weights or query is not key or key is not value:
        return NotImplemented
    if mask is not None:
        mask = mask.to(torch.bool).logical_not()
        mask = mask[:, None, None, :] if mask_type == 1 else mask
    found = self_attention(query, width, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask)
    return found, None


def encoder_layer(
    x: Any,
    width: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
) -> Any:
    """What `torch._transformer_encoder_layer_fwd` computes without a mask: ``[b, length, width]``.

    ``weights`` are those of both norms and of both linear layers, each with its bias.
    """
    nn = torch.nn.functional
    w1, b1, w2, b2, f1, c1, f2, c2 = weights[:8]

    def attend(y: Any) -> Any:
        return self_attention(y, width, heads, qkv_weight, qkv_bias, proj_weight, proj_bias)

    def feed(y: Any) -> Any:
        inner = nn.linear(y, f1, c1)
        return nn.linear(nn.gelu(inner) if use_gelu else nn.relu(inner), f2, c2)

    def norm1(y: Any) -> Any:
        return nn.layer_norm(y, (width,), w1, b1, eps)

    def norm2(y: Any) -> Any:
        return nn.layer_norm(y, (width,), w2, b2, eps)

    if norm_first:
        x = x + attend(norm1(x))
        return x + feed(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + feed(x))


_LOOKUPS: Final[Any] = {
    torch.nn.functional.embedding: 6, torch.embedding: 4,
    torch.nn.functional.embedding_bag: 7, torch.embedding_bag: 5,
}  # fmt: skip
"""Functions with an argument ``sparse``, and its position."""
_ATTENTION: Final[Any] = torch.nn.functional.scaled_dot_product_attention
_ENCODER: Final[Any] = torch._transformer_encoder_layer_fwd
_NATIVE: Final[Any] = torch._native_multi_head_attention

_CROSS_ENTROPY: Final[Any] = torch.nn.functional.linear_cross_entropy
_SCATTERS: Final[Any] = (torch.as_strided_scatter, torch.Tensor.as_strided_scatter)


def _strided_scatter(function: Any, x: Any, source: Any = None, *view: Any, **options: Any) -> Any:
    """`as_strided_scatter` with torch's derivative.

    Torch gives ``x`` the cotangents of the elements that are overwritten. The rule of the op gives
    it those of the others, which is right for a write through a view: that becomes the same op.
    """
    found = function(x, source, *view, **options)
    pairs = [t for t in (x, source) if t.is_floating_point()]
    if len(pairs) < 2:
        return found
    seed = torch.ops.pirkit.stand_in(found)
    part = torch.as_strided(seed, *view, **options)
    zeros = torch.zeros_like(x)
    met = function(zeros, torch.ones_like(source), *view, **options) != 0
    gradients = [torch.where(met, seed, zeros), part]
    return torch.ops.pirkit.custom([found], pairs, [seed], gradients)[0]


def _logit_slope(x: Any, eps: float | None = None) -> Any:
    low, beyond = (0.0, float("nan")) if eps is None else (eps, 0.0)
    inside = (x >= low) & (x <= 1 - low)
    return torch.where(inside, 1 / (x * (1 - x)), beyond)


def _entr_slope(x: Any) -> Any:
    return -x.log() - 1


def _log_ndtr_slope(x: Any) -> Any:
    factor = math.sqrt(2 / math.pi)
    right = (x * x * -0.5).exp() / torch.special.ndtr(x) * (factor / 2)
    left = factor / torch.special.erfcx(x.clamp(max=0.0) * -math.sqrt(0.5))
    return torch.where(x > 0, right, left)


_SLOPES: Final[dict[Any, Any]] = {
    torch.logit: _logit_slope, torch.Tensor.logit: _logit_slope,
    torch.special.logit: _logit_slope,
    torch.special.entr: _entr_slope,
    torch.special.log_ndtr: _log_ndtr_slope,
}  # fmt: skip
"""Derivatives by torch's formulas, which differ from those of the decomposition outside of the
domain, or where a part overflows."""


def _sloped(function: Any, x: Any, *args: Any, **options: Any) -> Any:
    """A function of one variable with its derivative of the table `_SLOPES`."""
    found = function(x, *args, **options)
    if not x.is_floating_point():
        return found
    seed = torch.ops.pirkit.stand_in(found)
    gradient = seed * _SLOPES[function](x, *args, **options)
    return torch.ops.pirkit.custom([found], [x], [seed], [gradient])[0]


class Composed(overrides.TorchFunctionMode):  # pyright: ignore[reportUntypedBaseClass]
    """While it is active, calls of torch's functions become the compositions of this file.

    Raises UnsupportedError (PK0409) for a lookup that wants a sparse gradient.
    """

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is _ATTENTION:
            return _laid_out(*args, **(kwargs or {}))
        if function in COMPOSED:
            return COMPOSED[function](*args, **(kwargs or {}))
        if _asks_for_sparse(function, args, kwargs or {}):
            raise UnsupportedError(
                "a sparse gradient of a table has no rule", code="PK0409",
                help="`sparse=False` gives the same numbers in a dense one",
            )  # fmt: skip
        if function is _ENCODER and all(a is None for a in args[18:19]) and not kwargs:
            return encoder_layer(*args[:18])
        if function is _NATIVE:
            found = native_attention(*args, **(kwargs or {}))
            if found is not NotImplemented:
                return found
        if function is _CROSS_ENTROPY:  # in chunks it has no derivative that could be recorded
            return function(*args, **{**(kwargs or {}), "options": None})
        depth = torch._C._functorch.get_dynamic_layer_stack_depth()
        if function in _SLOPES and not depth:
            return _sloped(function, *args, **(kwargs or {}))
        if function in _SCATTERS and not depth:  # transforms use torch's derivative by themselves
            return _strided_scatter(function, *args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))
