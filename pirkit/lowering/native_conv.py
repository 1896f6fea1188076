"""Convolutions in native code: as products in blocks, or as a nest where groups are narrow."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from pirkit.dialect.kinds import TRANSPOSED
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.compile_blocks import native_blocks, native_correlation
from pirkit.lowering.codegen.convolving import Convolution, convolution
from pirkit.lowering.codegen.correlating import Correlation
from pirkit.lowering.codegen.phases import Sizes, backward, forward
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALVES, Binding, Step, widened
from pirkit.runtime.kernels.numpy.windows import CHANNELS_LAST, geometry
from pirkit.runtime.native.function import NativeSequence
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

WORTH: Final = 1 << 18
"""Multiplications of a call from which compiling a kernel for its sizes pays soon."""

NARROW: Final = 8
"""Filters or channels of a group below which tiles of products are mostly empty."""


def bind_convolution(b: Binding) -> Step | None:
    """What runs a convolution; None for small ones, and for those that others run faster."""
    return (widened(_bind) if b.dtype in HALVES else _bind)(b)


def why_never_native(b: Binding) -> str | None:
    """What native code does not know of a convolution; None if there is nothing."""
    if b.dtype not in (dt.float32, dt.float64, *HALVES):
        return f"its elements are {b.dtype}"
    if b.attrs["data_format"] in CHANNELS_LAST:
        return "its channels are the last dimension"
    return None


def why_not_native(b: Binding) -> str | None:
    """Why a convolution is left to others; None for one that is native code."""
    reason = why_never_native(b)
    if reason is not None:
        return reason
    count = multiplications(b)
    if count < WORTH:
        return f"it has {count:,} multiplications, fewer than {WORTH:,}"
    return None


def multiplications(b: Binding) -> int:
    """Elements of what the filter moves over, times what each of them meets."""
    met = b.input() if has_trait(b.op, TRANSPOSED) else b.output()
    if not met.shape[1] or not b.output().numel or not b.input().numel:
        return 0
    return met.numel // met.shape[1] * b.input(1).numel


def native_form(b: Binding) -> NativeSequence | Correlation:
    """Functions of images, filter and result, all of them dense; or the correlation that it is."""
    groups, turned = b.attrs["groups"], has_trait(b.op, TRANSPOSED)
    first, second, *sizes = b.input(1).shape
    each, depth = (second, first // groups) if turned else (first // groups, second)
    g = geometry(b, sizes, b.attrs["dilations"])
    sides = g.lengths, g.sizes, g.positions, g.strides, g.dilations, g.before
    s = Sizes(b.input().shape[0], groups, each, depth, b.dtype, *sides)
    if not turned and prod(sizes) > prod(g.positions) and (groups == 1 or each >= NARROW):
        return Correlation(s.n, groups, each, depth, *sides, s.dtype)
    if groups > 1 and min(each, depth) < NARROW and (nest := _nest(s, turned)):
        return nest
    return native_blocks((backward if turned else forward)(s))


def _bind(b: Binding) -> Step | None:
    if why_not_native(b) is not None:
        return None
    found = native_form(b)
    return _summing(b, found) if isinstance(found, Correlation) else _writing(b, found)


def _writing(b: Binding, sequence: NativeSequence) -> Step:
    """The step of functions of images, filter and result, all of them dense."""
    call, result = sequence.at_addresses(), b.output()

    def step(x: Array, filter: Array, out: Array) -> None:
        given = [np.ascontiguousarray(a) for a in (x, filter)]
        whole = out if out.flags.c_contiguous else np.empty(result.shape, result.dtype.np)
        call([*map(address_of, given), address_of(whole)])
        if whole is not out:
            out[...] = whole

    return step


def _summing(b: Binding, c: Correlation) -> Step:
    """The step of a correlation: images and filters may be views that exchange their axes."""
    call, result = native_correlation(c).at_addresses(), b.output()
    table = np.empty(4, np.int64)

    def step(x: Array, filter: Array, out: Array) -> None:
        given = [_with_dense_rows(a) for a in (x, filter)]
        table[:] = [n for a in given for n in a.strides[:2]]
        whole = out if out.flags.c_contiguous else np.empty(result.shape, result.dtype.np)
        call([*map(address_of, given), address_of(table), address_of(whole)])
        if whole is not out:
            out[...] = whole

    return step


def _with_dense_rows(a: Array) -> Array:
    """An array whose elements of one channel follow each other, copied if they do not."""
    dense = [prod(a.shape[k + 1 :]) * a.itemsize for k in range(2, a.ndim)]
    axes = zip(a.shape[2:], a.strides[2:], dense, strict=True)
    follow = all(extent == 1 or stride == step for extent, stride, step in axes)
    return a if follow else np.ascontiguousarray(a)


def _nest(s: Sizes, turned: bool) -> NativeSequence | None:
    """Groups of few channels or filters, for strides of 1."""
    if prod(s.strides) != 1:
        return None
    before = s.before
    if turned:
        before = tuple(
            [d * (k - 1) - p for d, k, p in zip(s.dilations, s.sizes, before, strict=True)]
        )
    if any(p < 0 for p in before):
        return None
    sides = s.lengths, s.sizes, s.positions, s.dilations, before
    return native(convolution(Convolution(s.n, s.groups, s.each, s.depth, *sides, s.dtype, turned)))
