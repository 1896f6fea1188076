"""The loss of sequence transduction with recurrent neural networks (RNN-T)."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.ops.loss.ctc import NEVER
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "algorithm"


@op
class WarpRnnt:
    """Minus the logarithm of the probability of labels, over all ways to emit them in time.

    `input [B, T, U + 1, V]` are made probabilities by a softmax: at step t, with u labels emitted,
    a network emits the next label and stays, or `blank` and goes on; after the last step it emits
    `blank` (Graves 2012). `label [B, U]` holds the labels, `input_lengths` and `label_lengths` tell
    how many steps and labels of a sequence count. `warprnntgrad` is the derivative of `loss`
    with respect to `input`, in which emissions of labels count `1 + fastemit_lambda` times
    (Yu et al. 2021), while `loss` is without that weight.

    C1: `input` has four dimensions, and `label` is a matrix of int32 with a column less.
    C2: `input_lengths` and `label_lengths` are int32 and hold a number for each sequence.
    C3: `blank` is a class.
    C4: `fastemit_lambda` is not negative.
    C5: each sequence has a step, and as many steps and labels as `input` holds at most.
    C6: each label that counts is a class.
    """

    name = "pd_op.warprnnt"
    signature = (
        "input, label, input_lengths, label_lengths ; blank: i32 = 0, "
        "fastemit_lambda: f32 = 0.0 -> loss, warprnntgrad~"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {
        "label": (dt.int32,),
        "input_lengths": (dt.int32,),
        "label_lengths": (dt.int32,),
    }


@infer_meta(WarpRnnt)
def _(
    input: TensorMeta,
    label: TensorMeta,
    input_lengths: TensorMeta,
    label_lengths: TensorMeta,
    *,
    blank: int,
    fastemit_lambda: float,
) -> tuple[TensorMeta, TensorMeta]:
    fits = input.rank == 4 and label.rank == 2 and same_dim(input.shape[0], label.shape[0])
    fits = fits and (-1 in (label.shape[1], input.shape[2]) or label.shape[1] + 1 == input.shape[2])
    require(fits, "C1", f"labels {label} for {input}")
    for lengths in (input_lengths, label_lengths):
        own = lengths.rank == 1 and same_dim(lengths.shape[0], input.shape[0])
        require(own, "C2", f"{lengths} for the sequences of {input}")
    known = input.shape[3] < 0 or blank < input.shape[3]
    require(blank >= 0 and known, "C3", f"class {blank} of {input.shape[3]}")
    require(fastemit_lambda >= 0, "C4", f"a weight of {fastemit_lambda}")
    return input.with_shape((input.shape[0],)), input


@reference(WarpRnnt)
def _(
    input: Array,
    label: Array,
    input_lengths: Array,
    label_lengths: Array,
    *,
    blank: int,
    fastemit_lambda: float,
) -> tuple[Array, Array]:
    shifted = input - input.max(axis=-1, keepdims=True, initial=-np.inf)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    loss, gradient = np.zeros(len(input), input.dtype), np.zeros_like(input)
    for n, (steps, count) in enumerate(zip(input_lengths, label_lengths, strict=True)):
        fits = 0 < steps <= input.shape[1] and 0 <= count < input.shape[2]
        require(bool(fits), "C5", f"sequence {n} has {steps} steps and {count} labels")
        known = (label[n, :count] >= 0) & (label[n, :count] < input.shape[3])
        require(bool(known.all()), "C6", f"labels {label[n, :count].tolist()} of {input.shape[3]}")
        loss[n], gradient[n, :steps, : count + 1] = _sequence(
            logs[n, :steps, : count + 1], label[n, :count], blank, fastemit_lambda
        )
    return loss, gradient


def _sequence(logs: Array, label: Array, blank: int, weight: float) -> tuple[Array, Array]:
    """Loss and derivative of one sequence; ``logs [T, U + 1, V]``."""
    time, width, _ = logs.shape
    stay, emit = logs[:, :, blank], np.full((time, width), NEVER, logs.dtype)
    places: Array = np.arange(int(width) - 1)
    emit[:, :-1] = logs[:, places, label]
    ahead = np.full((time + 1, width + 1), NEVER, logs.dtype)
    ahead[0, 0] = 0
    after = np.full((time + 1, width + 1), NEVER, logs.dtype)
    after[time, width - 1] = 0
    for t in range(time):
        for u in range(width):
            if t or u:
                came = ahead[t - 1, u] + stay[t - 1, u] if t else NEVER
                grown = ahead[t, u - 1] + emit[t, u - 1] if u else NEVER
                ahead[t, u] = np.logaddexp(came, grown)
    for t in reversed(range(time)):
        for u in reversed(range(width)):
            after[t, u] = np.logaddexp(after[t + 1, u] + stay[t, u], after[t, u + 1] + emit[t, u])
    total = after[0, 0]
    kind = logs.dtype.type
    started = ahead[:time, :width] - total
    blanks = np.exp(started + stay + after[1:, :width])
    labels = np.exp(started + emit + after[:time, 1:]) * kind(1 + weight)
    gradient = np.exp(logs) * (blanks + labels)[:, :, None]
    gradient[:, :, blank] -= blanks
    gradient[:, places, label] -= labels[:, :-1]
    return np.asarray(-total), gradient


@samples(WarpRnnt)
def _(s: SampleMaker) -> Iterator[Sample]:
    label = s.array([[1, 2], [2, 2]], dt.int32)
    steps, lengths = s.array([3, 2], dt.int32), s.array([2, 1], dt.int32)
    yield s(s.tensor(2, 3, 3, 4), label, steps, lengths)
    yield s(s.tensor(2, 3, 3, 4), label, steps, lengths - 1, blank=3)
    logits = s.tensor(2, 3, 3, 4)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    yield s(logs, label, steps, lengths)
    yield s(s.tensor(1, 1, 1, 2), label[:1, :0], steps[1:] - 1, lengths[1:] - 1)


@bad_samples(WarpRnnt)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, label = s.tensor(2, 3, 3, 4), s.array([[1, 2], [2, 2]], dt.int32)
    two = s.array([2, 2], dt.int32)
    yield "C1", s(x[0], label, two, two)
    yield "C2", s(x, label, two[:1], two)
    yield "C3", s(x, label, two, two, blank=4)
    yield "C4", s(x, label, two, two, fastemit_lambda=-1.0)
    yield "C5", s(x, label, two + 2, two)
    yield "C5", s(x, label, two, two - 3)
    yield "C6", s(x, label + 2, two, two)
