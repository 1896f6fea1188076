"""Pooling by a power mean without the mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.nn.pool import check_kernel, gather, out_sizes, pool_slides, spans
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.windows import is_channels_last
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "window"


@op
class LpPool2d:
    """`(sum x^norm_type)^(1 / norm_type)` over each window of images, as in Paddle without `abs`.

    Windows are those of `pool2d`; `exclusive` and `pooling_type` change nothing.

    C1: `x` has four dimensions, and `data_format` is a known layout.
    C2: `kernel_size` has two positive numbers.
    C3: `norm_type` is not zero.
    C4: strides, paddings and `padding_algorithm` fit two spatial dimensions.
    C5: the window fits into the padded input.
    """

    name = "pd_op.lp_pool2d"
    signature = (
        "x ; kernel_size: intarray, strides: i64[] = [1, 1], paddings: i64[] = [0, 0], "
        'ceil_mode: bool = False, exclusive: bool = True, data_format: str = "NCHW", '
        'pooling_type: str = "", global_pooling: bool = False, adaptive: bool = False, '
        'padding_algorithm: str = "EXPLICIT", norm_type: f32 = 0.0 -> out'
    )
    dtypes = (dt.float32, dt.float64)
    domain = (0.1, 2.0)


@infer_meta(LpPool2d)
def _(
    x: TensorMeta,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    data_format: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
    norm_type: float,
    **_: object,
) -> TensorMeta:
    require(x.rank == 4, "C1", f"{x} has not four dimensions")
    first = 1 if is_channels_last(data_format, "C1") else 2
    check_kernel(kernel_size, 2)
    require(norm_type != 0, "C3", "norm_type is zero")
    lengths = x.shape[first : first + 2]
    moves = pool_slides(
        lengths, kernel_size, strides, paddings, padding_algorithm, global_pooling, "C4"
    )
    out = (1, 1) if global_pooling else out_sizes(moves, lengths, adaptive, ceil_mode, "C5")
    return x.with_shape((*x.shape[:first], *out, *x.shape[first + 2 :]))


@reference(LpPool2d)
def _(
    x: Array,
    *,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    ceil_mode: bool,
    data_format: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
    norm_type: float,
    **_: object,
) -> Array:
    first = 1 if is_channels_last(data_format, "C1") else 2
    lengths = x.shape[first : first + 2]
    moves = pool_slides(
        lengths, kernel_size, strides, paddings, padding_algorithm, global_pooling, "C4"
    )
    adaptive = adaptive and not global_pooling
    positions = out_sizes(moves, lengths, adaptive, ceil_mode, "C5")
    total: Array = np.power(x, x.dtype.type(norm_type))
    for axis, move, length, count in zip(
        (first, first + 1), moves, lengths, positions, strict=True
    ):
        windows = spans(move, length, count, adaptive)
        shape = (*total.shape[:axis], count, *total.shape[axis + 1 :])
        total = sum(gather(total, axis, windows, 0), np.zeros(shape, x.dtype))
    return np.power(total, x.dtype.type(1 / norm_type))


_USUAL: Final[dict[str, Any]] = {"strides": (2, 2), "norm_type": 2.0}


@samples(LpPool2d)
def _(s: SampleMaker) -> Iterator[Sample]:
    x = s.tensor(1, 2, 5, 6)
    yield s(x, kernel_size=(2, 3), **_USUAL)
    yield s(x, kernel_size=(3, 3), strides=(2, 1), paddings=(1, 1), norm_type=3.0)
    yield s(x, kernel_size=(2, 2), **_USUAL, ceil_mode=True)
    yield s(s.tensor(1, 4, 4, 2), kernel_size=(2, 2), **_USUAL, data_format="NHWC")


@bad_samples(LpPool2d)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x = s.tensor(1, 2, 5, 6)
    yield "C1", s(x[0], kernel_size=(2, 2), **_USUAL)
    yield "C2", s(x, kernel_size=(2, 0), **_USUAL)
    yield "C3", s(x, kernel_size=(2, 2), norm_type=0.0)
    yield "C4", s(x, kernel_size=(2, 2), strides=(0, 1), norm_type=2.0)
    yield "C5", s(x, kernel_size=(9, 2), **_USUAL)
