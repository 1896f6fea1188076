"""The sizes of convolutions over blocked channels in plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pirkit.dialect.windows import slides
from pirkit.lowering.codegen.conv.nchwc_blocking import NchwcConv
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

NCHWC: Final = "pir.nchwc_conv2d"


def nchwc_conv_of(
    metas: Sequence[TensorMeta | None], out: TensorMeta, attrs: Mapping[str, Any]
) -> NchwcConv:
    """The sizes of a convolution; ``metas`` are those of its four operands.

    Raises NotNativeError for element types without native code, and for nothing to compute.
    """
    x, filter, bias, residual = metas
    assert x is not None
    assert filter is not None
    if x.dtype not in (dt.float32, dt.float64):
        raise NotNativeError(f"`{NCHWC}` has no native form: its elements are {x.dtype}")
    if not x.numel or not out.numel:
        raise NotNativeError(f"`{NCHWC}` has no native form: it is one of nothing")
    depthwise, planar = filter.rank == 4, x.rank == 4
    sizes = filter.shape[1:3] if depthwise else filter.shape[2:4]
    lengths = x.shape[2:4]
    moves = slides(lengths, sizes, attrs["strides"], attrs["paddings"], "EXPLICIT",
                   attrs["dilations"], "C3")  # fmt: skip

    def pair(values: Sequence[int]) -> tuple[int, int]:
        return cast("tuple[int, int]", tuple(values))

    return NchwcConv(
        x.shape[0], out.shape[4], 1 if planar else x.shape[1], x.shape[1 if planar else 4],
        out.shape[1], pair(lengths), pair(sizes), pair(out.shape[2:4]),
        pair([m.stride for m in moves]), pair([m.dilation for m in moves]),
        pair([m.before for m in moves]), x.dtype, planar, depthwise, bias is not None,
        residual is not None, attrs["activation"], attrs["channels"] % x.shape[-1],
    )  # fmt: skip
