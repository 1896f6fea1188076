"""Geometry of sliding windows, shared by convolution and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from pirkit.dialect.opdef import require
from pirkit.dialect.shapes import show
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN

ALGORITHMS: Final = ("EXPLICIT", "SAME", "VALID")
"""The padding algorithms: by the ``paddings`` attribute, by the sizes, or no padding."""

CHANNELS_FIRST: Final = ("NCHW", "NCDHW", "NCL", "NCW", "NC")
CHANNELS_LAST: Final = ("NHWC", "NDHWC", "NLC", "NWC")


def is_channels_last(data_format: str, constraint: str) -> bool:
    """True for ``NHWC`` and its relatives; raises ConstraintError for an unknown layout."""
    known = (*CHANNELS_FIRST, *CHANNELS_LAST)
    require(data_format in known, constraint, f"data_format {data_format!r} is not in {known}")
    return data_format in CHANNELS_LAST


def channels_first(x: Array, channels_last: bool) -> Array:
    """A view of ``x`` with the channels in dimension 1."""
    return np.moveaxis(x, -1, 1) if channels_last else x


def channels_back(x: Array, channels_last: bool) -> Array:
    """The inverse of :func:`channels_first`."""
    return np.moveaxis(x, 1, -1) if channels_last else x


class Slide(Struct, frozen=True):
    """How a window moves along one dimension. ``size`` may be UNKNOWN."""

    size: int
    stride: int
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> int:
        """Elements from the first to the last that one window covers."""
        return UNKNOWN if self.size == UNKNOWN else self.dilation * (self.size - 1) + 1

    def positions(self, length: int, ceil: bool = False) -> int:
        """Number of windows along ``length`` elements.

        Division truncates towards zero, as in Paddle: a window slightly larger than the padded
        input counts once.
        """
        if UNKNOWN in (length, self.size):
            return UNKNOWN
        room = length + self.before + self.after - self.extent + (self.stride - 1) * ceil
        return max(int(room / self.stride) + 1, 0)

    def length(self, positions: int) -> int:
        """The inverse of :meth:`positions`: elements that so many windows cover."""
        if UNKNOWN in (positions, self.size):
            return UNKNOWN
        return (positions - 1) * self.stride - self.before - self.after + self.extent


def slides(
    lengths: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    algorithm: str,
    dilations: Sequence[int] | None,
    constraint: str,
) -> tuple[Slide, ...]:
    """One Slide per spatial dimension; raises ConstraintError for attributes that do not fit.

    ``paddings`` has one number per dimension or a pair (before, after) for each. ``SAME`` pads so
    that there are ``ceil(length / stride)`` windows, and ignores dilations as Paddle does.
    """
    n = len(lengths)
    dilations = (1,) * n if dilations is None else dilations
    for what, values, least in (("strides", strides, 1), ("dilations", dilations, 1)):
        fits = len(values) == n and min(values) >= least
        require(fits, constraint, f"{what} {list(values)} are not {n} positive numbers")
    require(
        algorithm in ALGORITHMS, constraint, f"padding_algorithm {algorithm!r} not in {ALGORITHMS}"
    )
    if algorithm == "SAME":
        return tuple(map(_same, lengths, sizes, strides))
    pairs = [(0, 0)] * n if algorithm == "VALID" else padding_pairs(paddings, n, constraint)
    return tuple(
        Slide(size, stride, dilation, *pair)
        for size, stride, dilation, pair in zip(sizes, strides, dilations, pairs, strict=True)
    )


def padding_pairs(paddings: Sequence[int], n: int, constraint: str) -> list[tuple[int, int]]:
    """(before, after) for each of ``n`` dimensions."""
    require(
        len(paddings) in (n, 2 * n),
        constraint,
        f"paddings {list(paddings)} are neither {n} nor {2 * n} numbers",
    )
    if len(paddings) == n:
        return [(p, p) for p in paddings]
    return list(zip(paddings[::2], paddings[1::2], strict=True))


def _same(length: int, size: int, stride: int) -> Slide:
    if size == UNKNOWN or (length == UNKNOWN and stride != 1):
        return Slide(size, stride)
    total = size - 1  # at stride 1, whatever the length
    if stride != 1:
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
    return Slide(size, stride, 1, total // 2, total - total // 2)


def require_positions(positions: Sequence[int], constraint: str, lengths: Sequence[int]) -> None:
    """Raise ConstraintError unless at least one window fits in every dimension."""
    require(
        all(p == UNKNOWN or p > 0 for p in positions),
        constraint,
        f"the window is larger than the padded input {show(lengths)}",
    )


def patches(x: Array, moves: Sequence[Slide]) -> Array:
    """A view ``[*lead, *positions, *sizes]`` of the windows of ``x [*lead, *lengths]``.

    Elements outside of ``x`` are zero.
    """
    lead = x.ndim - len(moves)
    counts = [m.positions(n) for m, n in zip(moves, x.shape[lead:], strict=True)]
    fitted = fit(
        x, [(m.before, (c - 1) * m.stride + m.extent) for m, c in zip(moves, counts, strict=True)]
    )
    axes = tuple(range(lead, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(
        fitted, tuple(m.extent for m in moves), axis=axes
    )
    steps = (
        *(slice(None, None, m.stride) for m in moves),
        *(slice(None, None, m.dilation) for m in moves),
    )
    return windows[(slice(None),) * lead + steps]


def scatter_patches(windows: Array, moves: Sequence[Slide], lengths: Sequence[int]) -> Array:
    """The transpose of :func:`patches`: accumulate the windows ``[*lead, *sizes, *positions]``.

    The result is ``[*lead, *lengths]``.
    """
    n = len(moves)
    lead, counts = windows.shape[: -2 * n], windows.shape[-n:]
    full = [(c - 1) * m.stride + m.extent for m, c in zip(moves, counts, strict=True)]
    canvas = np.zeros((*lead, *full), windows.dtype)
    every = (slice(None),) * len(lead)
    for offsets in np.ndindex(*(m.size for m in moves)):
        starts = [o * m.dilation for o, m in zip(offsets, moves, strict=True)]
        where = tuple(
            slice(s, s + (c - 1) * m.stride + 1, m.stride)
            for s, c, m in zip(starts, counts, moves, strict=True)
        )
        canvas[every + where] += windows[every + offsets]
    return fit(canvas, [(-m.before, length) for m, length in zip(moves, lengths, strict=True)])


def fit(x: Array, targets: Sequence[tuple[int, int]]) -> Array:
    """The last dimensions of ``x`` moved right by ``shift`` and cut or zero-filled to ``length``.

    ``targets`` is one (shift, length) per dimension; a negative shift drops elements in front.
    """
    lead = x.ndim - len(targets)
    sizes = x.shape[lead:]
    remaining = [
        slice(max(-shift, 0), max(min(size, length - shift), 0))
        for (shift, length), size in zip(targets, sizes, strict=True)
    ]
    cut = x[(slice(None),) * lead + tuple(remaining)]
    if cut.shape[lead:] == tuple(length for _, length in targets):
        return cut
    out = np.zeros((*x.shape[:lead], *(length for _, length in targets)), x.dtype)
    if prod(cut.shape):
        places = [
            slice(max(shift, 0), max(shift, 0) + size)
            for (shift, _), size in zip(targets, cut.shape[lead:], strict=True)
        ]
        out[(slice(None),) * lead + tuple(places)] = cut
    return out
