"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


def _listed(given: Any, count: int) -> list[int]:
    """One number per spatial dimension; a single one stands for all."""
    listed = [given] if isinstance(given, int) else list(given)
    return listed * count if len(listed) == 1 else listed


@rule("convolution", "_convolution")
def _(
    b: AtenBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, *_: Any,
) -> Any:  # fmt: skip
    if x.rank < weight.rank or 0 in x.shape or 0 in weight.shape:
        return NotImplemented
    rank = x.rank - 2
    sizes = [_listed(v, rank) for v in (stride, padding, dilation, output_padding)]
    if rank == 1:  # an image of one row
        x, weight = (b.reshape(v, (*v.shape[:2], 1, v.shape[2])) for v in (x, weight))
        sizes = [[(1, 0, 1, 0)[i], *v] for i, v in enumerate(sizes)]
    strides, paddings, dilations, extra = map(tuple, sizes)
    places = {"strides": strides, "paddings": paddings, "dilations": dilations, "groups": groups}
    if transposed:
        op = "pd_op.conv2d_transpose" if rank < 3 else "pd_op.conv3d_transpose"
        out = b(op, x, weight, output_padding=extra if any(extra) else (), **places)
    else:
        out = b("pd_op.conv2d" if rank < 3 else "pd_op.conv3d", x, weight, **places)
    out = b.reshape(out, b.shape)
    if bias is None:
        return out
    return b.add(out, b.reshape(bias, (bias.shape[0], *[1] * rank)))


@rule("im2col")
def _(
    b: AtenBuilder, x: Value, kernel: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Any:  # fmt: skip
    if x.rank != 4:
        return NotImplemented
    around = (*padding, *padding)
    return b("pd_op.unfold", x, kernel_sizes=tuple(kernel), strides=tuple(stride),
             paddings=around, dilations=tuple(dilation))  # fmt: skip


@rule("col2im")
def _(
    b: AtenBuilder, x: Value, size: Sequence[int], kernel: Sequence[int],
    dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int],
) -> Any:  # fmt: skip
    if x.rank != 3 or x.dtype.itemsize < 4:
        return NotImplemented
    around = (*padding, *padding)
    return b("pd_op.fold", x, output_sizes=tuple(size), kernel_sizes=tuple(kernel),
             strides=tuple(stride), paddings=around, dilations=tuple(dilation))  # fmt: skip


@rule("pixel_shuffle")
def _(b: AtenBuilder, x: Value, factor: int) -> Value:
    *lead, c, h, w = x.shape
    split = b.reshape(x, (*lead, c // factor**2, factor, factor, h, w))
    n = len(lead)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return b.reshape(b.permute(split, order), b.shape)


@rule("pixel_unshuffle")
def _(b: AtenBuilder, x: Value, factor: int) -> Value:
    *lead, c, h, w = x.shape
    split = b.reshape(x, (*lead, c, h // factor, factor, w // factor, factor))
    n = len(lead)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return b.reshape(b.permute(split, order), b.shape)
