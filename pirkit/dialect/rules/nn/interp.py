"""Resizing of images: each element is a weighted sum of elements gathered along one axis.

Indices and weights are computed from the sizes, all of which may be dynamic. Ratios of sizes are in
float32, as in Paddle, so that the same neighbours are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.movement import part
from pirkit.dialect.rules.movement.size_ops import Size, as_list, sizes_of
from pirkit.runtime import dtype as dt

Taps = list[tuple[Value, Value | None]]
"""For each element of the result: which elements to add up, with which weights (None: one)."""

SLOPE = -0.75
"""The slope of the cubic kernel at distance 1: the parameter ``a`` of Keys (1981)."""


@decompose(
    *(f"pd_op.{n}_interp" for n in ("linear", "nearest", "bilinear", "bicubic", "trilinear"))
)
def _(c: OpCall) -> Value:
    b, x = c.b, c.x if c.interp_method == "nearest" else c.b.wide(c.x)
    if c.interp_method != "nearest" and not x.dtype.is_float:
        x = b.cast(x, dt.float64)
    first = 2 if c.data_format == "NCHW" else 1
    lengths = sizes_of(b, x)[first : first + x.rank - 2]
    sizes, factors = _sizes(c, lengths)
    for axis, each in enumerate(zip(lengths, sizes, factors, strict=True), first):
        taps = _Axis(b, *each).taps(c.interp_method, c.align_corners, c.align_mode)
        x = _resampled(b, x, axis, taps)
    return b.cast(x, c.x.dtype)


@decompose("pd_op.interp_antialias")
def _(c: OpCall) -> Value:
    """One matmul for each dimension, by the weights of `filter_matrix`."""
    b, x = c.b, c.b.wide(c.x)
    if not x.dtype.is_float:
        x = b.cast(x, dt.float64)
    first = 2 if c.data_format == "NCHW" else 1
    lengths = sizes_of(b, x)[first : first + 2]
    for axis, each in enumerate(zip(lengths, *_sizes(c, lengths), strict=True), first):
        weights = b.cast(_filter_matrix(c, *each), x.dtype)
        order = [*(i for i in range(4) if i != axis), axis]
        back = [order.index(i) for i in range(4)]
        x = b.permute(b.matmul(b.permute(x, order), weights, transpose_y=True), back)
    return b.cast(x, c.x.dtype)


def _filter_matrix(c: OpCall, length: Size, size: Size, factor: Value | None) -> Value:
    """`[size, length]` in float64, as :func:`pirkit.runtime.interpolation.filter_matrix` has it."""
    b, wide = c.b, dt.float64
    one, zero = b.const(1.0, wide), b.const(0.0, wide)
    long, short = (b.cast(b.reshape(as_list(b, d), ()), wide) for d in (length, size))
    if c.align_corners:
        steps = b.maximum(short - one, one)
        step = b.where(b.greater_than(short, one), (long - one) / steps, zero)
    else:
        step = long / short if factor is None else b.reshape(1.0 / factor, ())
    stretch = b.maximum(step, one)
    reach = stretch * (1.0 if c.interp_method == "bilinear" else 2.0)
    rows, columns = (
        b.cast(b.arange(start=0, end=n, step=1, dtype=dt.int64), wide)
        for n in (d if isinstance(d, int) else b.reshape(d, ()) for d in (size, length))
    )
    middle = b.unsqueeze((rows + 0.5) * step, axis=(1,))
    low = b.maximum(b.trunc(middle - reach + 0.5), zero)
    high = b.minimum(b.trunc(middle + reach + 0.5), long)
    t = b.abs((columns - middle + 0.5) / stretch)
    if c.interp_method == "bilinear":
        found = b.maximum(1.0 - t, zero)
    else:
        near, far = (t * 1.5 - 2.5) * t * t + 1.0, ((t * -0.5 + 2.5) * t - 4.0) * t + 2.0
        found = b.where(t < 1.0, near, b.where(t < 2.0, far, b.zeros_like(t)))
    is_read = b.logical_and(b.greater_equal(columns, low), b.less_than(columns, high))
    found = b.where(is_read, found, b.zeros_like(found))
    total = b.sum(found, (1,), keepdim=True)
    return found / b.where(b.equal(total, zero), one, total)


def _resampled(b: Builder, x: Value, axis: int, taps: Taps) -> Value:
    shape = (-1, *(1,) * (x.rank - axis - 1))
    terms = [
        term if weight is None else term * b.reshape(b.cast(weight, x.dtype), shape)
        for at, weight in taps
        for term in [cast(Value, b.gather(x, at, axis=axis))]
    ]
    return b.total(terms) or x


def _sizes(c: OpCall, lengths: Sequence[Size]) -> tuple[Sequence[Size], Sequence[Value | None]]:
    """The sizes that are asked for, and the factors that they come from if they do."""
    b, n = c.b, len(lengths)
    if c.size_tensor is not None:
        return [b.cast(b.reshape(t, (1,)), dt.int64) for t in c.size_tensor], (None,) * n
    if c.out_size is not None:
        given = b.cast(c.out_size, dt.int64)
        return [part(b, given, (0,), (i,), (i + 1,)) for i in range(n)], (None,) * n
    if c.scale_tensor is not None:
        given = b.cast(b.reshape(c.scale_tensor, (-1,)), dt.float64)
        given = b.expand(given, shape=(n,))
        factors = [part(b, given, (0,), (i,), (i + 1,), (0,)) for i in range(n)]
        return [_times(b, *pair) for pair in zip(lengths, factors, strict=True)], factors
    if not c.scale:
        return (c.out_d, c.out_h, c.out_w)[-n:], (None,) * n
    factors = [b.const(f, dt.float64) for f in c.scale]
    sizes = [
        int(d * f) if isinstance(d, int) else _times(b, d, v)
        for d, f, v in zip(lengths, c.scale, factors, strict=True)
    ]
    return sizes, factors


def _times(b: Builder, length: Size, factor: Value) -> Value:
    return b.cast(b.cast(as_list(b, length), dt.float64) * factor, dt.int64)


class _Axis(Struct):
    """One dimension of an image: how long it is, and how long it gets."""

    b: Builder
    length: Size
    size: Size
    factor: Value | None

    def taps(self, method: str, align_corners: bool, align_mode: int) -> Taps:
        """Neighbours and weights for each element of the result."""
        b = self.b
        ratio = self._ratio(align_corners, shrinks=align_corners or method.startswith("bi"))
        end: Any = self.size if isinstance(self.size, int) else self._checked(self.size)
        i = b.cast(b.arange(start=0, end=end, step=1, dtype=dt.int64), dt.float32)
        if method == "nearest":
            return [(self._inside(b.cast(ratio * i + 0.5 * align_corners, dt.int64)), None)]
        edges = not align_corners and (align_mode == 0 or method == "bicubic")
        at = b.cast(ratio, dt.float64) * b.cast(i + 0.5, dt.float64) - 0.5 if edges else ratio * i
        return self._cubic(at) if method == "bicubic" else self._linear(at)

    def _checked(self, size: Value) -> Value:
        """A computed size, which a lookup in one zero refuses if it is not positive."""
        b = self.b
        missing = b.integers((1,)) - b.minimum(size, b.integers((1,)))
        return b.reshape(size + b.gather(b.integers((0,)), missing, axis=0), ())

    def _ratio(self, align_corners: bool, *, shrinks: bool) -> Value:
        """How far in the image one step in the result goes; ``shrinks``: not at all to a point."""
        b, one = self.b, self.b.const(1, dt.int64)
        length, size = (b.reshape(as_list(b, d), ()) for d in (self.length, self.size))
        if align_corners:
            steps = b.maximum(size - one, one)
            ratio = b.cast(length - one, dt.float32) / b.cast(steps, dt.float32)
        elif self.factor is None:
            ratio = b.cast(length, dt.float32) / b.cast(size, dt.float32)
        else:
            ratio = b.cast(1 / self.factor, dt.float32)
        return b.where(b.equal(size, one), 0.0, ratio) if shrinks else ratio

    def _inside(self, at: Value) -> Value:
        b = self.b
        last = as_list(b, self.length) - b.integers((1,))
        return b.minimum(b.maximum(at, b.zeros_like(at)), last)

    def _linear(self, at: Value) -> Taps:
        b = self.b
        at = b.maximum(at, b.zeros_like(at))
        low = b.cast(at, dt.int64)
        share = b.cast(at, dt.float64) - b.cast(low, dt.float64)
        above = low + b.const(1, dt.int64)
        return [(self._inside(low), 1 - share), (self._inside(above), share)]

    def _cubic(self, at: Value) -> Taps:
        """The cubic of Keys (1981)."""
        b, low = self.b, self.b.floor(at)
        t = b.cast(at - low, dt.float64)
        start = b.cast(low, dt.int64)
        weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
        places = [self._inside(start + b.const(k, dt.int64)) for k in (-1, 0, 1, 2)]
        return list(zip(places, weights, strict=True))


def _near(t: Value) -> Value:
    """Weight of an element up to one element away."""
    return (t * (SLOPE + 2) - (SLOPE + 3)) * t * t + 1


def _far(t: Value) -> Value:
    """Weight of an element one to two elements away."""
    return ((t * SLOPE - 5 * SLOPE) * t + 8 * SLOPE) * t - 4 * SLOPE
