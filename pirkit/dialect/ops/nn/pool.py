"""Pooling: the largest element or the average of sliding windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.kinds import KEEPS_SIGN
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.windows import Slide, is_channels_last, require_positions, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "window"

Windows = tuple[Array, Array]
"""Along one dimension: where each window starts (may be negative) and ends (may be too far)."""

LOWEST: Final = -(2.0 - 2.0**-23) * 2.0**127
"""The least float32; the maximum of a window without elements, in every precision that has it."""
POOLINGS: Final = ("max", "avg")

_ATTRIBUTES: Final = (
    "strides: i64[], paddings: i64[], ceil_mode: bool, exclusive: bool, data_format: str, "
    "pooling_type: str, global_pooling: bool, adaptive: bool, padding_algorithm: str"
)


@op
class Pool2d:
    """Maximum or average of each window of images `[N, C, H, W]` (or NHWC).

    `global_pooling` makes one window of the whole image. `adaptive` reads `kernel_size` as the
    size of the result and spreads that many windows evenly. `exclusive` averages over the elements
    inside of the image, otherwise the padding counts as zeros. The maximum of a window
    with a NaN is NaN; that of a window outside of the image is the lowest number of float32, as in
    Paddle. (Paddle mixes up the windows of an adaptive maximum on the CPU; its Python interface
    never asks for one.)

    C1: `x` has four dimensions.
    C2: `kernel_size` has two positive numbers.
    C3: `pooling_type` is `max` or `avg`, and `data_format` is a known layout.
    C4: strides, paddings and `padding_algorithm` fit two spatial dimensions.
    C5: the window fits into the padded input.
    """

    name = "pd_op.pool2d"
    traits = (KEEPS_SIGN,)
    signature = f"x, kernel_size: intarray ; {_ATTRIBUTES} -> out"
    dtypes = dt.FLOATS


@op
class Pool3d:
    """`pool2d` for volumes `[N, C, D, H, W]` (or NDHWC).

    C1: `x` has five dimensions.
    C2: `kernel_size` has three positive numbers.
    C3: `pooling_type` is `max` or `avg`, and `data_format` is a known layout.
    C4: strides, paddings and `padding_algorithm` fit three spatial dimensions.
    C5: the window fits into the padded input.
    """

    name = "pd_op.pool3d"
    signature = f"x ; kernel_size: i64[], {_ATTRIBUTES} -> out"
    dtypes = dt.FLOATS


def pool_slides(
    lengths: Sequence[int],
    kernel_size: Sequence[int | None],
    strides: Sequence[int],
    paddings: Sequence[int],
    algorithm: str,
    global_pooling: bool,
    constraint: str,
) -> tuple[Slide, ...]:
    """How the windows move; one window of everything with ``global_pooling``."""
    if global_pooling:
        return tuple(Slide(n, 1) for n in lengths)
    sizes = [UNKNOWN if k is None else k for k in kernel_size]
    return slides(lengths, sizes, strides, paddings, algorithm, None, constraint)


def out_sizes(
    moves: Sequence[Slide], lengths: Sequence[int], adaptive: bool, ceil: bool, constraint: str
) -> tuple[int, ...]:
    """Number of windows per dimension; raises ConstraintError if one is zero."""
    if adaptive:
        return tuple(m.size for m in moves)
    out = tuple(m.positions(n, ceil) for m, n in zip(moves, lengths, strict=True))
    require_positions(out, constraint, lengths)
    return out


def check_kernel(kernel_size: Sequence[int | None], n: int) -> None:
    """Raise ConstraintError C2 unless there are ``n`` positive sizes."""
    fits = len(kernel_size) == n and all(k is None or k > 0 for k in kernel_size)
    require(fits, "C2", f"kernel_size {list(kernel_size)} is not {n} positive numbers")


@infer_meta(Pool2d)
def _(x: TensorMeta, **attributes: Any) -> TensorMeta:
    return _pooled(x, 2, **attributes)


@infer_meta(Pool3d)
def _(x: TensorMeta, **attributes: Any) -> TensorMeta:
    return _pooled(x, 3, **attributes)


def _pooled(
    x: TensorMeta,
    n: int,
    *,
    kernel_size: Sequence[int | None] | None,
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
) -> TensorMeta:
    require(x.rank == n + 2, "C1", f"{x} has not {n + 2} dimensions")
    kernel_size = (None,) * n if kernel_size is None else kernel_size
    check_kernel(kernel_size, n)
    require(pooling_type in POOLINGS, "C3", f"pooling_type {pooling_type!r} not in {POOLINGS}")
    first = 1 if is_channels_last(data_format, "C3") else 2
    lengths = x.shape[first : first + n]
    moves = pool_slides(
        lengths, kernel_size, strides, paddings, padding_algorithm, global_pooling, "C4"
    )
    if global_pooling:
        out: tuple[int, ...] = (1,) * n
    else:
        out = out_sizes(moves, lengths, adaptive, ceil_mode, "C5")
    return TensorMeta((*x.shape[:first], *out, *x.shape[first + n :]), x.dtype)


def spans(move: Slide, length: int, positions: int, adaptive: bool) -> Windows:
    """The windows of one dimension; adaptive ones divide it evenly."""
    i = np.arange(positions)
    if adaptive:
        return i * length // positions, -(-(i + 1) * length // positions)
    starts = i * move.stride - move.before
    return starts, np.minimum(starts + move.size, length + move.before)


def are_empty(every: Sequence[Windows], lengths: Sequence[int]) -> Array:
    """Which windows have no element inside of the image: ``ceil_mode`` makes such."""
    found = np.zeros((), np.bool_)
    for (starts, ends), length in zip(every, lengths, strict=True):
        outside = np.maximum(starts, 0) >= np.minimum(ends, length)
        found = np.logical_or.outer(found, outside)
    return found


def gather(x: Array, axis: int, windows: Windows, fill: Any) -> Iterator[Array]:
    """The first element of every window, then the second...; ``fill`` outside of ``x``."""
    starts, ends = windows
    length = x.shape[axis]
    for offset in range(int(np.max(ends - starts, initial=0))):
        at = starts + offset
        inside = (at >= 0) & (at < np.minimum(ends, length))
        taken = np.take(x, np.clip(at, 0, length - 1), axis=axis) if length else None
        if taken is None:
            return
        if not inside.all():
            shape = [1] * x.ndim
            shape[axis] = -1
            taken = np.where(inside.reshape(shape), taken, x.dtype.type(fill))
        yield taken


def _reduce(x: Array, axis: int, windows: Windows, combine: np.ufunc, start: Any) -> Array:
    """``combine`` the elements of each window along one dimension."""
    positions = len(windows[0])
    out = np.full((*x.shape[:axis], positions, *x.shape[axis + 1 :]), start, x.dtype)
    if positions == 1:
        first, last = (max(int(edge[0]), 0) for edge in windows)
        part = x[(slice(None),) * axis + (slice(first, last),)]
        return combine(out, combine.reduce(part, axis=axis, keepdims=True, initial=start))
    for part in gather(x, axis, windows, start):
        combine(out, part, out=out)
    return out


@reference(Pool2d, Pool3d)
@in_f32
def _(
    x: Array,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
) -> Array:
    n = x.ndim - 2
    first = 1 if is_channels_last(data_format, "C3") else 2
    lengths = x.shape[first : first + n]
    moves = pool_slides(
        lengths, kernel_size, strides, paddings, padding_algorithm, global_pooling, "C4"
    )
    adaptive = adaptive and not global_pooling
    positions = out_sizes(moves, lengths, adaptive, ceil_mode, "C5")
    every = [spans(*each, adaptive) for each in zip(moves, lengths, positions, strict=True)]
    combine, start = (np.maximum, -np.inf) if pooling_type == "max" else (np.add, 0)
    out = x
    for axis, windows in enumerate(every, first):
        out = _reduce(out, axis, windows, combine, start)
    channels = (1,) * (x.ndim - first - n)
    if pooling_type == "max":
        return np.where(are_empty(every, lengths).reshape(*positions, *channels), LOWEST, out)
    count = np.ones((), x.dtype)
    for (starts, ends), length in zip(every, lengths, strict=True):
        if exclusive or adaptive:
            starts, ends = np.maximum(starts, 0), np.minimum(ends, length)
        count = np.multiply.outer(count, (ends - starts).astype(x.dtype))
    return out / count.reshape(*count.shape, *channels)


_MAX: Final = {
    "strides": (2, 2),
    "paddings": (0, 0),
    "ceil_mode": False,
    "exclusive": True,
    "data_format": "NCHW",
    "pooling_type": "max",
    "global_pooling": False,
    "adaptive": False,
    "padding_algorithm": "EXPLICIT",
}
_AVG: Final = {**_MAX, "pooling_type": "avg"}


@samples(Pool2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 7, 8)
    yield s(x, kernel_size=(3, 2), **{**_MAX, "paddings": (1, 0)})
    yield s(x, kernel_size=(3, 3), **{**_AVG, "paddings": (1, 1), "ceil_mode": True})
    yield s(x, kernel_size=(3, 3), **{**_AVG, "paddings": (0, 1, 1, 0), "exclusive": False})
    yield s(x, kernel_size=(3, 5), **{**_AVG, "adaptive": True})
    yield s(x, kernel_size=(1, 1), **{**_AVG, "global_pooling": True, "data_format": "NHWC"})
    yield s(x, kernel_size=(3, 2), **{**_MAX, "padding_algorithm": "SAME", "data_format": "NHWC"})


@samples(Pool3d)
def _(s: SampleMaker) -> Iterator[Sample]:
    three = {"strides": (2, 1, 2), "paddings": (0, 1, 0), "data_format": "NCDHW"}
    x = s.tensor(1, 2, 4, 5, 6)
    yield s(x, kernel_size=(2, 3, 2), **{**_MAX, **three})
    yield s(x, kernel_size=(2, 3, 3), **{**_AVG, **three, "exclusive": False})
    yield s(x, kernel_size=(1, 2, 4), **{**_AVG, **three, "adaptive": True})


@bad_samples(Pool2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 4, 4)
    yield "C1", s(s.tensor(2, 4, 4), kernel_size=(2, 2), **_MAX)
    yield "C2", s(x, kernel_size=(2,), **_MAX)
    yield "C3", s(x, kernel_size=(2, 2), **{**_MAX, "pooling_type": "min"})
    yield "C3", s(x, kernel_size=(2, 2), **{**_MAX, "data_format": "HWCN"})
    yield "C4", s(x, kernel_size=(2, 2), **{**_MAX, "paddings": (1, 1, 1)})
    yield "C5", s(x, kernel_size=(7, 2), **_MAX)


@bad_samples(Pool3d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    good = {**_MAX, "strides": (1, 1, 1), "paddings": (0, 0, 0), "data_format": "NCDHW"}
    x = s.tensor(1, 2, 4, 4, 4)
    yield "C1", s(s.tensor(2, 4, 4, 4), kernel_size=(2, 2, 2), **good)
    yield "C2", s(x, kernel_size=(2, 0, 2), **good)
    yield "C3", s(x, kernel_size=(2, 2, 2), **{**good, "pooling_type": "sum"})
    yield "C4", s(x, kernel_size=(2, 2, 2), **{**good, "strides": (1, 1)})
    yield "C5", s(x, kernel_size=(2, 5, 2), **good)
