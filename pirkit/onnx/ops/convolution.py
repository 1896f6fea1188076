"""Convolution of floats, and its padding, for the rules of other files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.runtime.meta import UNKNOWN

Pair = tuple[int, int]


def around(
    b: NodeBuilder, x: Value, kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], pads: Sequence[int] | None, auto_pad: str,
) -> list[Pair]:  # fmt: skip
    """The padding before and after each spatial dimension of ``x``, given or by ``auto_pad``.

    Raises DynamicShapeError (PK0406) if it depends on an unknown size.
    """
    rank = len(kernel)
    if auto_pad in ("NOTSET", ""):
        listed = list(pads or [0] * 2 * rank)
        return [(listed[d], listed[d + rank]) for d in range(rank)]
    if auto_pad == "VALID":
        return [(0, 0)] * rank
    found: list[Pair] = []
    for n, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        if n == UNKNOWN and s > 1:
            b.static(x)
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        small = total // 2
        found.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return found


def even_padding(b: NodeBuilder, x: Value, pads: list[Pair]) -> tuple[Value, Any]:
    """The input and a padding of both sides of each dimension.

    Where the sides differ, the input returned is padded by the difference with zeros.
    """
    if all(low == high for low, high in pads):
        return x, tuple([low for low, _ in pads])
    shared = tuple([min(p) for p in pads])
    rest = [(low - s, high - s) for (low, high), s in zip(pads, shared, strict=True)]
    flat = [0, 0, 0, 0, *(n for pair in rest for n in pair)]
    return b.pad(x, paddings=tuple(flat), pad_value=0.0), shared


def convolution(
    b: NodeBuilder, x: Value, weight: Value, bias: Value | None = None, auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None, group: int = 1,
    kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Value:  # fmt: skip
    """A convolution of one, two or three spatial dimensions: x ``[N, C, ...]``, weight
    ``[M, C / group, ...]``, bias ``[M]``."""
    rank = x.rank - 2
    steps, spread = list(strides or [1] * rank), list(dilations or [1] * rank)
    padding = around(b, x, weight.shape[2:], steps, spread, pads, auto_pad)
    flat = rank == 1
    if flat:  # an image of one row
        x, weight = b.unsqueezed(x, (2,)), b.unsqueezed(weight, (2,))
        steps, spread, padding = [1, *steps], [1, *spread], [(0, 0), *padding]
    x, even = even_padding(b, x, padding)
    op = "pd_op.conv2d" if rank < 3 else "pd_op.conv3d"
    out = b(op, x, weight, strides=tuple(steps), paddings=even, dilations=tuple(spread),
            groups=group)  # fmt: skip
    out = b.squeezed(out, (2,)) if flat else out
    if bias is None:
        return out
    return b.add(out, b.reshape(bias, (bias.shape[0], *[1] * rank)))
