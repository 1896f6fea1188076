"""The best path through a chain of labels."""

from __future__ import annotations

from collections.abc import Iterator

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
from pirkit.dialect.shapes import same_dim
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import UNKNOWN, TensorMeta

KIND = "algorithm"


@op
class ViterbiDecode:
    """The greatest score of a path through N labels, and the path, for each sequence.

    A path is scored by `potentials [B, T, N]` at its labels, and by `transition_params [N, N]` from
    each label to the next. `lengths` tells how many steps of a sequence count. With
    `include_bos_eos_tag` the last row of the transitions is added at the first step, the row before
    it at the last. `path` has as many columns as the longest sequence has steps, 0 after the end
    of a shorter one. Of equal scores the label with the smallest number is chosen.

    C1: `potentials` has three dimensions, `transition_params` fits its labels.
    C2: `lengths` holds an integer for each sequence.
    C3: there is a label; with `include_bos_eos_tag` there are at least two.
    C4: no length is negative or more than T.
    """

    name = "pd_op.viterbi_decode"
    signature = (
        "potentials, transition_params, lengths ; include_bos_eos_tag: bool = True -> scores, path"
    )
    dtypes = (dt.float32, dt.float64)
    operand_dtypes = {"lengths": dt.INTS}
    no_gradient = ("potentials", "transition_params", "lengths")


@infer_meta(ViterbiDecode)
def _(
    potentials: TensorMeta,
    transition_params: TensorMeta,
    lengths: TensorMeta,
    *,
    include_bos_eos_tag: bool,
) -> tuple[TensorMeta, TensorMeta]:
    fits = potentials.rank == 3 and transition_params.rank == 2
    fits = fits and all(same_dim(d, potentials.shape[2]) for d in transition_params.shape)
    require(fits, "C1", f"transitions {transition_params} for {potentials}")
    batch, _, labels = potentials.shape
    own = lengths.rank == 1 and same_dim(lengths.shape[0], batch)
    require(own, "C2", f"lengths {lengths} for {potentials}")
    enough = labels >= (2 if include_bos_eos_tag else 1) or labels == UNKNOWN
    require(enough, "C3", f"{labels} labels")
    return potentials.with_shape((batch,)), TensorMeta((batch, UNKNOWN), dt.int64)


@paddle_meta(ViterbiDecode)
def _(
    potentials: TensorMeta, _transitions: TensorMeta, lengths: TensorMeta, **_: object
) -> tuple[TensorMeta, TensorMeta]:
    return lengths, TensorMeta((0,), dt.float32)


@reference(ViterbiDecode)
def _(
    potentials: Array, transition_params: Array, lengths: Array, *, include_bos_eos_tag: bool
) -> tuple[Array, Array]:
    batch, time, labels = potentials.shape
    longest = int(lengths.max(initial=0))
    fits = longest <= time and int(lengths.min(initial=0)) >= 0
    require(fits, "C4", f"lengths {lengths.tolist()} for {time} steps")
    scores = np.zeros(batch, potentials.dtype)
    path = np.zeros((batch, longest), np.int64)
    nothing = np.zeros(labels, potentials.dtype)
    first, last = transition_params[[-1, -2]] if include_bos_eos_tag else (nothing, nothing)
    for n, steps in enumerate(lengths.tolist()):
        if not steps:
            continue
        state, came = potentials[n, 0] + first, np.zeros((steps, labels), np.int64)
        for t in range(1, steps):
            ways = state[:, None] + transition_params
            came[t] = ways.argmax(axis=0)
            state = ways.max(axis=0) + potentials[n, t]
        state = state + last
        scores[n], at = state.max(), int(state.argmax())
        for t in reversed(range(steps)):
            path[n, t] = at
            at = int(came[t, at])
    return scores, path


@samples(ViterbiDecode)
def _(s: SampleMaker) -> Iterator[Sample]:
    scores, moves = s.tensor(2, 4, 3), s.tensor(3, 3)
    yield s(scores, moves, s.array([4, 2], dt.int64))
    yield s(scores, moves, s.array([3, 1], dt.int64), include_bos_eos_tag=False)
    yield s(scores, moves, s.array([0, 1], dt.int64))


@bad_samples(ViterbiDecode)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    scores, moves, two = s.tensor(2, 4, 3), s.tensor(3, 3), s.array([4, 2], dt.int64)
    yield "C1", s(scores, s.tensor(3, 4), two)
    yield "C2", s(scores, moves, two[:1])
    yield "C3", s(scores[:, :, :1], moves[:1, :1], two)
    yield "C4", s(scores, moves, two + 1)
