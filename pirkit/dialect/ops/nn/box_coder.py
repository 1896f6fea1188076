"""Boxes as their differences from prior boxes, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "elementwise"

ENCODE: Final = "encode_center_size"
DECODE: Final = "decode_center_size"


@op
class BoxCoder:
    """Boxes `[x1, y1, x2, y2]` as their centers and sizes relative to prior boxes, or back.

    Encoding gives `[N, M, 4]`, each of the N boxes `target_box [N, 4]` against each of the M prior
    boxes: the distance of the centers in sizes of the prior box, and the logarithms of the ratios
    of the sizes. Both are divided by `prior_box_var [M, 4]`, or by `variance`. Decoding is the
    inverse: it turns `target_box [N, M, 4]` into boxes; with `axis` 0 there is a prior box for each
    of M, with 1 for each of N. Without `box_normalized` corners are pixels that belong to the box,
    so its size is one more than their distance.

    C1: `prior_box`, and `prior_box_var` if there is one, are `[M, 4]`, of the dtype of
    `target_box`.
    C2: `code_type` is encode_center_size or decode_center_size.
    C3: `target_box` is `[N, 4]` for encoding, `[N, M, 4]` with as many as prior boxes for decoding.
    C4: `axis` is 0 or 1; `variance` has four numbers or none, and none with `prior_box_var`.
    """

    name = "pd_op.box_coder"
    signature = (
        f"prior_box, prior_box_var?, target_box ; code_type: str = {ENCODE!r}, "
        "box_normalized: bool = True, axis: i32 = 0, variance: f32[] = [] -> output_box"
    )
    dtypes = (dt.float32, dt.float64)
    domain = (0.0, 1.0)


@infer_meta(BoxCoder)
def _(
    prior_box: TensorMeta,
    prior_box_var: TensorMeta | None,
    target_box: TensorMeta,
    *,
    code_type: str,
    axis: int,
    variance: Sequence[float],
    **_: object,
) -> TensorMeta:
    for given in (prior_box, prior_box_var):
        boxes = given is None or (
            given.rank == 2
            and same_dim(given.shape[1], 4)
            and same_dim(given.shape[0], prior_box.shape[0])
            and given.dtype is target_box.dtype
        )
        require(boxes, "C1", f"{given} for {prior_box}")
    require(code_type in (ENCODE, DECODE), "C2", f"code_type {code_type!r}")
    require(axis in (0, 1), "C4", f"axis {axis}")
    one = len(variance) in (0, 4) and not (variance and prior_box_var is not None)
    require(one, "C4", f"variance {list(variance)}")
    shape = target_box.shape
    fits = target_box.rank == (2 if code_type == ENCODE else 3) and same_dim(shape[-1], 4)
    if fits and code_type == DECODE:
        fits = same_dim(shape[1 - axis], prior_box.shape[0])
    require(fits, "C3", f"{show(shape)} for {code_type} with {prior_box}")
    return target_box.with_shape(
        (shape[0], prior_box.shape[0], 4) if code_type == ENCODE else shape
    )


def _sides(boxes: Array, normalized: bool) -> tuple[Array, Array]:
    """Lower corners and sizes."""
    low = boxes[..., :2]
    return low, boxes[..., 2:] - low + (0 if normalized else 1)


@reference(BoxCoder)
def _(
    prior_box: Array,
    prior_box_var: Array | None,
    target_box: Array,
    *,
    code_type: str,
    box_normalized: bool,
    axis: int,
    variance: Sequence[float],
) -> Array:
    dtype = target_box.dtype
    share = np.asarray(variance or (1,) * 4, dtype) if prior_box_var is None else prior_box_var
    low, size = _sides(prior_box, box_normalized)
    center = low + size / 2
    if code_type == ENCODE:
        target = target_box[:, None]
        middle = (target[..., :2] + target[..., 2:]) / 2
        ratio = np.abs(_sides(target, box_normalized)[1] / size)
        return np.concatenate([(middle - center) / size, np.log(ratio)], axis=-1) / share
    if axis == 1:
        size, center = size[:, None], center[:, None]
        share = share[:, None] if share.ndim == 2 else share
    moved = target_box * share
    middle, half = center + moved[..., :2] * size, np.exp(moved[..., 2:]) * size / 2
    upper = middle + half - (0 if box_normalized else 1)
    return np.concatenate([middle - half, upper], axis=-1).astype(dtype)


def _boxes(s: SampleMaker, *shape: int) -> Array:
    low = s.tensor(*shape, 2)
    return np.concatenate([low, low + s.tensor(*shape, 2) + low.dtype.type(0.5)], axis=-1)


@samples(BoxCoder)
def _(s: SampleMaker) -> Iterator[Sample]:
    prior = _boxes(s, 3)
    share = s.tensor(3, 4) + prior.dtype.type(0.5)
    yield s(prior, share, _boxes(s, 2))
    yield s(prior, None, _boxes(s, 2), variance=(0.1, 0.1, 0.2, 0.2), box_normalized=False)
    yield s(prior, None, _boxes(s, 2))
    yield s(prior, share, s.tensor(2, 3, 4), code_type=DECODE)
    yield s(prior, share, s.tensor(3, 2, 4), code_type=DECODE, axis=1, box_normalized=False)
    yield s(prior, None, s.tensor(3, 2, 4), code_type=DECODE, axis=1, variance=(0.1, 0.1, 0.2, 0.2))
    yield s(prior, None, s.tensor(0, 3, 4), code_type=DECODE)


@bad_samples(BoxCoder)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    prior = _boxes(s, 3)
    yield "C1", s(prior[:, :3], None, _boxes(s, 2))
    yield "C2", s(prior, None, _boxes(s, 2), code_type="center")
    yield "C3", s(prior, None, s.tensor(2, 4, 4), code_type=DECODE)
    yield "C4", s(prior, None, _boxes(s, 2), variance=(0.1,))
