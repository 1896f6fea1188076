"""Losses that compare a prediction with labels, and the accuracy of a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.opdef import (
    bad_samples,
    infer_meta,
    op,
    paddle_meta,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import normalize_axis, same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "reduction"

_LOG_LIMIT: Final = 1e20
"""Paddle's bound on the logarithm of a given probability."""


@op
class CrossEntropyWithSoftmax:
    """Softmax of `input` along `axis`, and the cross entropy of it with `label`.

    A hard label is the index of a class; one equal to `ignore_index` has loss 0. A soft label is a
    distribution, of which a 0 adds 0, also for a class of probability 0. Without `use_softmax`,
    `input` holds probabilities already.

    C1: `axis` lies within the rank of `input`.
    C2: apart from `axis`, `label` has the dimensions of `input`.
    C3: at `axis`, a hard label has size 1, and a soft one the size of `input`.
    C4: a hard label lies in [0, classes) or is `ignore_index`.
    """

    name = "pd_op.cross_entropy_with_softmax"
    no_gradient = ("label",)
    signature = (
        "input, label ; soft_label: bool = False, use_softmax: bool = True, "
        "numeric_stable_mode: bool = True, ignore_index: i32 = -100, axis: i32 = -1 "
        "-> softmax, loss"
    )
    dtypes = dt.FLOATS
    operand_dtypes = {"label": (*dt.REAL, dt.uint8, dt.int8, dt.int16)}
    inplace = {"softmax": "input"}


@infer_meta(CrossEntropyWithSoftmax)
def _(
    input: TensorMeta, label: TensorMeta, *, soft_label: bool, axis: int, **_: object
) -> tuple[TensorMeta, TensorMeta]:
    require(input.rank > 0, "C1", "a tensor without dimensions has no classes")
    at = normalize_axis(axis, input.rank, "C1")
    require(
        label.rank == input.rank
        and all(same_dim(label.shape[i], d) for i, d in enumerate(input.shape) if i != at),
        "C2",
        f"`label` of shape {show(label.shape)} does not fit `input` of shape {show(input.shape)}",
    )
    size = input.shape[at] if soft_label else 1
    require(
        same_dim(label.shape[at], size),
        "C3",
        f"`label` of shape {show(label.shape)} has not size {size} at axis {axis}",
    )
    return input, input.with_shape((*input.shape[:at], 1, *input.shape[at + 1 :]))


@reference(CrossEntropyWithSoftmax)
def _(
    input: Array,
    label: Array,
    *,
    soft_label: bool,
    use_softmax: bool,
    ignore_index: int,
    axis: int,
    **_: object,
) -> tuple[Array, Array]:
    softmax, log_softmax = (_softmax if use_softmax else _given)(input, axis)
    if soft_label:
        terms = np.where(label == 0, log_softmax.dtype.type(0), label * log_softmax)
        loss = -terms.sum(axis=axis, keepdims=True)
    else:
        loss = _hard_loss(log_softmax, label.astype(np.int64), ignore_index, axis)
    return softmax.astype(input.dtype, copy=False), loss.astype(input.dtype, copy=False)


def _softmax(x: Array, axis: int) -> tuple[Array, Array]:
    """The softmax along an axis and its logarithm, in float32 or wider."""
    wide = widened(x)
    shifted = wide - wide.max(axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    total = powers.sum(axis=axis, keepdims=True)
    return powers / total, shifted - np.log(total)


def _given(x: Array, _: int) -> tuple[Array, Array]:
    """Given probabilities and their logarithm, in float32 or wider."""
    wide = widened(x)
    return x, np.clip(np.log(wide), -_LOG_LIMIT, _LOG_LIMIT)


def _hard_loss(log_softmax: Array, index: Array, ignore_index: int, axis: int) -> Array:
    classes = log_softmax.shape[axis]
    ignored = index == ignore_index
    require(
        bool((ignored | ((index >= 0) & (index < classes))).all()),
        "C4",
        f"a label is outside [0, {classes}) and is not ignore_index {ignore_index}",
    )
    picked = np.take_along_axis(log_softmax, np.where(ignored, 0, index), axis)
    return np.where(ignored, log_softmax.dtype.type(0), -picked)


@samples(CrossEntropyWithSoftmax)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 5), s.ints((4, 1), 0, 5))
    yield s(
        s.tensor(2, 5, 3), s.array([[[0, 1, 4]], [[2, 2, 3]]], dt.int64), axis=1, ignore_index=2
    )
    yield s(s.tensor(4, 5), s.tensor(4, 5, low=0.0, high=1.0), soft_label=True)
    yield s(s.tensor(4, 5, low=0.1, high=1.0), s.ints((4, 1), 0, 5), use_softmax=False)
    yield s(s.array([[0.0, 90.0], [0.0, -90.0]]), s.array([[0], [0]], dt.int64))


@bad_samples(CrossEntropyWithSoftmax)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 5), s.ints((4, 1), 0, 5), axis=2)
    yield "C1", s(s.tensor(), s.ints((), 0, 1))
    yield "C2", s(s.tensor(4, 5), s.ints((3, 1), 0, 5))
    yield "C2", s(s.tensor(4, 5), s.tensor(4), soft_label=True)
    yield "C3", s(s.tensor(4, 5), s.ints((4, 5), 0, 5))
    yield "C4", s(s.tensor(4, 5), s.array([[0], [5], [1], [-1]], dt.int64))


@op
class NllLoss:
    """Negative of the log probability of the label, weighted by class.

    `reduction` is `none`, `sum` or `mean`; the mean divides by `total_weight`, the sum of the
    weights that took part, which is 0 for `none`. A label equal to `ignore_index` takes no part.

    C1: `input` has shape [n, classes] or [n, classes, h, w].
    C2: `label` has the shape of `input` without the classes.
    C3: `weight` has one element per class.
    C4: `reduction` is `none`, `sum` or `mean`.
    C5: a label lies in [0, classes) or is `ignore_index`.
    """

    name = "pd_op.nll_loss"
    no_gradient = ("weight",)
    signature = (
        'input, label, weight? ; ignore_index: i64 = -100, reduction: str = "mean" '
        "-> out, total_weight"
    )
    dtypes = dt.FLOATS
    operand_dtypes = {"label": dt.INTS}


@infer_meta(NllLoss)
def _(
    input: TensorMeta, label: TensorMeta, weight: TensorMeta | None, *, reduction: str, **_: object
) -> tuple[TensorMeta, TensorMeta]:
    require(input.rank in (2, 4), "C1", f"`input` has {input.rank} dimensions")
    expected = (input.shape[0], *input.shape[2:])
    require(
        label.rank == len(expected) and all(map(same_dim, label.shape, expected)),
        "C2",
        f"`label` of shape {show(label.shape)} does not fit `input` of shape {show(input.shape)}",
    )
    require(
        weight is None or (weight.rank == 1 and same_dim(weight.shape[0], input.shape[1])),
        "C3",
        f"`weight` has not one element for each of {input.shape[1]} classes",
    )
    require(reduction in ("none", "sum", "mean"), "C4", f"unknown reduction `{reduction}`")
    return input.with_shape(expected if reduction == "none" else ()), input.with_shape(())


@reference(NllLoss)
def _(
    input: Array, label: Array, weight: Array | None, *, ignore_index: int, reduction: str
) -> tuple[Array, Array]:
    classes = input.shape[1]
    ignored = label == ignore_index
    require(
        bool((ignored | ((label >= 0) & (label < classes))).all()),
        "C5",
        f"a label is outside [0, {classes}) and is not ignore_index {ignore_index}",
    )
    index = np.where(ignored, 0, label).astype(np.int64)
    wide = widened(input)
    one = np.ones(classes, wide.dtype) if weight is None else weight.astype(wide.dtype)
    share = np.where(ignored, wide.dtype.type(0), one[index])
    picked = np.take_along_axis(wide, np.expand_dims(index, 1), 1).squeeze(1)
    losses = np.where(ignored, wide.dtype.type(0), -picked * share)
    if reduction == "none":
        return losses.astype(input.dtype), np.zeros((), input.dtype)
    out, total = losses.sum(), share.sum()
    if reduction == "mean" and total != 0:
        out = out / total
    return np.asarray(out).astype(input.dtype), np.asarray(total).astype(input.dtype)


@samples(NllLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    labels = s.array([0, -100, 4, 2], dt.int64)
    yield s(s.tensor(4, 5), labels, None)
    yield s(s.tensor(4, 5), labels, s.tensor(5, low=0.5, high=1.0), reduction="none")
    yield s(s.tensor(4, 5), labels, s.tensor(5, low=0.5, high=1.0), reduction="sum")
    yield s(s.tensor(2, 3, 2, 2), s.ints((2, 2, 2), 0, 3), None, ignore_index=1)
    yield s(s.tensor(2, 3), s.array([1, 1], dt.int64), None, ignore_index=1)


@bad_samples(NllLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 5, 2), s.ints((4, 2), 0, 5), None)
    yield "C2", s(s.tensor(4, 5), s.ints((4, 1), 0, 5), None)
    yield "C3", s(s.tensor(4, 5), s.ints((4,), 0, 5), s.tensor(4))
    yield "C4", s(s.tensor(4, 5), s.ints((4,), 0, 5), None, reduction="max")
    yield "C5", s(s.tensor(2, 5), s.array([1, 5], dt.int64), None)


@op
class Accuracy:
    """Share of rows whose label is among the `indices` of the top k; the hits; the rows.

    They have no dimension and are float32, int32 and int32, though Paddle's programs state the
    dtype of `x` for all.

    C1: `indices` and `label` have two dimensions.
    C2: `indices` and `label` have the rows of `x`.
    C3: `label` has one column.
    """

    name = "pd_op.accuracy"
    signature = "x, indices, label -> accuracy, correct, total"
    dtypes = dt.FLOATS
    operand_dtypes = {"indices": dt.INTS, "label": dt.INTS}
    reads_meta_only = ("x",)


@infer_meta(Accuracy)
def _accuracy(
    x: TensorMeta, indices: TensorMeta, label: TensorMeta
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    require(indices.rank == label.rank == 2, "C1", "`indices` or `label` has not two dimensions")
    rows = x.shape[0] if x.rank else 1
    require(
        same_dim(indices.shape[0], rows) and same_dim(label.shape[0], rows),
        "C2",
        f"`indices` has {indices.shape[0]} rows, `label` {label.shape[0]}, `x` {rows}",
    )
    require(same_dim(label.shape[1], 1), "C3", f"`label` has {label.shape[1]} columns")
    number = TensorMeta((), dt.int32)
    return TensorMeta((), dt.float32), number, number


@paddle_meta(Accuracy)
def _(*operands: TensorMeta) -> tuple[TensorMeta, ...]:
    return (operands[0].with_shape(()),) * len(_accuracy(*operands))


@reference(Accuracy)
def _(x: Array, indices: Array, label: Array) -> tuple[Array, Array, Array]:
    rows = indices.shape[0]
    hits = int((indices == label).any(axis=1).sum())
    share = hits / rows if rows else 0.0
    return (np.array(share, np.float32), np.array(hits, np.int32), np.array(rows, np.int32))


@samples(Accuracy)
def _(s: SampleMaker) -> Iterator[Sample]:
    indices = s.array([[0, 1], [1, 2], [2, 3], [3, 4]], dt.int64)
    yield s(s.tensor(4, 2), indices, s.array([[0], [2], [0], [1]], dt.int64))


@bad_samples(Accuracy)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 2), s.ints((4, 2), 0, 3), s.ints((4,), 0, 3))
    yield "C2", s(s.tensor(4, 2), s.ints((4, 2), 0, 3), s.ints((3, 1), 0, 3))
    yield "C3", s(s.tensor(4, 2), s.ints((4, 2), 0, 3), s.ints((4, 2), 0, 3))


@op
class LabelSmooth:
    """`(1 - epsilon) * label + epsilon * prior_dist`; the prior is uniform if absent.

    C1: `label` has at least one dimension.
    C2: `prior_dist` has as many elements as the last dimension of `label`.
    """

    name = "pd_op.label_smooth"
    signature = "label, prior_dist? ; epsilon: f32 = 0.0 -> out"
    dtypes = dt.FLOATS


@infer_meta(LabelSmooth)
def _(label: TensorMeta, prior_dist: TensorMeta | None, **_: object) -> TensorMeta:
    require(label.rank > 0, "C1", "`label` has no dimensions")
    require(
        prior_dist is None or same_dim(prior_dist.numel, label.shape[-1]),
        "C2",
        f"`prior_dist` does not fit the {label.shape[-1]} classes of `label`",
    )
    return label


@reference(LabelSmooth)
def _(label: Array, prior_dist: Array | None, *, epsilon: float) -> Array:
    wide = widened(label)
    uniform = 1.0 / max(label.shape[-1], 1)
    prior = uniform if prior_dist is None else widened(prior_dist).reshape(-1)
    return ((1.0 - epsilon) * wide + epsilon * prior).astype(label.dtype, copy=False)


@samples(LabelSmooth)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(2, 3, 4), None, epsilon=0.1)
    yield s(s.tensor(3, 4), s.tensor(1, 4), epsilon=0.2)


@bad_samples(LabelSmooth)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(), None)
    yield "C2", s(s.tensor(3, 4), s.tensor(1, 3))
