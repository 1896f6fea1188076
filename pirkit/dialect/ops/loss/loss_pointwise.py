"""Losses of each element of a prediction against the same element of the label."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import in_f32, widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = ELEMENTWISE


def _same_shape(x: TensorMeta, label: TensorMeta) -> TensorMeta:
    """Meta of ``x``, with unknown dimensions taken from ``label``. C1: the shapes are equal."""
    require(
        x.rank == label.rank and all(map(same_dim, x.shape, label.shape)),
        "C1",
        f"shapes {show(x.shape)} and {show(label.shape)} differ",
    )
    return x.with_shape(d if d != UNKNOWN else e for d, e in zip(x.shape, label.shape, strict=True))


@op
class SigmoidCrossEntropyWithLogits:
    """Cross entropy of `sigmoid(x)` with a label in [0, 1], without overflow.

    `pos_weight` multiplies -log(sigmoid(x)), whatever the label: a weight w of the positive class
    arrives here as 1 + (w - 1) * label. An element whose label is `ignore_index` has loss 0;
    `normalize` divides by the number of the others.

    C1: `label` has the shape of `x`.
    C2: `pos_weight` has the shape of `x`.
    """

    name = "pd_op.sigmoid_cross_entropy_with_logits"
    no_gradient = ("label", "pos_weight")
    signature = "x, label, pos_weight? ; normalize: bool = False, ignore_index: i32 = -100 -> out"
    dtypes = dt.FLOATS
    inplace = {"out": "x"}


@infer_meta(SigmoidCrossEntropyWithLogits)
def _(x: TensorMeta, label: TensorMeta, pos_weight: TensorMeta | None, **_: object) -> TensorMeta:
    require(
        pos_weight is None
        or (pos_weight.rank == x.rank and all(map(same_dim, pos_weight.shape, x.shape))),
        "C2",
        f"`pos_weight` has not the shape {show(x.shape)} of `x`",
    )
    return _same_shape(x, label)


@reference(SigmoidCrossEntropyWithLogits)
def _(
    x: Array, label: Array, pos_weight: Array | None, *, normalize: bool, ignore_index: int
) -> Array:
    z, t = widened(x), widened(label)
    tail = np.log1p(np.exp(-np.abs(z)))  # log(1 + exp(-|z|)) never overflows
    if pos_weight is None:
        loss = np.maximum(z, 0) - z * t + tail
    else:
        loss = (1 - t) * z + widened(pos_weight) * (tail + np.maximum(-z, 0))
    keep_mask = label != ignore_index
    loss = np.where(keep_mask, loss, z.dtype.type(0))
    if normalize:
        loss = loss / max(int(keep_mask.sum()), 1)
    return loss.astype(x.dtype, copy=False)


@samples(SigmoidCrossEntropyWithLogits)
def _(s: SampleMaker) -> Iterator[Sample]:
    label = s.array([[1.0, 0.0, 0.5], [1.0, -100.0, 0.0]])
    yield s(s.tensor(2, 3, low=-9, high=9), label, None)
    yield s(s.tensor(2, 3), label, None, normalize=True)
    yield s(s.tensor(2, 3), label, s.tensor(2, 3, low=0.5, high=3.0))
    yield s(s.array([-200.0, 200.0]), s.array([1.0, 0.0]), None)
    yield s(s.tensor(0, 3), s.tensor(0, 3), None)


@bad_samples(SigmoidCrossEntropyWithLogits)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(2, 3), s.tensor(2, 1), None)
    yield "C2", s(s.tensor(2, 3), s.tensor(2, 3), s.tensor(3))


@op
class BceLoss:
    """Cross entropy of a probability in [0, 1] with a label; logarithms are bounded by -100.

    C1: `label` has the shape of `input`.
    """

    name = "pd_op.bce_loss"
    no_gradient = ("label",)
    signature = "input, label -> out"
    dtypes = dt.FLOATS
    same_dtype = ("input", "label")
    inplace = {"out": "input"}
    domain = (0.0, 1.0)


infer_meta(BceLoss)(_same_shape)


@reference(BceLoss)
@in_f32
def _(input: Array, label: Array) -> Array:
    one = input.dtype.type(1)
    hit = np.maximum(np.log(input), -100)
    miss = np.maximum(np.log(one - input), -100)
    return -(label * hit + (one - label) * miss)


@samples(BceLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(3, 4))
    yield s(s.array([0.0, 1.0, 0.5]), s.array([1.0, 0.0, 0.5]))
    yield s(s.tensor(), s.tensor())


@bad_samples(BceLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4), s.tensor(3, 1))


@op
class HuberLoss:
    """Half the square of `label - input` up to `delta`, linear beyond; and that difference.

    C1: `label` has the shape of `input`.
    """

    name = "pd_op.huber_loss"
    signature = "input, label ; delta: f32 -> out, residual~"
    dtypes = dt.FLOATS


@infer_meta(HuberLoss)
def _(input: TensorMeta, label: TensorMeta, **_: object) -> tuple[TensorMeta, TensorMeta]:
    out = _same_shape(input, label)
    return out, out


@reference(HuberLoss)
def _(input: Array, label: Array, *, delta: float) -> tuple[Array, Array]:
    wide = widened(input)
    residual = widened(label) - wide
    size = np.abs(residual)
    near = np.minimum(size, wide.dtype.type(delta))
    out = near * (size - near / 2)
    return out.astype(input.dtype, copy=False), residual.astype(input.dtype, copy=False)


@samples(HuberLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(3, 4), delta=1.0)
    yield s(s.tensor(5), s.tensor(5), delta=0.25)


@bad_samples(HuberLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4), s.tensor(4), delta=1.0)


@op
class KldivLoss:
    """Kullback-Leibler divergence of the log probabilities `x` from the distribution `label`.

    A label of 0 or less has loss 0. With `log_target`, `label` is a logarithm too.
    `reduction` is `none`, `sum`, `mean` (by elements) or `batchmean` (by the first dimension); a
    mean of nothing is NaN.

    C1: `label` has the shape of `x`.
    C2: `reduction` is `none`, `sum`, `mean` or `batchmean`.
    C3: `label` has the element type of `x`.
    """

    name = "pd_op.kldiv_loss"
    no_gradient = ("label",)
    signature = 'x, label ; reduction: str = "mean", log_target: bool = False -> out'
    dtypes = dt.FLOATS


@infer_meta(KldivLoss)
def _(x: TensorMeta, label: TensorMeta, *, reduction: str, **_: object) -> TensorMeta:
    known = ("none", "sum", "mean", "batchmean")
    require(reduction in known, "C2", f"unknown reduction `{reduction}`, expected one of {known}")
    require(label.dtype is x.dtype, "C3", f"`label` is {label.dtype}, not {x.dtype}")
    out = _same_shape(x, label)
    return out if reduction == "none" else out.with_shape(())


@reference(KldivLoss)
@in_f32
def _(x: Array, label: Array, *, reduction: str, log_target: bool) -> Array:
    if log_target:
        loss = np.exp(label) * (label - x)
    else:
        is_none = label <= 0  # false for NaN, which stays
        safe = np.where(is_none, label.dtype.type(1), label)
        loss = np.where(is_none, label.dtype.type(0), label * (np.log(safe) - x))
    if reduction == "none":
        return loss
    total = loss.sum()
    if reduction == "sum":
        return total
    count = loss.size if reduction == "mean" else loss.shape[0] if loss.ndim else 1
    return total / total.dtype.type(count)


@samples(KldivLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(3, 4), s.tensor(3, 4))
    yield s(s.tensor(3, 4), s.tensor(3, 4), reduction="none")
    yield s(s.tensor(3, 4), s.tensor(3, 4), reduction="batchmean", log_target=True)
    yield s(s.tensor(3, 4), s.tensor(3, 4), reduction="sum")


@bad_samples(KldivLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(3, 4), s.tensor(3, 1))
    yield "C3", s(s.tensor(3, 4), s.tensor(3, 4, dtype=dt.int64))
    yield "C2", s(s.tensor(3, 4), s.tensor(3, 4), reduction="max")


@op
class LogLoss:
    """Cross entropy of a probability with a label; `epsilon` is added under the logarithms.

    C1: `label` has the shape of `input`.
    C2: `input` has shape [n, 1].
    C3: `label` has the element type of `input`.
    """

    name = "pd_op.log_loss"
    no_gradient = ("label",)
    signature = "input, label ; epsilon: f32 -> out"
    dtypes = dt.FLOATS
    domain = (0.0, 1.0)


@infer_meta(LogLoss)
def _(input: TensorMeta, label: TensorMeta, **_: object) -> TensorMeta:
    require(
        input.rank == 2 and same_dim(input.shape[1], 1),
        "C2",
        f"`input` of shape {show(input.shape)} is no column",
    )
    require(label.dtype is input.dtype, "C3", f"`label` is {label.dtype}, not {input.dtype}")
    return _same_shape(input, label)


@reference(LogLoss)
@in_f32
def _(input: Array, label: Array, *, epsilon: float) -> Array:
    one, small = input.dtype.type(1), input.dtype.type(epsilon)
    return -label * np.log(input + small) - (one - label) * np.log(one - input + small)


@samples(LogLoss)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield s(s.tensor(4, 1), s.tensor(4, 1), epsilon=1e-4)


@bad_samples(LogLoss)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(4, 1), s.tensor(3, 1), epsilon=1e-4)
    yield "C2", s(s.tensor(4, 2), s.tensor(4, 2), epsilon=1e-4)
    yield "C3", s(s.tensor(4, 1), s.tensor(4, 1, dtype=dt.int64), epsilon=1e-4)
