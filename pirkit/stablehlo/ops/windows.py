"""Reductions of windows: pooling, and cumulative sums, which jax writes as windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Dense
from pirkit.stablehlo.ops.elementwise import BINARY
from pirkit.stablehlo.ops.reductions import combine, is_neutral
from pirkit.stablehlo.ops.regions import combiner_of
from pirkit.stablehlo.ops.views import padded
from pirkit.stablehlo.rules import rule

_UNROLLED: Final = 1024
"""The widest window whose elements are combined one by one."""


@dataclass
class Window:
    """Windows of a tensor, dimension by dimension."""

    sizes: list[int]
    strides: list[int]
    spread: list[int]
    inner: list[int]
    low: list[int]
    high: list[int]

    @classmethod
    def of(
        cls, b: HloBuilder, rank: int, sizes: Sequence[int], strides: Any, inner: Any, spread: Any,
        padding: Dense | Any,
    ) -> Window:  # fmt: skip
        """From the attributes of an operation."""
        if len(sizes) != rank:
            raise b.malformed("a window has one size for each dimension")
        given = np.zeros((rank, 2), np.int64)
        if isinstance(padding, Dense):
            given = np.broadcast_to(padding.array, (rank, 2))
        ones = [1] * rank
        return cls(list(sizes), list(strides or ones), list(spread or ones), list(inner or ones),
                   given[:, 0].tolist(), given[:, 1].tolist())  # fmt: skip

    def parts(self, b: HloBuilder, x: Value) -> list[Value]:
        """For each place in the window the elements under it, of a padded tensor."""
        found = [x]
        for d in range(x.rank):
            found = [part for held in found for part in self.along(b, held, d)]
        return found

    def along(self, b: HloBuilder, x: Value, d: int) -> list[Value]:
        """The same for one dimension."""
        size, step, spread = self.sizes[d], self.strides[d], self.spread[d]
        count = (x.shape[d] - (size - 1) * spread - 1) // step + 1
        return [b.cut(x, d, i * spread, i * spread + (count - 1) * step + 1, step)
                for i in range(size)]  # fmt: skip


@rule("reduce_window")
def _(
    b: HloBuilder, *values: Value, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None, base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None, padding: Dense | None = None,
) -> Any:  # fmt: skip
    how = combiner_of(b.node.regions[0])
    if len(values) != 2 or f"stablehlo.{how}" not in BINARY:
        raise b.unsupported("combines elements by a function of several operations")
    x, init = values
    window = Window.of(b, x.rank, window_dimensions, window_strides, base_dilations,
                       window_dilations, padding)  # fmt: skip
    scanned = _cumulative(b, x, init, window, str(how))
    if scanned is not None:
        return scanned
    pooled = _pooled(b, x, init, window, str(how))
    if pooled is not None:
        return pooled
    if max(window.sizes) > _UNROLLED:
        raise b.unsupported(f"has windows of {max(window.sizes)} elements")
    inner = [n - 1 for n in window.inner]
    found = padded(b, x, init, window.low, window.high, inner)
    for d in range(x.rank):
        if window.sizes[d] > 1 or window.strides[d] > 1:
            found = combine(b, str(how), window.along(b, found, d))
    if not is_neutral(b, init, str(how)):
        found = combine(b, str(how), [found, b.expanded(init, found.shape)])
    return found


def _cumulative(b: HloBuilder, x: Value, init: Value, window: Window, how: str) -> Value | None:
    """A window as long as its dimension, which ends or begins at each element."""
    wide = [d for d, n in enumerate(window.sizes) if n > 1]
    plain = [*window.strides, *window.spread, *window.inner]
    if len(wide) != 1 or any(n != 1 for n in plain) or not is_neutral(b, init, how):
        return None
    (d,) = wide
    n = window.sizes[d]
    others = [w for i in range(x.rank) if i != d for w in (window.low[i], window.high[i])]
    pads = (window.low[d], window.high[d])
    ops = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
    if any(others) or n != x.shape[d] or pads not in ((n - 1, 0), (0, n - 1)) or how not in ops:
        return None
    backward = pads[0] == 0
    if how == "add":
        return b.cast(b.cumsum(x, axis=d, reverse=backward), x.dtype)
    held = b.flip(x, axis=(d,)) if backward else x
    if how == "multiply":
        found = b.apply("cumprod", held, dim=d)
    elif held.dtype in (dt.float32, dt.float64, dt.int32, dt.int64) and not b.ins[0].is_unsigned:
        found = b(f"pd_op.{ops[how]}", held, axis=d)[0]
    else:
        return None
    return b.flip(found, axis=(d,)) if backward else found


def _pooled(b: HloBuilder, x: Value, init: Value, window: Window, how: str) -> Value | None:
    """Images and volumes, whose windows run over two or three dimensions side by side."""
    wide = [d for d in range(x.rank) if window.sizes[d] > 1 or window.strides[d] > 1]
    even = window.low == window.high
    fits = all(2 * low <= size for low, size in zip(window.low, window.sizes, strict=True))
    plain = all(n == 1 for n in [*window.spread, *window.inner]) and even and fits
    if not plain or not x.dtype.is_float or how not in ("add", "maximum"):
        return None
    if x.rank != 4 or wide not in ([1, 2], [2, 3]) or not is_neutral(b, init, how):
        return None
    layout = "NHWC" if wide == [1, 2] else "NCHW"
    pads = tuple([window.low[d] for d in wide])
    sizes = tuple([window.sizes[d] for d in wide])
    found = b("pd_op.pool2d", x, kernel_size=sizes, strides=tuple([window.strides[d] for d in wide]),
              paddings=pads, ceil_mode=False, exclusive=False, data_format=layout,
              pooling_type="max" if how == "maximum" else "avg", global_pooling=False,
              adaptive=False, padding_algorithm="EXPLICIT")  # fmt: skip
    return found if how == "maximum" else b.scaled(found, float(sizes[0] * sizes[1]))
