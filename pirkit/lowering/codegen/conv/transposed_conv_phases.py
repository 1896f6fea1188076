"""Convolutions as problems of the blocked kernel; a strided transposed one is split into phases.

All output positions of a transposed convolution with the same remainder by the strides (a phase)
read the same taps: each phase is an ordinary convolution with stride 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd

from msgspec import Struct

from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem, Taps
from pirkit.runtime.dtype import DType


class ConvSizes(Struct, frozen=True):
    """Sizes of a convolution of ``n`` images with ``group_filters`` filters in each of ``groups``.

    Each filter has ``depth`` channels. Tuples are by spatial axis; ``before`` is the padding in
    front.
    """

    n: int
    groups: int
    group_filters: int
    depth: int
    dtype: DType
    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    positions: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]


def conv_phases(s: ConvSizes) -> tuple[ConvProblem, ...]:
    """A convolution, which has one phase."""
    rank = len(s.sizes)
    taps = tuple(
        [Taps(k, 0, 1, -p, d) for k, p, d in zip(s.sizes, s.before, s.dilations, strict=True)]
    )
    zeros, ones = (0,) * rank, (1,) * rank
    # A single position has no stride; a panel would have room for a large one.
    strides = tuple([1 if n == 1 else m for n, m in zip(s.positions, s.strides, strict=True)])
    return (_problem(s, s.positions, taps, strides, zeros, ones),)


def _problem(
    s: ConvSizes, positions: tuple[int, ...], taps: tuple[Taps, ...],
    image_stride: tuple[int, ...], start: tuple[int, ...], stride: tuple[int, ...],
    is_transposed: bool = False,
) -> ConvProblem:  # fmt: skip
    """The problem that computes every ``stride``-th position of the result from ``start`` on."""
    room = s.positions
    return ConvProblem(s.n, s.groups, s.group_filters, s.depth, s.lengths, s.sizes, room, positions,
                       taps, image_stride, start, stride, s.dtype, is_transposed)  # fmt: skip


def transposed_conv_phases(s: ConvSizes) -> tuple[ConvProblem, ...]:
    """The phases of a transposed convolution whose result has the extents ``positions``."""
    return tuple(_phases(s))


def _phases(s: ConvSizes) -> Iterator[ConvProblem]:
    """One problem per residue of the output position by the strides, where there are positions."""
    ones = (1,) * len(s.sizes)
    # No result begins beyond the last position, however large a stride is.
    for begin in product(*map(range, map(min, s.strides, s.positions))):
        positions = tuple(
            [-(-(p - r) // m) for p, r, m in zip(s.positions, begin, s.strides, strict=True)]
        )
        axes = zip(s.sizes, s.strides, s.dilations, s.before, begin, strict=True)
        taps = tuple([_phase_taps(*axis) for axis in axes])
        yield _problem(s, positions, taps, ones, begin, s.strides, is_transposed=True)


def _phase_taps(size: int, stride: int, dilation: int, before: int, begin: int) -> Taps:
    """The taps that the output positions ``begin + stride * q`` read."""
    # Tap k adds to output p if `p + before - k * dilation` is divisible by the stride; such k are
    # `step` apart.
    step = stride // gcd(stride, dilation)
    for first in range(min(step, size)):
        offset, rest = divmod(begin + before - first * dilation, stride)
        if rest == 0:
            return Taps(
                -(-(size - first) // step), first, step, offset, -(step * dilation) // stride
            )
    return Taps(0, 0, 1, 0, 0)
