"""Fourier transforms of traced values, as ``numpy.fft`` defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from numpy.lib.array_utils import normalize_axis_tuple

from pirkit.dialect.build import Builder, Value
from pirkit.frontend.numpy_elements import conj
from pirkit.frontend.numpy_rules import axes_of, function, value_of
from pirkit.frontend.numpy_shapes import concatenate, roll
from pirkit.frontend.numpy_ufuncs import refused, size_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.tensor.methods import Axis

Sizes = Sequence[int] | None
Rule = Callable[..., Value]

_OPPOSITE: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The normalization of the other direction: `hfft` is computed as an inverse transform."""


def _complex(b: Builder, x: Any) -> Value:
    x = value_of(b, x)
    return x if x.dtype.is_complex else b.cast(x, dt.COMPLEX_OF[_real(b, x).dtype])


def _real(b: Builder, x: Any) -> Value:
    x = value_of(b, x)
    if x.dtype.is_complex:
        raise refused(f"a real transform of a {x.meta}", "take `fft`, or the real part")
    return x if x.dtype in dt.COMPLEX_OF else b.cast(x, dt.float64)


def _places(x: Value, sizes: Sizes, axes: Axis) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The transformed axes, and their sizes."""
    if axes is None:
        count = x.rank if sizes is None else len(sizes)
        axes = range(x.rank - count, x.rank)
    found = normalize_axis_tuple(axes, x.rank)  # pyright: ignore[reportArgumentType]
    return found, tuple(size_of(x, a) for a in found) if sizes is None else tuple(sizes)


def _fitted(b: Builder, x: Value, axes: Sequence[int], sizes: Sequence[int]) -> Value:
    """``x`` cut, or filled with zeros, to sizes along axes."""
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise refused(f"a transform of {size} points", "transform at least one")
        held = size_of(x, axis)
        if size < held:
            x = x[(*[slice(None)] * axis, slice(0, size))]
        elif size > held:
            shape = list(x.shape)
            shape[axis] = size - held
            x = concatenate(b, [x, b.const(0, x.dtype, shape)], axis)
    return x


def _c2c(b: Builder, x: Any, sizes: Sizes, axes: Axis, norm: str, *, forward: bool) -> Value:
    x = _complex(b, x)
    places, sizes = _places(x, sizes, axes)
    return b.fft_c2c(_fitted(b, x, places, sizes), axes=places, normalization=norm, forward=forward)


def _r2c(b: Builder, x: Any, sizes: Sizes, axes: Axis, norm: str, *, forward: bool) -> Value:
    x = _real(b, x)
    places, sizes = _places(x, sizes, axes)
    x = _fitted(b, x, places, sizes)
    return b.fft_r2c(x, axes=places, normalization=norm, forward=forward, onesided=True)


def _c2r(b: Builder, x: Any, sizes: Sizes, axes: Axis, norm: str, *, forward: bool) -> Value:
    x = _complex(b, x)
    places, held = _places(x, sizes, axes)
    last = 2 * (held[-1] - 1) if sizes is None else held[-1]
    x = _fitted(b, x, places, (*held[:-1], last // 2 + 1))
    return b.fft_c2r(x, axes=places, normalization=norm, forward=forward, last_dim_size=last)


def _one(rule: Rule, *, forward: bool) -> Rule:
    def transform(
        b: Builder, x: Any, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Value:
        return rule(b, x, None if n is None else (n,), (axis,), norm, forward=forward)

    return transform


def _many(rule: Rule, default: Axis = None, *, forward: bool) -> Rule:
    def transform(
        b: Builder, x: Any, s: Sizes = None, axes: Axis = default, norm: str = "backward"
    ) -> Value:
        return rule(b, x, s, axes, norm, forward=forward)

    return transform


for _name, _rule, _forward in (
    ("fft", _c2c, True), ("ifft", _c2c, False), ("rfft", _r2c, True), ("irfft", _c2r, False),
):  # fmt: skip
    function(f"fft.{_name}")(_one(_rule, forward=_forward))
    function(f"fft.{_name}n")(_many(_rule, forward=_forward))
    function(f"fft.{_name}2")(_many(_rule, (-2, -1), forward=_forward))


@function("fft.hfft")
def _hfft(
    b: Builder, x: Any, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Value:
    sizes = None if n is None else (n,)
    return _c2r(b, conj(b, _complex(b, x)), sizes, (axis,), _OPPOSITE[norm], forward=False)


@function("fft.ihfft")
def _ihfft(
    b: Builder, x: Any, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Value:
    sizes = None if n is None else (n,)
    return conj(b, _r2c(b, x, sizes, (axis,), _OPPOSITE[norm], forward=True))


def _shift(sign: int) -> Rule:
    def rule(b: Builder, x: Any, axes: Axis = None) -> Value:
        x = value_of(b, x)
        places = axes_of(x, axes)
        # Half of an odd size is rounded down in both directions: each shift undoes the other.
        halves = [size_of(x, a) // 2 for a in places]
        steps = [n if sign > 0 else -n for n in halves]
        return roll(b, x, steps, places) if places else x

    return rule


function("fft.fftshift")(_shift(1))
function("fft.ifftshift")(_shift(-1))
