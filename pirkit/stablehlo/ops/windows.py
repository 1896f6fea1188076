"""Reductions of windows: pooling, and cumulative sums, which jax writes as windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.runtime import dtype as dt
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Dense
from pirkit.stablehlo.ops.reductions import is_neutral
from pirkit.stablehlo.ops.regions import combiner_of
from pirkit.stablehlo.ops.views import padded
from pirkit.stablehlo.rules import rule

_UNROLLED: Final = 1024
"""The widest window whose elements are combined one by one."""


@dataclass
class Window:
    """The geometry of windows: one number for each dimension of a tensor.

    ``spread`` are the dilations of the window, ``inner`` those of the tensor, ``low`` and ``high``
    the padding.
    """

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
        """From an operation's attributes. Raises ParseError (PK0105) if their number is wrong."""
        if len(sizes) != rank:
            raise b.malformed("a window has one size for each dimension")
        given = np.zeros((rank, 2), np.int64)
        if isinstance(padding, Dense):
            given = np.broadcast_to(padding.array, (rank, 2))
        ones = [1] * rank
        return cls(list(sizes), list(strides or ones), list(spread or ones), list(inner or ones),
                   given[:, 0].tolist(), given[:, 1].tolist())  # fmt: skip

    def scanned(self, shape: Sequence[int]) -> tuple[int, bool] | None:
        """Of a cumulative op, its dimension and whether it runs backward; None for others."""
        wide = [d for d, n in enumerate(self.sizes) if n > 1]
        if len(wide) != 1 or any(n != 1 for n in (*self.strides, *self.spread, *self.inner)):
            return None
        (axis,) = wide
        reach = self.sizes[axis] - 1
        pads = [(low, high) for low, high in zip(self.low, self.high, strict=True)]
        others = [p for d, p in enumerate(pads) if d != axis and p != (0, 0)]
        if others or shape[axis] != reach + 1 or pads[axis] not in ((reach, 0), (0, reach)):
            return None
        return axis, pads[axis][0] == 0

    def parts(self, b: HloBuilder, x: Value) -> list[Value]:
        """For each position in the window the elements of a padded tensor that it meets."""
        if any(self.count(x, d) < 1 for d in range(x.rank)):
            raise b.unsupported("has windows that are larger than the padded tensor")
        found = [x]
        for d in range(x.rank):
            found = [part for held in found for part in self.along(b, held, d)]
        return found

    def count(self, x: Value, d: int) -> int:
        """The number of windows along a dimension of a padded tensor."""
        return (x.shape[d] - (self.sizes[d] - 1) * self.spread[d] - 1) // self.strides[d] + 1

    def along(self, b: HloBuilder, x: Value, d: int) -> list[Value]:
        """The same as `parts`, for one dimension."""
        size, step, spread = self.sizes[d], self.strides[d], self.spread[d]
        count = self.count(x, d)
        reach = (count - 1) * step + 1 if count > 0 else 0
        return [b.cut(x, d, i * spread, i * spread + reach, step) for i in range(size)]


@rule("reduce_window")
def _(
    b: HloBuilder, *values: Value, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None, base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None, padding: Dense | None = None,
) -> Any:  # fmt: skip
    body = b.node.regions[0]
    how = combiner_of(body) if len(values) == 2 else None
    count = len(values) // 2
    operands, inits = values[:count], values[count:]
    window = Window.of(b, operands[0].rank, window_dimensions, window_strides, base_dilations,
                       window_dilations, padding)  # fmt: skip
    if how is not None and is_neutral(b, inits[0], how):
        found = _cumulative(b, operands[0], window, how) or _pooled(b, operands[0], window, how)
        if found is not None:
            return found

    def step(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return b.elementwise(body, [*left, *right])

    scanned = window.scanned(operands[0].shape)
    if scanned is not None:
        axis, backward = scanned
        made = _scan(b, operands, axis, backward, step)
    else:
        made = _combined(b, operands, inits, window, step)
    if is_neutral(b, inits[0], how):
        return tuple(made)
    return tuple(step([b.expanded(i, m.shape) for i, m in zip(inits, made, strict=True)], made))


Step = Callable[[Sequence[Value], Sequence[Value]], list[Value]]


def _combined(
    b: HloBuilder, operands: Sequence[Value], inits: Sequence[Value], window: Window, step: Step
) -> list[Value]:
    """Windows whose elements are combined one by one, dimension by dimension.

    The padding is the initial value, which StableHLO lets a reduction take any number of times.
    """
    if max(window.sizes) > _UNROLLED:
        raise b.unsupported(f"has windows of {max(window.sizes)} elements")
    inner = [n - 1 for n in window.inner]
    made = [padded(b, x, init, window.low, window.high, inner)
            for x, init in zip(operands, inits, strict=True)]  # fmt: skip
    for d in range(operands[0].rank):
        if window.sizes[d] == window.strides[d] == 1:
            continue
        first, *others = zip(*(window.along(b, v, d) for v in made), strict=True)
        made = list(first)
        for other in others:
            made = step(made, other)
    return made


def _scan(
    b: HloBuilder, values: Sequence[Value], axis: int, backward: bool, step: Step
) -> list[Value]:
    """Each element combined with all before it, in steps of doubled length (Hillis and Steele)."""
    held = [b.flip(v, axis=(axis,)) if backward else v for v in values]
    size, reach = held[0].shape[axis], 1
    while reach < size:
        early = [b.cut(v, axis, 0, size - reach) for v in held]
        late = [b.cut(v, axis, reach, size) for v in held]
        held = [b.concat([b.cut(v, axis, 0, reach), m], axis)
                for v, m in zip(held, step(early, late), strict=True)]  # fmt: skip
        reach *= 2
    return [b.flip(v, axis=(axis,)) if backward else v for v in held]


def _cumulative(b: HloBuilder, x: Value, window: Window, how: str) -> Value | None:
    """A cumulative sum or product as one op; None for other windows and operations."""
    scanned = window.scanned(x.shape)
    if scanned is None:
        return None
    axis, backward = scanned
    if how == "add" and x.dtype is not dt.bool_:
        return b.cast(b.cumsum(x, axis=axis, reverse=backward), x.dtype)
    if how == "multiply" and x.dtype is not dt.bool_:
        return b.apply("cumprod", x, dim=axis, reverse=backward)
    return None


def _pooled(b: HloBuilder, x: Value, window: Window, how: str) -> Value | None:
    """Pooling of images by `pool2d`; None for other windows and operations."""
    wide = [d for d in range(x.rank) if window.sizes[d] > 1 or window.strides[d] > 1]
    even = window.low == window.high
    fits = all(2 * low <= size for low, size in zip(window.low, window.sizes, strict=True))
    plain = all(n == 1 for n in [*window.spread, *window.inner]) and even and fits
    if not plain or not x.dtype.is_float or how not in ("add", "maximum"):
        return None
    if x.rank != 4 or wide not in ([1, 2], [2, 3]):
        return None
    layout = "NHWC" if wide == [1, 2] else "NCHW"
    pads = tuple([window.low[d] for d in wide])
    sizes = tuple([window.sizes[d] for d in wide])
    strides = tuple([window.strides[d] for d in wide])
    found = b("pd_op.pool2d", x, kernel_size=sizes, strides=strides, paddings=pads,
              ceil_mode=False, exclusive=False, data_format=layout,
              pooling_type="max" if how == "maximum" else "avg", global_pooling=False,
              adaptive=False, padding_algorithm="EXPLICIT")  # fmt: skip
    return found if how == "maximum" else b.scaled(found, float(sizes[0] * sizes[1]))
