"""im2col and col2im in terms of primitives."""

from __future__ import annotations

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import part
from pirkit.dialect.rules.movement.size_ops import (
    REFUSED,
    Size,
    as_list,
    grown,
    in_shape,
    shrunk,
    sizes_of,
    zeros,
)
from pirkit.runtime import dtype as dt


@decompose("pd_op.unfold")
def _(c: OpCall) -> Value:
    """Rows are read once for each row of the kernel, and columns likewise.

    A window that is larger than the padded image, which counts once if it is by less than a stride,
    is left to the whole op; for sizes that are not known it is refused.
    """
    b = c.b
    top, left, bottom, right = c.paddings
    paddings = [0, 0, 0, 0, top, bottom, left, right]
    x = b.pad(c.x, paddings=paddings, pad_value=0.0) if any(paddings) else c.x
    n, channels, *space = sizes_of(b, x)
    counts: list[Size] = []
    for i, size in enumerate(space):
        kernel, stride, dilation = c.kernel_sizes[i], c.strides[i], c.dilations[i]
        room = _more(b, size, -dilation * (kernel - 1) - 1)
        if isinstance(room, int) and room < 0:
            return NotImplemented
        count = _more(b, shrunk(b, room, stride), 1)
        if not isinstance(count, int):
            count = b.where(count < 1, b.integers((REFUSED,)), count)
        counts.append(count)
        x = b.gather(x, _places(b, kernel, dilation, count, stride), axis=2 + i)
    kh, kw = c.kernel_sizes
    h, w = counts
    x = b.transpose(in_shape(b, x, [n, channels, kh, h, kw, w]), perm=(0, 1, 2, 4, 3, 5))
    windows = h * w if isinstance(h, int) and isinstance(w, int) else as_list(b, h) * as_list(b, w)
    return in_shape(b, x, [n, grown(b, channels, kh * kw), windows])


@decompose("pd_op.fold")
def _(c: OpCall) -> Value:
    """Rows are added up where the rows of the kernel write, and columns likewise."""
    b = c.b
    x = b.wide(c.x)
    top, left, bottom, right = c.paddings
    wide = [c.output_sizes[0] + top + bottom, c.output_sizes[1] + left + right]
    counts: list[int] = []
    for i, size in enumerate(wide):
        room = size - c.dilations[i] * (c.kernel_sizes[i] - 1) - 1
        if room < 0:
            return NotImplemented
        counts.append(room // c.strides[i] + 1)
    (kh, kw), (h, w) = c.kernel_sizes, counts
    n, rows, _ = sizes_of(b, x)
    channels = shrunk(b, rows, kh * kw)
    x = b.transpose(in_shape(b, x, [n, channels, kh, kw, h, w]), perm=(2, 4, 3, 5, 0, 1))
    for i, tail in enumerate(([kw, w, n, channels], [wide[0], n, channels])):
        flat = in_shape(b, x, [c.kernel_sizes[i] * counts[i], *tail])
        at = _places(b, c.kernel_sizes[i], c.dilations[i], counts[i], c.strides[i])
        x = b.scatter_nd_add(zeros(b, [wide[i], *tail], x.dtype), b.unsqueeze(at, axis=(1,)), flat)
        x = b.transpose(x, perm=(1, 2, 0, 3, 4) if i == 0 else (2, 3, 1, 0))
    if any(c.paddings):
        ends = (top + c.output_sizes[0], left + c.output_sizes[1])
        x = part(b, x, (2, 3), (top, left), ends)
    return b.cast(x, c.x.dtype)


def _more(b: Builder, size: Size, by: int) -> Size:
    return size + by if isinstance(size, int) else size + b.integers((by,))


def _places(b: Builder, kernel: int, dilation: int, count: Size, stride: int) -> Value:
    """Where each element of the kernel reads, at each position of the window."""
    end = count if isinstance(count, int) else b.reshape(count, ())
    at = b.arange(start=0, end=end, step=1, dtype=dt.int64)
    inner = b.arange(start=0, end=kernel, step=1, dtype=dt.int64)
    inner = b.unsqueeze(b.scale(inner, scale=dilation), axis=(1,))
    return b.reshape(inner + b.unsqueeze(b.scale(at, scale=stride), axis=(0,)), (-1,))
