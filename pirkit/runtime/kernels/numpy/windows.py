"""Geometry of sliding windows, for the kernels of convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from pirkit.runtime.binding import Binding

CHANNELS_LAST: Final = ("NHWC", "NDHWC", "NLC", "NWC")


class Geometry(Struct, frozen=True):
    """The windows of one call, for each spatial dimension."""

    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    """Elements of padding in front."""
    positions: tuple[int, ...]
    last: bool
    """True if channels are the last dimension."""

    @property
    def padded(self) -> tuple[int, ...]:
        """The number of elements that windows cover, for each dimension."""
        return tuple(
            (p - 1) * s + d * (k - 1) + 1
            for p, s, d, k in zip(
                self.positions, self.strides, self.dilations, self.sizes, strict=True
            )
        )


def geometry(b: Binding, sizes: Sequence[int], dilations: Sequence[int] | None = None) -> Geometry:
    """The geometry of a call whose result's shape is known; `infer_meta` has checked it."""
    last = b.attrs["data_format"] in CHANNELS_LAST
    cut = slice(1, -1) if last else slice(2, None)
    lengths, positions = b.input().shape[cut], b.output().shape[cut]
    n = len(lengths)
    strides = tuple(b.attrs["strides"])
    algorithm = b.attrs["padding_algorithm"]
    expanded = (1,) * n if algorithm == "SAME" else tuple(dilations or (1,) * n)
    return Geometry(
        lengths,
        tuple(sizes),
        strides,
        expanded,
        _before(b, lengths, sizes, strides),
        positions,
        last,
    )


def _before(
    b: Binding, lengths: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[int, ...]:
    algorithm, paddings = b.attrs["padding_algorithm"], tuple(b.attrs["paddings"])
    if algorithm == "VALID":
        return (0,) * len(lengths)
    if algorithm == "SAME":
        return tuple(
            max((-(-n // s) - 1) * s + k - n, 0) // 2
            for n, k, s in zip(lengths, sizes, strides, strict=True)
        )
    return paddings if len(paddings) == len(lengths) else paddings[::2]


def channels_first(x: Any, last: bool) -> Any:
    """A view with the channels in dimension 1."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1)) if last else x


def inside(g: Geometry) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where the input goes in the padded area, and which part of it: negative paddings crop it."""
    target: list[slice] = []
    source: list[slice] = []
    for before, length, room in zip(g.before, g.lengths, g.padded, strict=True):
        cut = max(-before, 0)
        start = before + cut
        count = max(min(length - cut, room - start), 0)
        target.append(slice(start, start + count))
        source.append(slice(cut, cut + count))
    return tuple(target), tuple(source)
