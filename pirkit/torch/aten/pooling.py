"""Pooling and resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.rules import rule


def _pair(given: Any, default: Any = None) -> tuple[int, ...]:
    if given is None or len(given) == 0:
        return tuple(default or ())
    return tuple(given) * 2 if len(given) == 1 else tuple(given)


def _batched(b: AtenBuilder, x: Value) -> Value:
    """An image without a batch gets one."""
    return x if x.rank == 4 else b.reshape(x, (1, *x.shape))


def _windows(b: AtenBuilder, x: Value, kernel: Any, stride: Any, padding: Any, ceil: bool,
             kind: str, *, exclusive: bool = True, adaptive: bool = False) -> Value:  # fmt: skip
    return b("pd_op.pool2d", x, kernel_size=_pair(kernel), strides=_pair(stride, _pair(kernel)),
             paddings=_pair(padding, (0, 0)), ceil_mode=ceil, exclusive=exclusive,
             data_format="NCHW", pooling_type=kind, global_pooling=False, adaptive=adaptive,
             padding_algorithm="EXPLICIT")  # fmt: skip


@rule("max_pool2d_with_indices")
def _(
    b: AtenBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,), ceil_mode: bool = False,
) -> Any:  # fmt: skip
    if any(n != 1 for n in dilation) or ceil_mode:
        return NotImplemented
    image = _batched(b, x)
    out, mask = b("pd_op.max_pool2d_with_index", image, kernel_size=_pair(kernel),
                  strides=_pair(stride, _pair(kernel)), paddings=_pair(padding, (0, 0)),
                  ceil_mode=ceil_mode)  # fmt: skip
    return b.reshape(out, b.shapes[0]), b.reshape(mask, b.shapes[1])


@rule("avg_pool2d")
def _(
    b: AtenBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int] = (),
    padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:  # fmt: skip
    padded = any(padding)
    if divisor is not None or ceil_mode:
        return NotImplemented
    out = _windows(b, _batched(b, x), kernel, stride, padding, ceil_mode, "avg",
                   exclusive=not (count_include_pad and padded))  # fmt: skip
    return b.reshape(out, b.shape)


@rule("_adaptive_avg_pool2d")
def _(b: AtenBuilder, x: Value, size: Sequence[int]) -> Value:
    if tuple(size) == (1, 1):
        return b("pd_op.mean", x, axis=(x.rank - 2, x.rank - 1), keepdim=True)
    out = _windows(b, _batched(b, x), size, size, (0, 0), False, "avg", adaptive=True)
    return b.reshape(out, b.shape)


def _resized(op: str, corners: bool, b: AtenBuilder, x: Value, sizes: Any) -> Any:
    """Resize to sizes; what scale factors that do not divide the sizes ask for is torch's."""
    out = b.shape[2:]
    if sizes is None and any(o % i for o, i in zip(out, x.shape[2:], strict=True)):
        return NotImplemented
    names = {4: ("out_h", "out_w"), 5: ("out_d", "out_h", "out_w")}[x.rank]
    method = {"nearest_interp": "nearest", "bicubic_interp": "bicubic"}.get(op, "bilinear")
    return b(f"pd_op.{op}", x, **dict(zip(names, out, strict=True)), align_corners=corners,
             align_mode=0, interp_method=method)  # fmt: skip


def _nearest(b: AtenBuilder, x: Value, size: Any, *factors: Any) -> Any:
    if size is not None and any(f is not None for f in factors):
        return NotImplemented
    return _resized("nearest_interp", False, b, x, size)


def _smooth(op: str, b: AtenBuilder, x: Value, size: Any, corners: bool, *factors: Any) -> Any:
    if size is not None and any(f is not None for f in factors):
        return NotImplemented
    return _resized(op, corners, b, x, size)


rule("upsample_nearest2d.vec", "upsample_nearest2d")(_nearest)
rule("upsample_bilinear2d.vec", "upsample_bilinear2d")(partial(_smooth, "bilinear_interp"))
rule("upsample_bicubic2d.vec", "upsample_bicubic2d")(partial(_smooth, "bicubic_interp"))
