"""Batch normalisation: statistics of each channel over images and pixels."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.kernels.numpy.softmax import blocks
from pirkit.runtime.kernels.numpy.windows import CHANNELS_LAST
from pirkit.runtime.registry import kernel

_MOVING: Final = {"mean_out": "mean", "variance_out": "variance"}


@kernel("batch_norm", "sync_batch_norm_", dtypes=dt.FLOATS, inplace=_MOVING, widen=True)
def batch_norm(b: Binding) -> Step | None:
    """One pass over the input if the statistics are given, else three."""
    lead, channels, *rest = b.input().shape
    last = b.attrs["data_format"] in CHANNELS_LAST
    if last:
        channels = b.input().shape[-1]
    count = prod(b.input().shape) // channels if channels else 0
    if count < 2:
        return None
    shape: tuple[int, ...] = (count, channels)
    row: tuple[int, ...] = (channels,)
    if not last and prod(rest) > 1:
        shape, row = (lead, channels, prod(rest)), (channels, 1)
    frozen = b.attrs["use_global_stats"] or (
        b.attrs["is_test"] and not b.attrs["trainable_statistics"]
    )
    kind = b.dtype.np.type
    epsilon, keep, rest_of = (
        kind(b.attrs["epsilon"]),
        kind(b.attrs["momentum"]),
        kind(1) - kind(b.attrs["momentum"]),
    )
    measure = None if frozen else _statistics(b, shape, row, count)
    parts = list(blocks(shape[0], prod(shape[1:])))
    used, variance_used, factor, term = (b.workspace((channels,)) for _ in range(4))
    middles, factors = used.reshape(row), factor.reshape(row)
    xp = b.xp

    def move(running_out: Array, old: Array, new: Array) -> None:
        """Put a moving statistic into ``running_out``, which may be ``old`` itself."""
        if frozen:
            running_out[...] = old
            return
        xp.multiply(new, rest_of, term)
        xp.multiply(old, keep, running_out)
        xp.add(running_out, term, running_out)

    def step(
        x: Array,
        mean: Array,
        variance: Array,
        scale: Array | None,
        bias: Array | None,
        out: Array,
        mean_out: Array | None,
        variance_out: Array | None,
        saved_mean: Array | None,
        saved_variance: Array | None,
        _reserve: Array | None,
    ) -> None:
        source = x.reshape(shape)
        if measure is None:
            used[...] = mean
            variance_used[...] = variance
        else:
            measure(source, used, variance_used)
        for running_out, old, new in (
            (mean_out, mean, used),
            (variance_out, variance, variance_used),
        ):
            if running_out is not None:
                move(running_out, old, new)
        if saved_mean is not None:
            saved_mean[...] = used
        # scale / sqrt(variance + epsilon) for each channel, so that an element takes one product.
        xp.add(variance_used, epsilon, factor)
        xp.sqrt(factor, factor)
        xp.reciprocal(factor, factor)
        if saved_variance is not None:
            saved_variance[...] = factor
        if scale is not None:
            xp.multiply(factor, scale, factor)
        goal = out.reshape(shape)
        for part in parts:
            block = goal[part]
            xp.subtract(source[part], middles, block)
            xp.multiply(block, factors, block)
            if bias is not None:
                xp.add(block, bias.reshape(row), block)
        if not out.flags.c_contiguous:
            out[...] = goal.reshape(out.shape)

    return step


def _statistics(
    b: Binding, shape: tuple[int, ...], row: tuple[int, ...], count: int
) -> Callable[[Array, Array, Array], None]:
    """Makes ``measure(x, mean, variance)``: the mean first, then the squares around it."""
    axes = "rc" if len(shape) == 2 else "rcp"
    parts = list(blocks(shape[0], prod(shape[1:])))
    room = b.workspace((parts[0].stop, *shape[1:]))
    some = b.workspace((shape[-1 if len(shape) == 2 else 1],))
    xp: Any = b.xp

    def measure(x: Array, mean: Array, variance: Array) -> None:
        mean.fill(0)
        variance.fill(0)
        for part in parts:
            xp.add(mean, xp.einsum(f"{axes}->c", x[part], out=some), mean)
        xp.divide(mean, count, mean)
        middle = mean.reshape(row)
        for part in parts:
            held = room[: part.stop - part.start]
            xp.subtract(x[part], middle, held)
            xp.add(variance, xp.einsum(f"{axes},{axes}->c", held, held, out=some), variance)
        xp.divide(variance, count, variance)

    return measure
