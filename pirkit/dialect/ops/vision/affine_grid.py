"""Sampling grids transformed by an affine map, as `grid_sample` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class AffineGrid:
    """Where the maps `input [N, 2, 3]` (or `[N, 3, 4]`) take each position of an image or volume.

    `output_shape` is the shape of the image, `[N, C, H, W]`. Positions are in (width, height)
    order; -1 and 1 are the outermost elements or, without `align_corners`, their outer edges.

    C1: `input` holds matrices of two rows and three columns, or of three rows and four columns.
    C2: `output_shape` has four numbers for the former and five for the latter, none negative.
    C3: it has as many images as there are matrices.
    """

    name = "pd_op.affine_grid"
    signature = "input, output_shape: intarray = [] ; align_corners: bool = True -> output"
    dtypes = (dt.float32, dt.float64)


@infer_meta(AffineGrid)
def _(input: TensorMeta, *, output_shape: Sequence[int | None] | None, **_: object) -> TensorMeta:
    require(input.rank == 3, "C1", f"{input} holds no matrices")
    n = input.shape[1] if input.shape[1] != UNKNOWN else input.shape[2] - 1
    if output_shape is not None and n not in (2, 3):
        n = len(output_shape) - 2
    n = 3 if n == 3 else 2
    fits = same_dim(input.shape[1], n) and same_dim(input.shape[2], n + 1)
    require(fits, "C1", f"{input} holds no affine maps")
    sizes = [None] * (n + 2) if output_shape is None else list(output_shape)
    is_valid = len(sizes) == n + 2 and all(d is None or d >= 0 for d in sizes)
    require(is_valid, "C2", f"output_shape {sizes} for {input}")
    known = [UNKNOWN if d is None else d for d in sizes]
    require(same_dim(known[0], input.shape[0]), "C3", f"output_shape {sizes} for {input}")
    return input.with_shape((input.shape[0], *known[2:], n))


@reference(AffineGrid)
def _(input: Array, *, output_shape: Sequence[int], align_corners: bool) -> Array:
    lengths = output_shape[2:]
    axes = [_positions(d, align_corners).astype(input.dtype) for d in lengths]
    grids = np.meshgrid(*axes, indexing="ij")
    places = np.stack([*reversed(grids), np.ones(lengths, input.dtype)], axis=-1)
    flat = places.reshape(-1, len(lengths) + 1) @ input.swapaxes(1, 2)
    return flat.reshape(len(input), *lengths, len(lengths))


def _positions(length: int, align_corners: bool) -> Array:
    """The elements of one dimension between -1 and 1; a single one is in the middle."""
    steps = np.arange(length) - (length - 1) / 2
    return steps * 2 / max(length - 1 if align_corners else length, 1)


@samples(AffineGrid)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 2, 3), output_shape=(2, 3, 4, 5))
    yield s(s.tensor(2, 2, 3), output_shape=(2, 1, 3, 2), align_corners=False)
    yield s(s.tensor(1, 2, 3), output_shape=(1, 1, 1, 2))
    yield s(s.tensor(1, 3, 4), output_shape=(1, 2, 2, 3, 2))


@bad_samples(AffineGrid)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(2, 2, 3)
    yield "C1", s(s.tensor(2, 3), output_shape=(2, 3, 4, 5))
    yield "C1", s(s.tensor(2, 2, 2), output_shape=(2, 3, 4, 5))
    yield "C2", s(x, output_shape=(2, 3, 4))
    yield "C3", s(x, output_shape=(3, 3, 4, 5))
