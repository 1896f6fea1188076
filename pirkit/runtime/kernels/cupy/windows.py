"""Windows along an axis, and their sums: what pooling decomposes to."""

from __future__ import annotations

from typing import Any

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.kernels.cupy.results import Unary, computes


@computes("frame", dtypes=dt.ANY)
def frame(b: Binding) -> Unary:
    """A strided view of the windows, copied into the result."""
    xp = b.xp
    length, hop, first = b.attrs["frame_length"], b.attrs["hop_length"], b.attrs["axis"] == 0

    def run(x: Any) -> Any:
        windows = xp.lib.stride_tricks.sliding_window_view(x, length, axis=0 if first else -1)
        if first:
            return xp.moveaxis(windows[::hop], -1, 1)
        return xp.swapaxes(windows[..., ::hop, :], -1, -2)

    return run


@computes("overlap_add", dtypes=dt.NUMBERS)
def overlap_add(b: Binding) -> Unary:
    """One addition of strided vectors for each element of a window."""
    xp, hop, first = b.xp, b.attrs["hop_length"], b.attrs["axis"] == 0

    def run(x: Any) -> Any:
        frames = x if first else xp.moveaxis(x, (-1, -2), (0, 1))
        count, length = frames.shape[:2]
        end = (count - 1) * hop + 1
        out = xp.zeros((end - 1 + length, *frames.shape[2:]), x.dtype)
        for k in range(length if count else 0):
            out[k : k + end : hop] += frames[:, k]
        return out if first else xp.moveaxis(out, 0, -1)

    return run
