"""Padding around a tensor: pad, pad3d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.kinds import MOVEMENT
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import add_dims
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = MOVEMENT

Sizes = Sequence[int | None] | None


@op
class Pad:
    """`x` with `pad_value` around it: two numbers per dimension, before and after.

    C1: `paddings` has two numbers, not negative, per dimension.
    """

    name = "pd_op.pad"
    library_ns = {"float32": 0.35}
    signature = "x, pad_value: scalar ; paddings: i32[] -> out"
    dtypes = dt.ANY


@infer_meta(Pad)
def _(x: TensorMeta, *, paddings: Sequence[int], **_: object) -> TensorMeta:
    fits = len(paddings) == 2 * x.rank and all(p >= 0 for p in paddings)
    require(fits, "C1", f"paddings {list(paddings)} for a tensor of rank {x.rank}")
    pairs = zip(paddings[::2], paddings[1::2], strict=True)
    return x.with_shape(add_dims(d, a, b) for d, (a, b) in zip(x.shape, pairs, strict=True))


@reference(Pad)
def _(x: Array, *, pad_value: float, paddings: Sequence[int]) -> Array:
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    if not x.ndim:  # of which numpy takes no widths
        return x.copy()
    return np.pad(x, pairs, constant_values=constant(pad_value, dt.of_array(x)))


_PAD_MODES: Final = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}
"""Paddle's mode -> numpy's."""


@op
class Pad3D:
    """`x` padded in its three spatial dimensions, of which `paddings` names the last one first.

    `mode` is constant, reflect, replicate or circular. Negative paddings cut elements off.

    C1: `x` has five dimensions.
    C2: `paddings` holds six numbers.
    C3: `mode` and `data_format` are known.
    C4: no dimension becomes negative.
    C5: a reflection is smaller than its dimension, and no mode but constant repeats an empty one.
    """

    name = "pd_op.pad3d"
    signature = (
        "x, paddings: intarray ; mode: str = constant, pad_value: f64 = 0.0,"
        " data_format: str = NCDHW -> out"
    )
    dtypes = dt.REAL


@infer_meta(Pad3D)
def _(x: TensorMeta, *, paddings: Sizes, mode: str, data_format: str, **_: object) -> TensorMeta:
    require(x.rank == 5, "C1", f"x has rank {x.rank}")
    known = mode in _PAD_MODES and data_format in ("NCDHW", "NDHWC")
    require(known, "C3", f"mode {mode!r} and format {data_format!r}")
    first = 2 if data_format == "NCDHW" else 1
    dims = list(x.shape)
    if paddings is None:
        dims[first : first + 3] = [UNKNOWN] * 3
        return x.with_shape(dims)
    require(len(paddings) == 6, "C2", f"{len(paddings)} paddings")
    for i, (before, after) in enumerate(_spatial(paddings)):
        at = first + i
        size = dims[at]
        if size == UNKNOWN or before is None or after is None:
            dims[at] = UNKNOWN
            continue
        grows = max(before, after, 0)
        needed = {"constant": 0, "reflect": grows + 1}.get(mode, 1)
        require(grows == 0 or needed <= size, "C5", f"{mode} by {before}, {after} of {size}")
        dims[at] = size + before + after
        require(dims[at] >= 0, "C4", f"dimension {at} of {size} is cut by {-before}, {-after}")
    return x.with_shape(dims)


def _spatial(paddings: Sequence[int | None]) -> list[tuple[int | None, int | None]]:
    """Pairs in the order of the dimensions: depth, height, width."""
    return [(paddings[2 * i], paddings[2 * i + 1]) for i in (2, 1, 0)]


@reference(Pad3D)
def _(x: Array, *, paddings: Sequence[int], mode: str, pad_value: float, data_format: str) -> Array:
    pairs = [(a or 0, b or 0) for a, b in _spatial(paddings)]
    around = [(0, 0), (0, 0), *pairs] if data_format == "NCDHW" else [(0, 0), *pairs, (0, 0)]
    grown = [(max(a, 0), max(b, 0)) for a, b in around]
    options: dict[str, Any] = {"mode": _PAD_MODES[mode]}
    if mode == "constant":
        options["constant_values"] = constant(pad_value, dt.of_array(x))
    out = np.pad(x, grown, **options)
    remaining = zip(around, out.shape, strict=True)
    return out[tuple(slice(max(-a, 0), d - max(-b, 0)) for (a, b), d in remaining)]


@samples(Pad)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(1, 2), paddings=(1, 0, 0, 2), pad_value=1.0)
    yield s(s.tensor(3), paddings=(0, 0), pad_value=0.0)
    yield s(s.tensor(0, 2), paddings=(1, 1, 0, 0), pad_value=1.0)


@samples(Pad3D)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(1, 2, 2, 3, 4)
    yield s(x, paddings=(1, 2, 0, 1, 1, 0), pad_value=1.0)
    for mode in ("reflect", "replicate", "circular"):
        yield s(x, paddings=(1, 2, 0, 1, 1, 0), mode=mode)
    yield s(x, paddings=(9, 0, 0, 5, 0, 0), mode="circular")
    yield s(s.tensor(1, 2, 3, 2, 1), paddings=(1, 0, 0, 1, 0, 0), data_format="NDHWC")


@bad_samples(Pad)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), paddings=(1, 0), pad_value=0.0)
    yield "C1", s(s.tensor(2), paddings=(-1, 0), pad_value=0.0)


@bad_samples(Pad3D)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 1, 2, 2, 2)
    yield "C1", s(s.tensor(2, 2), paddings=(1, 1, 0, 0, 0, 0))
    yield "C2", s(x, paddings=(1, 1))
    yield "C3", s(x, paddings=(1, 1, 0, 0, 0, 0), mode="mirror")
    yield "C4", s(x, paddings=(-3, 0, 0, 0, 0, 0))
    yield "C5", s(x, paddings=(2, 0, 0, 0, 0, 0), mode="reflect")
    yield "C5", s(s.tensor(1, 1, 2, 2, 0), paddings=(1, 0, 0, 0, 0, 0), mode="replicate")
