"""The sizes of convolutions over blocked channels in plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from pirkit.dialect.windows import slides
from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcConv
from pirkit.lowering.codegen.conv.winograd_blocking import WinogradConv
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return cast("tuple[int, int]", tuple(values))


def nchwc_conv_of(
    metas: Sequence[TensorMeta | None], out: TensorMeta, attrs: Mapping[str, Any]
) -> NchwcConv:
    """The sizes of a convolution or a pool; ``metas`` are those of its operands.

    Raises NotNativeError for element types without native code, and for nothing to compute.
    """
    x = metas[0]
    assert x is not None
    if x.dtype not in (dt.float32, dt.float64, dt.uint8):
        raise NotNativeError(f"no native form over blocked channels: the elements are {x.dtype}")
    if not x.numel or not out.numel:
        raise NotNativeError("no native form over blocked channels: there is nothing to compute")
    if len(metas) == 1:
        moves = slides(x.shape[2:4], attrs["kernel_size"], attrs["strides"], attrs["paddings"],
                       "EXPLICIT", (1, 1), "C2")  # fmt: skip
        return NchwcConv(
            x.shape[0], x.shape[4], x.shape[1], x.shape[4], x.shape[1], _pair(x.shape[2:4]),
            _pair(attrs["kernel_size"]), _pair(out.shape[2:4]), _pair([m.stride for m in moves]),
            (1, 1), _pair([m.before for m in moves]), x.dtype, depthwise=True, pool=True,
        )  # fmt: skip
    _, filter, *others = metas
    assert filter is not None
    quantized = x.dtype is dt.uint8
    _scales, bias, residual, _, _, offsets, *_ = (
        *(others if quantized else (None, *others)), None, None, None
    )  # fmt: skip
    depthwise, planar = filter.rank == 4, x.rank == 4
    sizes = filter.shape[1:3] if depthwise else filter.shape[2:4]
    lengths = x.shape[2:4]
    moves = slides(lengths, sizes, attrs["strides"], attrs["paddings"], "EXPLICIT",
                   attrs["dilations"], "C3")  # fmt: skip
    groups = 1 if planar or depthwise else x.shape[1] // filter.shape[1]
    blocks = 1 if planar else x.shape[1] // groups
    made = NchwcConv(
        x.shape[0], out.shape[4], blocks, x.shape[1 if planar else 4],
        out.shape[1], _pair(lengths), _pair(sizes), _pair(out.shape[2:4]),
        _pair([m.stride for m in moves]), _pair([m.dilation for m in moves]),
        _pair([m.before for m in moves]), x.dtype, planar, depthwise, bias is not None,
        residual is not None, attrs["activation"], attrs.get("channels", 0) % x.shape[-1],
        groups=groups,
    )  # fmt: skip
    return made if not quantized else replace(
        made, narrow=out.dtype is dt.uint8, zeros=_pair(attrs["zeros"]),
        narrow_residual=residual is not None and residual.dtype is dt.uint8,
        offsets=offsets is not None,
    )  # fmt: skip


def winograd_conv_of(
    metas: Sequence[TensorMeta | None], out: TensorMeta, attrs: Mapping[str, Any]
) -> WinogradConv:
    """The sizes of a convolution in Winograd's domain.

    Raises NotNativeError for element types without native code, and for nothing to compute.
    """
    x, _, bias, residual = metas
    assert x is not None
    if x.dtype not in (dt.float32, dt.float64) or not x.numel or not out.numel:
        raise NotNativeError(f"no native form in Winograd's domain: {x} becomes {out}")
    taps = attrs["kernel_size"]
    moves = slides(x.shape[2:4], taps, (1, 1), attrs["paddings"], "EXPLICIT", (1, 1), "C3")
    return WinogradConv(
        x.shape[0], x.shape[4], x.shape[1], out.shape[1], _pair(x.shape[2:4]),
        _pair(out.shape[2:4]), _pair([m.before for m in moves]),
        _pair(taps), _pair(attrs["tile"]), x.dtype, bias is not None, residual is not None,
        attrs["activation"], attrs["channels"] % x.shape[-1],
    )  # fmt: skip
