"""Fourier transforms by torch's library, which takes a twelfth to a half of the time of numpy's.

They replace numpy's in a process that imports this package.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.diag.gc_pause import imported
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.native.cores import allowed_threads
from pirkit.runtime.native.thread_pool import thread_count
from pirkit.runtime.registry import KERNELS
from pirkit.torch.libtorch import torch

imported("pirkit.runtime.kernels.numpy.fourier")  # what these replace is registered first

_SCALES: Final = {"backward": (0, 2), "ortho": (1, 1), "forward": (2, 0)}
"""Torch's numbers for a normalization: for the forward transform, and for the inverse."""


def _settings(b: Binding) -> tuple[list[int], int, bool]:
    """Axes, torch's number for the scale, and whether the transform is the forward one."""
    is_forward = bool(b.attrs["forward"])
    # Torch's internal functions do not check their arguments: axes have to be positive.
    axes = [axis % b.output().rank for axis in b.attrs["axes"]]
    return axes, _SCALES[b.attrs["normalization"]][not is_forward], is_forward


def _lent(array: Array) -> Any:
    """A tensor over the memory of an array, which is copied if it is read-only.

    It is copied, too, if a stride is negative, which torch does not have, or zero.
    """
    if not array.flags.writeable or min(array.strides, default=1) <= 0:
        array = np.array(array)
    return torch.from_numpy(array)


def _transform(function: Any, x: Any, *settings: Any, out: Array) -> None:
    """Write a transform into an array, with no more threads than the run may have."""
    if not out.size:  # MKL refuses batches of no rows
        return
    allowed, threads = min(thread_count(), allowed_threads()), torch.get_num_threads()
    if allowed < threads:
        torch.set_num_threads(allowed)
    try:
        function(x, *settings, out=torch.from_numpy(out))
    finally:
        if allowed < threads:
            torch.set_num_threads(threads)


@KERNELS.kernel("fft_c2c", dtypes=dt.COMPLEX, override=True)
def fft_c2c(b: Binding) -> Step:
    """Complex to complex, written into the result."""
    settings = _settings(b)

    def step(x: Array, out: Array) -> None:
        _transform(torch._fft_c2c, _lent(x), *settings, out=out)

    return step


@KERNELS.kernel("fft_r2c", dtypes=(dt.float32, dt.float64), override=True)
def fft_r2c(b: Binding) -> Step:
    """Torch has the forward transform alone; the inverse one is its conjugate."""
    axes, scale, is_forward = _settings(b)
    onesided = bool(b.attrs["onesided"])

    def step(x: Array, out: Array) -> None:
        _transform(torch._fft_r2c, _lent(x), axes, scale, onesided, out=out)
        if not is_forward:
            np.subtract(0, out.imag, out=out.imag)  # the conjugate, in which 0 keeps its sign

    return step


@KERNELS.kernel("fft_c2r", dtypes=dt.COMPLEX, override=True)
def fft_c2r(b: Binding) -> Step | None:
    """Torch has the inverse transform alone, of exactly n // 2 + 1 elements of the spectrum."""
    axes, scale, is_forward = _settings(b)
    last = b.output().shape[axes[-1]]
    if b.input().shape[axes[-1]] != last // 2 + 1:
        return None  # torch would read and write beyond its buffers; the reference cuts and pads

    def step(x: Array, out: Array) -> None:
        given = _lent(x)
        given = given.conj() if is_forward else given
        _transform(torch._fft_c2r, given, axes, scale, last, out=out)

    return step
