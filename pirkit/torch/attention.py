"""Attention in parts that pirkit fuses."""

from __future__ import annotations

from typing import Any

from pirkit.torch.libtorch import torch


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """`torch.nn.functional.scaled_dot_product_attention`, composed of products and a softmax.

    ``[..., length, depth]`` each. A row of the mask without any key gives zeros, as torch's kernels
    do; it is found in the mask, which has no heads as a rule, not in the scores.
    """
    if enable_gqa:
        groups = query.size(-3) // key.size(-3)
        key, value = (t.repeat_interleave(groups, -3) for t in (key, value))
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = torch.matmul(query, key.transpose(-2, -1)) * factor
    empty = None
    if is_causal:
        rows, columns = query.size(-2), key.size(-2)
        attn_mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        empty = attn_mask.any(-1, keepdim=True).logical_not()
    elif attn_mask is not None:
        scores = scores + attn_mask
        empty = (attn_mask == float("-inf")).all(-1, keepdim=True)
    weights = torch.softmax(scores, -1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    if dropout_p:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return torch.matmul(weights, value)
