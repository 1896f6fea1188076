"""Stacked recurrent networks: LSTM, GRU and the simple cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pirkit.dialect.opdef import (
    RANDOM,
    bad_samples,
    draws,
    infer_meta,
    op,
    reference,
    require,
    samples,
)
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import widened
from pirkit.runtime.lazy_numpy import Array, np
from pirkit.runtime.meta import TensorMeta, VecMeta

KIND = "algorithm"

Step = Callable[[Array, Array, tuple[Array, ...]], tuple[Array, ...]]
"""Gates from the input, gates from the hidden state, old states -> new states, hidden first."""


@op
class Rnn:
    """Recurrent layers over `x` of shape [time, batch, input]; a layer reads what the last wrote.

    `mode` is `LSTM`, `GRU`, `RNN_TANH` or `RNN_RELU`. A bidirectional layer has a second cell that
    runs from the last step to the first; the two outputs are joined. Cells are numbered by layer,
    then direction. `weight_list` holds the matrices for input and hidden state of each cell, then
    the two biases of each cell. `pre_state` and `state` hold the hidden state, for an LSTM also the
    cell state, of all cells, [cells, batch, hidden].

    With `sequence_length`, a row's later steps write zeros and leave its state. Unless `is_test`,
    the input of every layer but the first passes a dropout of `dropout_prob`. `dropout_state_out`
    and `reserve` serve Paddle's gradient kernel and are empty.

    C1: `x` has three dimensions, the last of `input_size`.
    C2: `mode` is one of the four.
    C3: `pre_state` has two tensors for an LSTM and else one, each [cells, batch, hidden_size].
    C4: there is a layer, and `weight_list` has four tensors for each cell, whose rows are
    `hidden_size` for each gate.
    C5: `sequence_length` has one element for each row of the batch.
    """

    name = "pd_op.rnn"
    signature = (
        "x, pre_state[], weight_list[], sequence_length?, dropout_state_in ; "
        "dropout_prob: f32 = 0.0, is_bidirec: bool = False, input_size: i32 = 10, "
        'hidden_size: i32 = 100, num_layers: i32 = 1, mode: str = "RNN_TANH", seed: i32 = 0, '
        "is_test: bool = False -> out, dropout_state_out~, state[], reserve~"
    )
    dtypes = dt.FLOATS
    operand_dtypes = {"dropout_state_in": dt.ANY, "sequence_length": dt.INTS}
    reads_meta_only = ("dropout_state_in",)
    effects = RANDOM


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _lstm(from_input: Array, from_hidden: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    enter, forget, new, leave = np.split(from_input + from_hidden, 4, axis=-1)
    cell = _sigmoid(forget) * states[1] + _sigmoid(enter) * np.tanh(new)
    return _sigmoid(leave) * np.tanh(cell), cell


def _gru(from_input: Array, from_hidden: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    x_reset, x_keep, x_new = np.split(from_input, 3, axis=-1)
    h_reset, h_keep, h_new = np.split(from_hidden, 3, axis=-1)
    new = np.tanh(x_new + _sigmoid(x_reset + h_reset) * h_new)
    return (_sigmoid(x_keep + h_keep) * (states[0] - new) + new,)


def _tanh(from_input: Array, from_hidden: Array, _: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.tanh(from_input + from_hidden),)


def _relu(from_input: Array, from_hidden: Array, _: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.maximum(from_input + from_hidden, 0),)


class _Mode(Struct, frozen=True):
    step: Step
    gates: int
    states: int


_MODES: Final = {
    "LSTM": _Mode(_lstm, gates=4, states=2),
    "GRU": _Mode(_gru, gates=3, states=1),
    "RNN_TANH": _Mode(_tanh, gates=1, states=1),
    "RNN_RELU": _Mode(_relu, gates=1, states=1),
}


@infer_meta(Rnn)
def _(
    x: TensorMeta,
    pre_state: VecMeta,
    weight_list: VecMeta,
    sequence_length: TensorMeta | None,
    dropout_state_in: TensorMeta | None,
    *,
    is_bidirec: bool,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    mode: str,
    **_: object,
) -> tuple[TensorMeta, TensorMeta, VecMeta, TensorMeta]:
    require(
        x.rank == 3 and same_dim(x.shape[2], input_size),
        "C1",
        f"`x` of shape {show(x.shape)} is not [time, batch, {input_size}]",
    )
    require(mode in _MODES, "C2", f"mode `{mode}` is not in {list(_MODES)}")
    kind, directions = _MODES[mode], 2 if is_bidirec else 1
    cells = num_layers * directions
    time, batch = x.shape[:2]
    require(
        len(pre_state) == kind.states
        and all(_fits(s, (cells, batch, hidden_size)) for s in pre_state.items),
        "C3",
        f"`pre_state` is {pre_state}, expected {kind.states} of "
        f"{show((cells, batch, hidden_size))}",
    )
    rows = kind.gates * hidden_size
    require(
        num_layers > 0
        and len(weight_list) == 4 * cells
        and all(w.rank == (2 if i < 2 * cells else 1) for i, w in enumerate(weight_list.items))
        and all(same_dim(w.shape[0], rows) for w in weight_list.items),
        "C4",
        f"`weight_list` has not {2 * cells} matrices and {2 * cells} biases of {rows} rows, "
        f"for {num_layers} layers",
    )
    require(
        sequence_length is None or _fits(sequence_length, (batch,)),
        "C5",
        f"`sequence_length` has not {batch} elements",
    )
    empty = TensorMeta((0,), dt.float32)
    return x.with_shape((time, batch, hidden_size * directions)), empty, pre_state, empty


def _fits(meta: TensorMeta, shape: tuple[int, ...]) -> bool:
    return meta.rank == len(shape) and all(map(same_dim, meta.shape, shape))


@draws(Rnn)
def _(attrs: Mapping[str, Any]) -> bool:
    return attrs["dropout_prob"] > 0 and not attrs["is_test"] and attrs["num_layers"] > 1


@reference(Rnn)
def _(
    x: Array,
    pre_state: list[Array],
    weight_list: list[Array],
    sequence_length: Array | None,
    dropout_state_in: Array | None,
    *,
    dropout_prob: float,
    is_bidirec: bool,
    num_layers: int,
    mode: str,
    is_test: bool,
    rng: np.random.Generator,
    **_: object,
) -> tuple[Array, Array, list[Array], Array]:
    directions = 2 if is_bidirec else 1
    cells = num_layers * directions
    matrices, biases = weight_list[: 2 * cells], weight_list[2 * cells :]
    mask = _mask(sequence_length, x)
    value = widened(x)
    final: list[tuple[Array, ...]] = []
    for layer in range(num_layers):
        if layer and dropout_prob > 0 and not is_test:
            value = _dropout(value, dropout_prob, rng)
        outputs: list[Array] = []
        for cell in range(layer * directions, (layer + 1) * directions):
            weights = (*matrices[2 * cell : 2 * cell + 2], *biases[2 * cell : 2 * cell + 2])
            out, states = _run(
                _MODES[mode].step,
                value,
                tuple(widened(s[cell]) for s in pre_state),
                [widened(w) for w in weights],
                mask,
                backward=cell % directions == 1,
            )
            outputs.append(out)
            final.append(states)
        value = np.concatenate(outputs, axis=-1)
    state = [np.stack(s).astype(x.dtype, copy=False) for s in zip(*final, strict=True)]
    empty = np.zeros(0, np.float32)
    return value.astype(x.dtype, copy=False), empty, state, empty


def _mask(lengths: Array | None, x: Array) -> Array:
    """True where a row of the batch has not ended; [time, batch, 1]."""
    if lengths is None:
        return np.ones((*x.shape[:2], 1), np.bool_)
    return np.less.outer(np.arange(len(x)), lengths)[..., None]


def _dropout(x: Array, p: float, rng: np.random.Generator) -> Array:
    keep_mask = np.reshape(rng.random(x.size) >= p, x.shape)
    return np.where(keep_mask, x * (1 / (1 - p) if p < 1 else 0.0), 0).astype(x.dtype, copy=False)


def _run(
    step: Step,
    x: Array,
    states: tuple[Array, ...],
    weights: list[Array],
    mask: Array,
    *,
    backward: bool,
) -> tuple[Array, tuple[Array, ...]]:
    """Outputs of one cell for all steps, and its last states."""
    of_input, of_hidden, bias_input, bias_hidden = weights
    gates = x @ of_input.T + bias_input
    out = np.zeros((*x.shape[:2], states[0].shape[-1]), x.dtype)
    for t in reversed(range(len(x))) if backward else range(len(x)):
        new = step(gates[t], states[0] @ of_hidden.T + bias_hidden, states)
        states = tuple(np.where(mask[t], n, old) for n, old in zip(new, states, strict=True))
        out[t] = np.where(mask[t], new[0], 0)
    return out, states


def _sample(
    s: SampleMaker, mode: str, *, layers: int = 1, bidirec: bool = False, lengths: bool = False
) -> Sample:
    time, batch, inputs, hidden, directions = 4, 2, 3, 5, 2 if bidirec else 1
    cells, rows = layers * directions, _MODES[mode].gates * hidden
    matrices = [
        s.tensor(rows, columns, low=-1.0, high=1.0)
        for cell in range(cells)
        for columns in (inputs if cell < directions else hidden * directions, hidden)
    ]
    biases = [s.tensor(rows, low=-1.0, high=1.0) for _ in range(2 * cells)]
    states = [s.tensor(cells, batch, hidden) for _ in range(_MODES[mode].states)]
    return s(
        s.tensor(time, batch, inputs),
        states,
        [*matrices, *biases],
        s.array([time, 2], dt.int32) if lengths else None,
        s.array([], dt.uint8),
        is_bidirec=bidirec,
        input_size=inputs,
        hidden_size=hidden,
        num_layers=layers,
        mode=mode,
        is_test=True,
    )


@samples(Rnn)
def _(s: SampleMaker) -> Iterator[Sample]:
    yield _sample(s, "LSTM", layers=2)
    yield _sample(s, "LSTM", bidirec=True, lengths=True)
    yield _sample(s, "GRU", layers=2, bidirec=True)
    yield _sample(s, "GRU", lengths=True)
    drawn = _sample(s, "RNN_TANH", layers=2)
    yield drawn
    yield _sample(s, "RNN_RELU", layers=2, lengths=True)
    yield Sample(drawn.args, {**drawn.attrs, "dropout_prob": 0.5, "is_test": False})


@bad_samples(Rnn)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    good = _sample(s, "GRU", layers=2)
    x, states, weights, lengths, scratch = good.args
    yield "C1", Sample(good.args, {**good.attrs, "input_size": 4})
    yield "C2", Sample(good.args, {**good.attrs, "mode": "TANH"})
    yield "C3", Sample(good.args, {**good.attrs, "mode": "LSTM"})
    yield "C4", Sample((x, states, weights[:-1] if weights else [], lengths, scratch), good.attrs)
    none = {**good.attrs, "num_layers": 0}
    yield "C4", Sample((x, [s.tensor(0, 2, 5)], [], lengths, scratch), none)
    yield "C5", Sample((x, states, weights, s.array([1, 2, 3], dt.int32), scratch), good.attrs)
