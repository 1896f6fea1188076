"""Convolution over blocked channels in Winograd's domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.nchwc_conv import ACTIVATIONS
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import mul_dims, same_dim, show
from pirkit.dialect.windows import require_positions, slides
from pirkit.dialect.winograd import points_of, tiles_of, transforms_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "contraction"


@op
class NchwcWinogradConv2d:
    """`nchwc_conv2d` without strides, by Winograd's minimal filtering.

    An image is `[N, C/b, H, W, b]` and the result `[N, K/b, OH, OW, b]`, in tiles of `tile` rows
    and columns. A filter of `kernel_size` is transformed, `[P, K/b, C/b, b, b]` with blocks of
    filters last: `G g Gᵀ`, at the P points of a tile (`pirkit.dialect.winograd`). Bias, summand and
    activation are those of `nchwc_conv2d`, and so is `channels`. Sums of finite elements have the
    errors of a direct summation, or twice these; an infinity or NaN reaches all results of a tile
    that reads it. Programs of inference get this op from the pass `block-channels` (Lavin and Gray,
    CVPR 2016).

    C1: `input` and `filter` have five dimensions and the same dtype.
    C2: the blocks of `input` are those of `filter`, which has the points of `tile`.
    C3: paddings fit two spatial dimensions, and the filter the image.
    C4: `bias` is a vector with one element per filter, `residual` has the type of the result.
    C5: `activation` is `identity`, `relu`, `relu6` or `hardswish`.
    C6: `channels` is 0, or ends in the last block of the image.
    C7: `tile` has a size for `kernel_size`: 2 or 4 results for 3 or 5 taps, 2 for 7, 1 for 1 along
    each axis, and at most 36 points.
    """

    name = "pir.nchwc_winograd_conv2d"
    dtypes = (dt.float32, dt.float64)
    signature = (
        "input, filter, bias?, residual? ; kernel_size: i32[] = [3, 3], tile: i32[] = [4, 4], "
        "paddings: i32[] = [0, 0], "
        'activation: str = "identity", channels: i64 = 0 -> out'
    )


@infer_meta(NchwcWinogradConv2d)
def _(
    x: TensorMeta,
    filter: TensorMeta,
    bias: TensorMeta | None,
    residual: TensorMeta | None,
    *,
    kernel_size: Sequence[int],
    tile: Sequence[int],
    paddings: Sequence[int],
    activation: str,
    channels: int,
) -> TensorMeta:
    require(x.rank == filter.rank == 5, "C1", f"{x} and {filter} have other dimensions")
    require(x.dtype is filter.dtype, "C1", f"dtypes {x.dtype} and {filter.dtype} differ")
    points, filters, *takes, block = filter.shape
    agree = all(map(same_dim, (x.shape[1], x.shape[4], x.shape[4]), (*takes, block)))
    require(tuple(tile) in tiles_of(kernel_size), "C7", f"tile {tile} of filters {kernel_size}")
    agree = agree and same_dim(points, points_of(tile, kernel_size))
    require(agree, "C2", f"input {show(x.shape)} does not fit filter {show(filter.shape)}")
    moves = slides(x.shape[2:4], kernel_size, (1, 1), paddings, "EXPLICIT", (1, 1), "C3")
    out = [m.positions(n) for m, n in zip(moves, x.shape[2:4], strict=True)]
    require_positions(out, "C3", x.shape[2:4])
    made = TensorMeta((x.shape[0], filters, *out, block), x.dtype)
    for given, want in ((bias, (mul_dims(filters, block),)), (residual, made.shape)):
        fits = given is None or (given.rank == len(want) and given.dtype is x.dtype)
        fits = fits and (given is None or all(map(same_dim, given.shape, want)))
        require(fits, "C4", f"{given} is not {show(want)} of {x.dtype}")
    require(activation in ACTIVATIONS, "C5", f"activation {activation!r} is not known")
    known = UNKNOWN not in (x.shape[1], block)
    ends = not known or 0 < x.shape[1] * block - channels < block
    require(channels == 0 or ends, "C6", f"{channels} channels do not end in the last block")
    return made


@reference(NchwcWinogradConv2d)
def _(
    x: Array,
    filter: Array,
    bias: Array | None,
    residual: Array | None,
    *,
    kernel_size: Sequence[int],
    tile: Sequence[int],
    paddings: Sequence[int],
    activation: str,
    channels: int,
) -> Array:
    size = [m + r - 1 for m, r in zip(tile, kernel_size, strict=True)]
    moves = slides(x.shape[2:4], kernel_size, (1, 1), paddings, "EXPLICIT", (1, 1), "C3")
    out = [m.positions(n) for m, n in zip(moves, x.shape[2:4], strict=True)]
    counts = [-(-n // m) for n, m in zip(out, tile, strict=True)]
    if channels:
        x, filter = x.copy(), filter.copy()
        x[:, -1, ..., channels % x.shape[-1] :] = 0
        filter[:, :, -1, channels % x.shape[-1] :] = 0
    # Tiles begin at multiples of their results; what they read of the padding is 0.
    ends = [
        (move.before, max(0, (n - 1) * m + taken - move.before - have))
        for move, n, m, taken, have in zip(moves, counts, tile, size, x.shape[2:4], strict=True)
    ]
    padded = np.pad(x, [(0, 0), (0, 0), *ends, (0, 0)])
    tiles = np.lib.stride_tricks.sliding_window_view(padded, size, (2, 3))
    tiles = tiles[:, :, :: tile[0], :: tile[1]][:, :, : counts[0], : counts[1]]
    known = [transforms_of(m, r) for m, r in zip(tile, kernel_size, strict=True)]
    to_points = [np.array(k.input, x.dtype) for k in known]
    points = np.einsum("pi,qj,ncyxbij->pqncyxb", *to_points, tiles, optimize=True)
    weights = filter.reshape(*size, *filter.shape[1:])
    sums = np.einsum("pqncyxb,pqkcbd->pqnkyxd", points, weights, optimize=True)
    to_results = [np.array(k.output, x.dtype) for k in known]
    found = np.einsum("ip,jq,pqnkyxd->nkyixjd", *to_results, sums, optimize=True)
    n, filters, rows, _, columns, _, block = found.shape
    found = found.reshape(n, filters, rows * tile[0], columns * tile[1], block)
    found = found[:, :, : out[0], : out[1]]
    if bias is not None:
        found = found + bias.reshape(-1, 1, 1, block)
    if residual is not None:
        found = found + residual
    return np.ascontiguousarray(ACTIVATIONS[activation](found).astype(x.dtype, copy=False))


@samples(NchwcWinogradConv2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(2, 3, 5, 6, 4)
    small, large = s.tensor(16, 2, 3, 4, 4), s.tensor(36, 2, 3, 4, 4)
    yield s(x, small, s.tensor(8), None, tile=(2, 2), paddings=(1, 0), activation="relu")
    yield s(x, large, None, s.tensor(2, 2, 5, 6, 4), paddings=(1, 1), activation="relu6")
    yield s(x, large, s.tensor(8), None, channels=10, activation="hardswish")
    yield s(x, small, None, None, tile=(2, 2), paddings=(0, 2, 1, 0))
    row, wide = s.tensor(8, 2, 3, 4, 4), s.tensor(36, 1, 3, 4, 4)
    yield s(x, row, None, None, kernel_size=(1, 5), tile=(1, 4), paddings=(0, 2))
    yield s(x, wide, None, None, kernel_size=(5, 5), tile=(2, 2), paddings=(2, 2))


@bad_samples(NchwcWinogradConv2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, filter = s.tensor(1, 2, 5, 5, 4), s.tensor(36, 3, 2, 4, 4)
    yield "C1", s(s.tensor(5, 5, 4), filter, None, None)
    yield "C1", s(x, s.tensor(16, 3, 2, 4, 4, dtype=dt.int32), None, None)
    yield "C2", s(s.tensor(1, 3, 5, 5, 4), filter, None, None)
    yield "C2", s(x, s.tensor(25, 3, 2, 4, 4), None, None)
    yield "C3", s(s.tensor(1, 2, 2, 5, 4), filter, None, None)
    yield "C4", s(x, filter, s.tensor(4), None)
    yield "C4", s(x, filter, None, s.tensor(1, 3, 5, 5, 4))
    yield "C5", s(x, filter, None, None, activation="selu")
    yield "C6", s(x, filter, None, None, channels=4)
    yield "C7", s(x, s.tensor(25, 3, 2, 4, 4), None, None, tile=(3, 3))
    yield "C7", s(x, s.tensor(64, 3, 2, 4, 4), None, None, kernel_size=(5, 5))
