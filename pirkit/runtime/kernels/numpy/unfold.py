"""Windows of images as columns."""

from __future__ import annotations

from typing import NamedTuple

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel


class _Move(NamedTuple):
    """How a window moves along one dimension of an image."""

    length: int
    size: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def room(self) -> int:
        """How far the window can move; negative if it is larger than the padded image."""
        extent = self.dilation * (self.size - 1) + 1
        return self.length + self.before + self.after - extent

    @property
    def positions(self) -> int:
        """At least one, as in Paddle, where division truncates towards zero."""
        return max(self.room, 0) // self.stride + 1

    def tap(self, at: int) -> tuple[slice, slice]:
        """The positions at which an element of the window lies in the image, and where there."""
        offset = at * self.dilation - self.before
        first = max(0, -(offset // self.stride))
        last = min(self.positions, (self.length - 1 - offset) // self.stride + 1)
        count = max(last - first, 0)
        start = first * self.stride + offset
        stop = start + (count - 1) * self.stride + 1 if count else start
        return slice(first, first + count), slice(start, stop, self.stride)


@kernel("unfold", dtypes=dt.FLOATS, portable=True)
def unfold(b: Binding) -> Step:
    """One copy of the image for each element of the window; elements of the padding are zero."""
    n, channels, height, width = b.input().shape
    sizes, strides, dilations = (b.attrs[name] for name in ("kernel_sizes", "strides", "dilations"))
    top, left, bottom, right = b.attrs["paddings"]
    down = _Move(height, sizes[0], strides[0], dilations[0], top, bottom)
    across = _Move(width, sizes[1], strides[1], dilations[1], left, right)
    shape = (n, channels, down.size, across.size, down.positions, across.positions)
    taps = [(i, j, down.tap(i), across.tap(j)) for i in range(sizes[0]) for j in range(sizes[1])]
    padded, copyto = any(b.attrs["paddings"]) or min(down.room, across.room) < 0, b.xp.copyto

    def step(x: Array, out: Array) -> None:
        windows = out.reshape(shape)
        if padded:
            out.fill(0)
        for i, j, (rows, y), (columns, z) in taps:
            copyto(windows[:, :, i, j, rows, columns], x[:, :, y, z])

    return step
