"""Ops that keep gradients in range: scaled losses of mixed precision, and clipping by norm."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, cast

from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.opdef import (
    WRITE,
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.ops.optimizer.optimizer import check_number
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta, VecMeta

KIND = ELEMENTWISE


@op
class CheckFiniteAndUnscale:
    """Divides gradients by `scale` and reports whether one is infinite or NaN.

    From the first tensor that has such an element on, all are multiplied by 0 instead.

    C1: the tensors are float.
    C2: `scale` has one element.
    """

    name = "pd_op.check_finite_and_unscale_"
    signature = "x[], scale -> out[], found_infinite"
    dtypes = dt.FLOATS
    inplace = {"out": "x"}
    effects = WRITE


@infer_meta(CheckFiniteAndUnscale)
def _(x: VecMeta, scale: TensorMeta) -> tuple[VecMeta, TensorMeta]:
    _check_gradients(x)
    check_number("scale", scale, "C2")
    return x, TensorMeta((1,), dt.bool_)


def _check_gradients(x: VecMeta) -> None:
    for each in x.items:
        require(each.dtype.is_float, "C1", f"a gradient of dtype {each.dtype}")


@reference(CheckFiniteAndUnscale)
def _(x: list[Array], scale: Array) -> tuple[list[Array], Array]:
    factor = np.asarray(1 / widened(scale).reshape(()))
    found, scaled = False, list[Array]()
    for each in x:
        found = found or not np.all(np.isfinite(each))
        scaled.append(np.asarray(widened(each) * (0 if found else factor)).astype(each.dtype))
    return scaled, np.array([found])


@samples(CheckFiniteAndUnscale)
def _(s: SampleMaker) -> Iterator[Sample]:
    scale = s.array([4.0], dt.float32 if s.dtype in (dt.float16, dt.bfloat16) else None)
    yield s([s.tensor(2, 3), s.tensor(3)], scale)
    yield s([s.tensor(3), s.array([1.0, np.inf]), s.tensor(2)], scale)
    yield s([s.array([1.0, np.nan])], scale)
    yield s([s.tensor()], scale)


@bad_samples(CheckFiniteAndUnscale)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s([s.ints((2,), 0, 5)], s.tensor(1))
    yield "C2", s([s.tensor(2)], s.tensor(2))


@op
class UpdateLossScaling:
    """Adapts the scale of the loss to whether gradients stayed finite.

    Enough good steps in a row multiply it by `incr_ratio`, if it stays finite; enough bad ones by
    `decr_ratio`, but not below 1. A bad step also zeroes the gradients. `stop_update` keeps the
    scale and the counts.

    C1: the tensors are float.
    C2: `found_infinite`, the scale and the counts have one element, and one rank.
    """

    name = "pd_op.update_loss_scaling_"
    signature = (
        "x[], found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps, "
        "stop_update: scalar = False ; incr_every_n_steps: i32, decr_every_n_nan_or_inf: i32, "
        "incr_ratio: f32, decr_ratio: f32 -> out[], loss_scaling, out_good_steps, out_bad_steps"
    )
    dtypes = dt.FLOATS
    same_dtype = ("in_good_steps", "in_bad_steps")
    operand_dtypes = {"found_infinite": dt.BOOL, "in_good_steps": dt.INTS, "in_bad_steps": dt.INTS}
    inplace = {
        "out": "x",
        "loss_scaling": "prev_loss_scaling",
        "out_good_steps": "in_good_steps",
        "out_bad_steps": "in_bad_steps",
    }
    effects = WRITE


@infer_meta(UpdateLossScaling)
def _update(
    x: VecMeta,
    found_infinite: TensorMeta,
    prev_loss_scaling: TensorMeta,
    in_good_steps: TensorMeta,
    in_bad_steps: TensorMeta,
    **_: object,
) -> tuple[VecMeta | TensorMeta, ...]:
    _check_gradients(x)
    for one in (found_infinite, prev_loss_scaling, in_good_steps, in_bad_steps):
        check_number("scale or count", one, "C2")
        require(one.rank == found_infinite.rank, "C2", f"{one} beside {found_infinite}")
    return x, prev_loss_scaling, in_good_steps, in_bad_steps


@paddle_meta(UpdateLossScaling)
def _(*operands: Any, **attrs: Any) -> tuple[VecMeta | TensorMeta, ...]:
    """Paddle's programs always state a float32 scale."""
    out, scale, *counts = _update(*operands, **attrs)
    return out, cast(TensorMeta, scale).with_dtype(dt.float32), *counts


@reference(UpdateLossScaling)
def _(
    x: list[Array],
    found_infinite: Array,
    prev_loss_scaling: Array,
    in_good_steps: Array,
    in_bad_steps: Array,
    *,
    stop_update: bool,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
) -> tuple[list[Array] | Array, ...]:
    bad = bool(found_infinite.reshape(()))
    gradients = [np.zeros_like(each) if bad else each for each in x]
    if stop_update:
        return gradients, prev_loss_scaling, in_good_steps, in_bad_steps
    none, one = np.zeros_like(in_good_steps), np.ones_like(in_good_steps)
    good_steps = none if bad else in_good_steps + one
    bad_steps = in_bad_steps + one if bad else none
    scale = prev_loss_scaling
    if bad and bad_steps.item() == decr_every_n_nan_or_inf:
        scale, bad_steps = np.maximum(scale * scale.dtype.type(decr_ratio), 1), none
    if not bad and good_steps.item() == incr_every_n_steps:
        larger = scale * scale.dtype.type(incr_ratio)
        scale, good_steps = np.where(np.isfinite(larger), larger, scale), none
    return gradients, np.asarray(scale).astype(prev_loss_scaling.dtype), good_steps, bad_steps


_PACE = {
    "incr_every_n_steps": 10,
    "decr_every_n_nan_or_inf": 2,
    "incr_ratio": 2.0,
    "decr_ratio": 0.5,
}


@samples(UpdateLossScaling)
def _(s: SampleMaker) -> Iterator[Sample]:
    wide = dt.float32 if s.dtype in (dt.float16, dt.bfloat16) else None
    for found, scale, good, bad, stop in (
        (False, 8.0, 3, 1, False),
        (False, 8.0, 9, 1, False),
        (True, 8.0, 9, 0, False),
        (True, 1.5, 0, 1, False),
        (False, 3e38, 9, 0, False),
        (True, 8.0, 9, 1, True),
    ):
        counts = np.array([good], np.int32), np.array([bad], np.int32)
        rest = s.array([scale], wide), *counts
        yield s([s.tensor(2, 3), s.tensor()], np.array([found]), *rest, stop_update=stop, **_PACE)


@bad_samples(UpdateLossScaling)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    counts = np.array([0], np.int32), np.array([0], np.int32)
    found = np.array([False])
    yield "C1", s([s.ints((2,), 0, 5)], found, s.tensor(1), *counts, **_PACE)
    yield "C2", s([s.tensor(2)], found, s.tensor(2), *counts, **_PACE)


@op
class ClipByNorm:
    """`x`, scaled down to the norm `max_norm` if it is longer.

    C1: `x` is a float tensor.
    C2: `max_norm` is positive and finite.
    """

    name = "pd_op.clip_by_norm"
    kind = "normalization"
    signature = "x ; max_norm: f32 -> out"
    dtypes = dt.FLOATS


@infer_meta(ClipByNorm)
def _(x: TensorMeta, *, max_norm: float) -> TensorMeta:
    require(x.dtype.is_float, "C1", f"the norm of a tensor of dtype {x.dtype}")
    require(0 < max_norm < inf, "C2", f"a norm of {max_norm}")
    return x


@reference(ClipByNorm)
def _(x: Array, *, max_norm: float) -> Array:
    wide = widened(x)
    norm = np.sqrt(np.sum(np.square(wide)))
    return np.asarray(wide * (max_norm / norm)).astype(x.dtype) if norm > max_norm else x


@samples(ClipByNorm)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3), max_norm=1.0)
    yield s(s.tensor(2, 3), max_norm=100.0)
    yield s(s.array([3.0, 4.0]), max_norm=5.0)


@bad_samples(ClipByNorm)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.ints((3,), 0, 5), max_norm=1.0)
    yield "C2", s(s.tensor(3), max_norm=0.0)
