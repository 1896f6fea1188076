"""Discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, cast

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axes
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "transform"

_Norm = Literal["backward", "ortho", "forward"]

_NORMS: Final = ("backward", "ortho", "forward")
OPPOSITE: Final[dict[str, str]] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
"""The normalization under which the opposite direction scales alike."""


@op
class FftR2c:
    """Transform of a real tensor over `axes`; `onesided` keeps the first n // 2 + 1 terms.

    `forward` is the sign of the exponent (minus if true). `normalization` names the direction that
    is scaled by 1/n: `backward`, `forward`, or both by its root (`ortho`). `onesided` cuts the last
    of `axes`.

    C1: `x` is float32 or float64.
    C2: `axes` are distinct, at least one, and lie within the rank.
    C3: `normalization` is `backward`, `ortho` or `forward`.
    C4: the transformed dimensions are not empty.
    """

    name = "pd_op.fft_r2c"
    signature = "x ; axes: i64[], normalization: str, forward: bool, onesided: bool -> out"
    dtypes = (dt.float32, dt.float64)


@op
class FftC2r:
    """Transform over `axes` of a tensor that has the symmetry of a real signal.

    The last of `axes` holds the first half of the terms; the result has `last_dim_size` elements
    there, or 2 * (n - 1) if that is not positive.

    C1: `x` is complex.
    C2: `axes` are distinct, at least one, and lie within the rank.
    C3: `normalization` is `backward`, `ortho` or `forward`.
    C4: the transformed dimensions are not empty, in `x` and in the result.
    """

    name = "pd_op.fft_c2r"
    signature = "x ; axes: i64[], normalization: str, forward: bool, last_dim_size: i64 = 0 -> out"
    dtypes = dt.COMPLEX


@op
class FftC2c:
    """Transform of a complex tensor over `axes`.

    C1: `x` is complex.
    C2: `axes` are distinct, at least one, and lie within the rank.
    C3: `normalization` is `backward`, `ortho` or `forward`.
    C4: the transformed dimensions are not empty.
    """

    name = "pd_op.fft_c2c"
    signature = "x ; axes: i64[], normalization: str, forward: bool -> out"
    dtypes = dt.COMPLEX


def _checked_axes(x: TensorMeta, axes: Sequence[int], normalization: str) -> tuple[int, ...]:
    require(len(axes) > 0 and x.rank > 0, "C2", f"axes {list(axes)} of {x}")
    require(normalization in _NORMS, "C3", f"normalization `{normalization}` is not in {_NORMS}")
    known = normalize_axes(axes, x.rank, "C2", "axes")
    require(all(x.shape[a] != 0 for a in known), "C4", "a transformed dimension is empty")
    return known


@infer_meta(FftR2c)
def _(
    x: TensorMeta, *, axes: tuple[int, ...], normalization: str, onesided: bool, **_: object
) -> TensorMeta:
    require(x.dtype in dt.COMPLEX_OF, "C1", f"`x` has dtype {x.dtype}")
    last = _checked_axes(x, axes, normalization)[-1]
    shape = list(x.shape)
    if onesided and shape[last] != UNKNOWN:
        shape[last] = shape[last] // 2 + 1
    return TensorMeta(tuple(shape), dt.COMPLEX_OF[x.dtype])


@infer_meta(FftC2r)
def _(
    x: TensorMeta, *, axes: tuple[int, ...], normalization: str, last_dim_size: int, **_: object
) -> TensorMeta:
    require(x.dtype in dt.REAL_OF, "C1", f"`x` has dtype {x.dtype}")
    last = _checked_axes(x, axes, normalization)[-1]
    shape = list(x.shape)
    if last_dim_size > 0:
        shape[last] = last_dim_size
    elif shape[last] != UNKNOWN:
        shape[last] = 2 * (shape[last] - 1)
    require(shape[last] != 0, "C4", "the result is empty", help="give `last_dim_size`")
    return TensorMeta(tuple(shape), dt.REAL_OF[x.dtype])


@infer_meta(FftC2c)
def _(x: TensorMeta, *, axes: tuple[int, ...], normalization: str, **_: object) -> TensorMeta:
    require(x.dtype in dt.REAL_OF, "C1", f"`x` has dtype {x.dtype}")
    _checked_axes(x, axes, normalization)
    return x


def _transform(x: Array, axes: Sequence[int], normalization: str, *, forward: bool) -> Array:
    """Complex transform in either direction."""
    function = np.fft.fftn if forward else np.fft.ifftn
    return function(x, axes=axes, norm=cast(_Norm, normalization))


@reference(FftC2c)
def _(x: Array, *, axes: tuple[int, ...], normalization: str, forward: bool) -> Array:
    return _transform(x, axes, normalization, forward=forward)


@reference(FftR2c)
def _(
    x: Array, *, axes: tuple[int, ...], normalization: str, forward: bool, onesided: bool
) -> Array:
    out = _transform(x, axes, normalization, forward=forward)
    out = out.astype(dt.COMPLEX_OF[dt.of_array(x)].np, copy=False)
    if not onesided:
        return out
    remaining = [slice(None)] * x.ndim
    remaining[axes[-1]] = slice(x.shape[axes[-1]] // 2 + 1)
    return out[tuple(remaining)]


@reference(FftC2r)
def _(
    x: Array, *, axes: tuple[int, ...], normalization: str, forward: bool, last_dim_size: int
) -> Array:
    size = last_dim_size if last_dim_size > 0 else 2 * (x.shape[axes[-1]] - 1)
    sizes = [*(x.shape[a] for a in axes[:-1]), size]
    if forward:  # the conjugate turns numpy's inverse transform into a forward one
        norm = cast(_Norm, OPPOSITE[normalization])
        return np.fft.irfftn(x.conj(), s=sizes, axes=axes, norm=norm)
    return np.fft.irfftn(x, s=sizes, axes=axes, norm=cast(_Norm, normalization))


@samples(FftR2c)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 8), axes=(1,), normalization="backward", forward=True, onesided=True)
    yield s(s.tensor(3, 7, 2), axes=(0, 1), normalization="ortho", forward=True, onesided=True)
    yield s(s.tensor(3, 4), axes=(1,), normalization="forward", forward=False, onesided=True)
    yield s(s.tensor(3, 4), axes=(0, 1), normalization="forward", forward=True, onesided=False)
    yield s(s.tensor(0, 4), axes=(1,), normalization="backward", forward=True, onesided=True)


@samples(FftC2r)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 5), axes=(1,), normalization="backward", forward=False)
    yield s(s.tensor(2, 5), axes=(1,), normalization="ortho", forward=False, last_dim_size=9)
    yield s(s.tensor(3, 5, 2), axes=(0, 1), normalization="forward", forward=False)
    yield s(s.tensor(2, 5), axes=(1,), normalization="backward", forward=True)


@samples(FftC2c)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 5), axes=(1,), normalization="backward", forward=True)
    yield s(s.tensor(2, 5), axes=(0, 1), normalization="ortho", forward=False)
    yield s(s.tensor(2, 5), axes=(0,), normalization="backward", forward=False)
    yield s(s.tensor(2, 5), axes=(0, 1), normalization="forward", forward=True)


@bad_samples(FftR2c)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 4)
    good: dict[str, Any] = {"normalization": "backward", "forward": True, "onesided": True}
    yield "C1", s(s.ints((2, 4), 0, 9), axes=(1,), **good)
    yield "C2", s(x, axes=(2,), **good)
    yield "C2", s(x, axes=(), **good)
    yield "C2", s(x, axes=(1, -1), **good)
    yield "C3", s(x, axes=(1,), **{**good, "normalization": "both"})
    yield "C4", s(s.tensor(2, 0), axes=(1,), **good)


@bad_samples(FftC2r)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 4, dtype=dt.complex64)
    good: dict[str, Any] = {"normalization": "backward", "forward": False}
    yield "C1", s(s.tensor(2, 4, dtype=dt.float32), axes=(1,), **good)
    yield "C2", s(x, axes=(2,), **good)
    yield "C3", s(x, axes=(1,), normalization="both", forward=False)
    yield "C4", s(s.tensor(2, 1, dtype=dt.complex64), axes=(1,), **good)


@bad_samples(FftC2c)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 4, dtype=dt.complex64)
    good: dict[str, Any] = {"normalization": "backward", "forward": True}
    yield "C1", s(s.tensor(2, 4, dtype=dt.float32), axes=(1,), **good)
    yield "C2", s(x, axes=(-3,), **good)
    yield "C3", s(x, axes=(1,), normalization="both", forward=True)
    yield "C4", s(s.tensor(0, 4, dtype=dt.complex64), axes=(0,), **good)
