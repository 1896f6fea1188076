"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.indexing import check_index
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta

KIND = "algorithm"

NEVER: Final = -1e30
"""The logarithm of probability 0: finite, so that differences of two are no NaN."""


@op
class WarpCtc:
    """Minus the logarithm of the probability of labels, over all their alignments in time.

    `logits [T, N, C]` are made probabilities by a softmax. `label [N, L]` holds classes other than
    `blank`; `logits_length` and `labels_length` tell how many steps and labels of a sequence count.
    Labels that do not fit into the steps cost nothing. `warpctcgrad` is the derivative of `loss`
    with respect to `logits`; `norm_by_times` divides what training gets by the number of steps.

    C1: `logits` has three dimensions, and `label` is a matrix of int32.
    C2: `logits_length` and `labels_length` hold a number for each sequence.
    C3: `blank` is a class.
    C4: a label that counts is a class.
    """

    name = "pd_op.warpctc"
    signature = (
        "logits, label, logits_length?, labels_length? ; blank: i32 = 0, "
        "norm_by_times: bool = False -> loss, warpctcgrad~"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"label": dt.INTS, "logits_length": dt.INTS, "labels_length": dt.INTS}


@infer_meta(WarpCtc)
def _(
    logits: TensorMeta,
    label: TensorMeta,
    steps: TensorMeta | None,
    lengths: TensorMeta | None,
    *,
    blank: int,
    **_: object,
) -> tuple[TensorMeta, TensorMeta]:
    fits = logits.rank == 3 and label.rank == 2 and label.dtype is dt.int32
    require(fits, "C1", f"{label} for the classes of {logits}")
    for given in (steps, lengths):
        own = given is not None and given.rank == 1 and same_dim(given.shape[0], logits.shape[1])
        require(own, "C2", f"{given} for the sequences of {logits}")
    require(same_dim(label.shape[0], logits.shape[1]), "C2", f"{label} for {logits}")
    known = logits.shape[2] < 0 or blank < logits.shape[2]
    require(blank >= 0 and known, "C3", f"class {blank} of {logits.shape[2]}")
    return logits.with_shape((logits.shape[1], 1)), logits


def _logsum(*terms: Array) -> Array:
    return np.logaddexp.reduce(np.stack(terms), axis=0)


def _at_end(x: Array, by: int) -> Array:
    """The columns moved to the right."""
    out = np.full_like(x, NEVER)
    out[:, by:] = x[:, : x.shape[1] - by]
    return out


@reference(WarpCtc)
def _(
    logits: Array, label: Array, steps: Array, lengths: Array, *, blank: int, **_: object
) -> tuple[Array, Array]:
    time, batch = int(logits.shape[0]), int(logits.shape[1])
    shifted = logits - logits.max(axis=-1, keepdims=True, initial=-np.inf)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    # Forward-backward over paths of labels with a blank around each, in logarithms. A step stays,
    # moves on by one, or skips a blank between different labels.
    path = np.full((batch, 2 * label.shape[1] + 1), blank)
    numbers: Array = np.arange(int(label.shape[1]))
    path[:, 1::2] = np.where(np.less(numbers, lengths[:, None]), label, blank)
    check_index(path, int(logits.shape[2]), "C4", from_end=False)
    seen: Array = np.take_along_axis(logs, np.broadcast_to(path, (time, *path.shape)), axis=2)
    skips = np.zeros(path.shape, bool)
    skips[:, 2:] = (path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2])
    place: Array = np.arange(int(path.shape[1]))
    last = 2 * lengths[:, None]
    ends: Array = np.logical_or(np.equal(place, last), np.equal(place, last - 1))
    times: Array = np.arange(time)
    active: Array = np.less(times[:, None, None], steps[:, None])

    forward = np.full(seen.shape, NEVER, logits.dtype)
    state = np.tile(np.where(np.equal(place, 0), 0, NEVER).astype(logits.dtype), (batch, 1))
    for t in range(time):
        ways = (state, _at_end(state, 1), np.where(skips, _at_end(state, 2), NEVER))
        came = ways[:2] if t == 0 else ways
        state = np.where(active[t], _logsum(*came) + seen[t], state)
        forward[t] = state
    total: Array = np.logaddexp.reduce(np.where(ends, state, NEVER), axis=1)

    # Back from the end: `share` is the probability of each class at each time, given the labels,
    # and the derivative of a softmax is what it predicts less that.
    state = np.where(ends, logits.dtype.type(0), NEVER)
    skipped = np.flip(_at_end(np.flip(skips, 1).astype(logits.dtype), 2), 1) > 0
    share = np.zeros_like(logits)
    rows: Array = np.arange(int(batch)).reshape(-1, 1)
    possible: Array = np.greater(total, NEVER / 2)[:, None]
    for t in reversed(range(time)):
        held = np.where(active[t] & possible, np.exp(forward[t] + state - total[:, None]), 0)
        np.add.at(share[t], (rows, path), held)
        after = np.flip(state + seen[t], 1)
        ways = [np.flip(w, 1) for w in (after, _at_end(after, 1), _at_end(after, 2))]
        back = _logsum(ways[0], ways[1], np.where(skipped, ways[2], NEVER))
        state = np.where(active[t], back, state)
    gradient = np.where(active & possible, np.exp(logs) - share, 0)
    loss = np.where(possible, -total[:, None], 0)
    return loss.astype(logits.dtype), gradient.astype(logits.dtype)


@samples(WarpCtc)
def _(s: SampleMaker) -> Iterator[Sample]:
    label = s.array([[1, 2], [2, 2]], dt.int32)
    steps, lengths = s.array([4, 3], dt.int64), s.array([2, 2], dt.int64)
    yield s(s.tensor(4, 2, 3), label, steps, lengths)
    yield s(s.tensor(3, 2, 3), label[:, :1] - 1, steps - 1, s.array([1, 0], dt.int64), blank=2)
    yield s(s.tensor(2, 2, 3), label, steps - 2, lengths)


@bad_samples(WarpCtc)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    x, label = s.tensor(4, 2, 3), s.array([[1, 2], [2, 2]], dt.int32)
    two = s.array([2, 2], dt.int64)
    yield "C1", s(x[0], label, two, two)
    yield "C2", s(x, label, two[:1], two)
    yield "C3", s(x, label, two, two, blank=3)
    yield "C4", s(x, -label, two, two)
    yield "C4", s(x, label + 1, two, two)
