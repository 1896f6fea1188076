"""Fourier transforms, by numpy's, which write into the result and keep single precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

_Norm = Literal["backward", "ortho", "forward"]

_OPPOSITE: Final[dict[_Norm, _Norm]] = {
    "backward": "forward",
    "ortho": "ortho",
    "forward": "backward",
}
"""The normalization under which the opposite direction scales alike."""


_Transform = Callable[..., Array]


def _along(axes: Sequence[int], several: _Transform, one: _Transform) -> _Transform:
    """A transform along axes: numpy takes half the time for a single one if it is told so."""
    if len(axes) != 1:
        return partial(several, axes=axes)
    return partial(one, axis=axes[0])


def _complex(axes: Sequence[int], *, forward: bool) -> _Transform:
    if forward:
        return _along(axes, np.fft.fftn, np.fft.fft)
    return _along(axes, np.fft.ifftn, np.fft.ifft)


@kernel("fft_c2c", dtypes=dt.COMPLEX)
def fft_c2c(b: Binding) -> Step:
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    transform = _complex(axes, forward=b.attrs["forward"])

    def step(x: Array, out: Array) -> None:
        transform(x, norm=norm, out=out)

    return step


@kernel("fft_r2c", dtypes=(dt.float32, dt.float64))
def fft_r2c(b: Binding) -> Step:
    """Half of the terms are the conjugates of the others, and are not computed."""
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    if not b.attrs["onesided"]:
        transform = _complex(axes, forward=b.attrs["forward"])

        def entire(x: Array, out: Array) -> None:
            out[...] = x
            transform(out, norm=norm, out=out)

        return entire

    transform = _along(axes, np.fft.rfftn, np.fft.rfft)

    def forward(x: Array, out: Array) -> None:
        transform(x, norm=norm, out=out)

    def inverse(x: Array, out: Array) -> None:
        transform(x, norm=_OPPOSITE[norm], out=out)
        np.conjugate(out, out)

    return forward if b.attrs["forward"] else inverse


@kernel("fft_c2r", dtypes=dt.COMPLEX)
def fft_c2r(b: Binding) -> Step:
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    sizes = [b.output().shape[a] for a in axes]
    several, one = partial(np.fft.irfftn, s=sizes), partial(np.fft.irfft, n=sizes[-1])
    transform = _along(axes, several, one)
    if not b.attrs["forward"]:

        def inverse(x: Array, out: Array) -> None:
            transform(x, norm=norm, out=out)

        return inverse
    room, opposite = b.workspace(b.input().shape), _OPPOSITE[norm]

    def forward(x: Array, out: Array) -> None:
        np.conjugate(x, room)
        transform(room, norm=opposite, out=out)

    return forward
