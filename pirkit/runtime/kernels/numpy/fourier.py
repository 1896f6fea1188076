"""Fourier transforms, by numpy's, which write into the result and keep single precision.

Two thirds of the time of a transform of some hundred points by `numpy.fft` are its Python code.
Where the compiled functions under it are as expected, transforms along one axis call these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Literal

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.registry import kernel

_Norm = Literal["backward", "ortho", "forward"]
_Kind = Literal["fft", "ifft", "rfft", "irfft"]
_Transform = Callable[[Array, Array], object]

_OPPOSITE: Final[dict[_Norm, _Norm]] = {
    "backward": "forward",
    "ortho": "ortho",
    "forward": "backward",
}
"""The normalization under which the transform in the other direction scales by the same factor."""
_COMPILED: Final[dict[str, tuple[Callable[..., Array], int]]] = {
    "fft": (np.fft.fft, 6), "ifft": (np.fft.ifft, 6), "irfft": (np.fft.irfft, 6),
    "rfft_n_even": (np.fft.rfft, 6), "rfft_n_odd": (np.fft.rfft, 5),
}  # fmt: skip
"""numpy's compiled transforms, each with the function that calls it for so many points."""
_SEVERAL: Final[dict[_Kind, Callable[..., Array]]] = {
    "fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn,
}  # fmt: skip


@cache
def _compiled() -> Mapping[str, Any]:
    """The compiled transforms, of an array, a factor and a result; none where they differ."""
    try:
        found = vars(import_module("numpy.fft._pocketfft_umath"))
        for name, (function, points) in _COMPILED.items():
            x = np.sin(np.arange(points // 2 + 1 if name == "irfft" else points))
            x = x if name.startswith("rfft") else x + 1j * x[::-1]
            wanted = function(x, points, norm="forward" if name[0] == "i" else "backward")
            if not np.allclose(found[name](x, 1.0, np.empty_like(wanted)), wanted):
                return {}
    except (ImportError, LookupError, TypeError, ValueError):
        return {}
    return found


def _transform(kind: _Kind, b: Binding, points: Sequence[int], norm: _Norm) -> _Transform:
    """A function that writes the transform of its first array into its second.

    ``points`` are the sizes of the axes on the side that is not halved.
    """
    axes: Sequence[int] = b.attrs["axes"]
    pairs = list(zip(axes, points, strict=True))
    if not _compiled() or 0 in points or not axes or (kind == "irfft" and len(axes) > 1):
        sizes = {"s": list(points)} if kind == "irfft" else {}
        several = partial(_SEVERAL[kind], axes=axes, norm=norm, **sizes)
        return lambda x, out: several(x, out=out)
    real = np.float32 if b.input().dtype in (dt.float32, dt.complex64) else np.float64
    first = _along(kind, *pairs[-1], norm, real)
    others = [_along("fft" if kind == "rfft" else kind, *p, norm, real) for p in pairs[-2::-1]]

    def step(x: Array, out: Array) -> None:
        first(x, out)
        for transform in others:
            transform(out, out)

    return step if others else first


def _along(kind: _Kind, axis: int, points: int, norm: _Norm, real: type[Any]) -> _Transform:
    """A transform along one axis."""
    name = ("rfft_n_odd" if points % 2 else "rfft_n_even") if kind == "rfft" else kind
    function, places = _compiled()[name], [(axis,), (), (axis,)]
    scaled = norm if kind in ("fft", "rfft") else _OPPOSITE[norm]
    factor = real(points ** {"backward": 0.0, "ortho": -0.5, "forward": -1.0}[scaled])
    return lambda x, out: function(x, factor, out, axes=places)


def _points(b: Binding, meta: TensorMeta) -> list[int]:
    axes: Sequence[int] = b.attrs["axes"]
    return [meta.shape[a] for a in axes]


def _complex(b: Binding) -> _Transform:
    points = _points(b, b.input())
    kind = "fft" if b.attrs["forward"] else "ifft"
    return _transform(kind, b, points, b.attrs["normalization"])


@kernel("fft_c2c", dtypes=dt.COMPLEX)
def fft_c2c(b: Binding) -> Step:
    return _complex(b)


@kernel("fft_r2c", dtypes=(dt.float32, dt.float64))
def fft_r2c(b: Binding) -> Step:
    """Half of the terms are the conjugates of the others, and are not computed."""
    norm: _Norm = b.attrs["normalization"]
    if not b.attrs["onesided"]:
        whole = _complex(b)

        def entire(x: Array, out: Array) -> None:
            out[...] = x
            whole(out, out)

        return entire
    points = _points(b, b.input())
    if b.attrs["forward"]:
        return _transform("rfft", b, points, norm)
    transform = _transform("rfft", b, points, _OPPOSITE[norm])

    def inverse(x: Array, out: Array) -> None:
        transform(x, out)
        np.subtract(0, out.imag, out=out.imag)  # the conjugate, in which 0 keeps its sign

    return inverse


@kernel("fft_c2r", dtypes=dt.COMPLEX)
def fft_c2r(b: Binding) -> Step:
    norm: _Norm = b.attrs["normalization"]
    points = _points(b, b.output())
    if not b.attrs["forward"]:
        return _transform("irfft", b, points, norm)
    transform = _transform("irfft", b, points, _OPPOSITE[norm])
    room = b.workspace(b.input().shape)

    def forward(x: Array, out: Array) -> None:
        np.conjugate(x, room)
        transform(room, out)

    return forward
