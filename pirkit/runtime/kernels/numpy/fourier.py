"""Fourier transforms, by numpy's, which write into the result and keep single precision."""

from __future__ import annotations

from collections.abc import Sequence
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


@kernel("fft_c2c", dtypes=dt.COMPLEX)
def fft_c2c(b: Binding) -> Step:
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    transform = np.fft.fftn if b.attrs["forward"] else np.fft.ifftn

    def step(x: Array, out: Array) -> None:
        transform(x, axes=axes, norm=norm, out=out)

    return step


@kernel("fft_r2c", dtypes=(dt.float32, dt.float64))
def fft_r2c(b: Binding) -> Step:
    """Half of the terms are the conjugates of the others, and are not computed."""
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    if not b.attrs["onesided"]:
        transform = np.fft.fftn if b.attrs["forward"] else np.fft.ifftn

        def entire(x: Array, out: Array) -> None:
            out[...] = x
            transform(out, axes=axes, norm=norm, out=out)

        return entire

    def forward(x: Array, out: Array) -> None:
        np.fft.rfftn(x, axes=axes, norm=norm, out=out)

    def inverse(x: Array, out: Array) -> None:
        np.fft.rfftn(x, axes=axes, norm=_OPPOSITE[norm], out=out)
        np.conjugate(out, out)

    return forward if b.attrs["forward"] else inverse


@kernel("fft_c2r", dtypes=dt.COMPLEX)
def fft_c2r(b: Binding) -> Step:
    axes: Sequence[int] = b.attrs["axes"]
    norm: _Norm = b.attrs["normalization"]
    sizes = [b.output().shape[a] for a in axes]
    if not b.attrs["forward"]:

        def inverse(x: Array, out: Array) -> None:
            np.fft.irfftn(x, s=sizes, axes=axes, norm=norm, out=out)

        return inverse
    room, opposite = b.workspace(b.input().shape), _OPPOSITE[norm]

    def forward(x: Array, out: Array) -> None:
        np.conjugate(x, room)
        np.fft.irfftn(room, s=sizes, axes=axes, norm=opposite, out=out)

    return forward
