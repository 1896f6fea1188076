"""Recurrent networks, step by step.

The number of steps has to be known. Where it is not, the op is not decomposed, and so does its
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, may_draw
from pirkit.dialect.rules.movement.sizes import as_shape, sizes_of
from pirkit.dialect.rules.nn.dropout import drawn_above
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

States = tuple[Value, ...]
Cell = Callable[[Builder, Value, Value, States], States]
"""Gates from the input, gates from the hidden state, old states -> new states, hidden first."""


def _lstm(b: Builder, from_input: Value, from_hidden: Value, states: States) -> States:
    enter, forget, new, leave = _parts(b, from_input + from_hidden, 4)
    cell = b.sigmoid(forget) * states[1] + b.sigmoid(enter) * b.tanh(new)
    return b.sigmoid(leave) * b.tanh(cell), cell


def _gru(b: Builder, from_input: Value, from_hidden: Value, states: States) -> States:
    x_reset, x_keep, x_new = _parts(b, from_input, 3)
    h_reset, h_keep, h_new = _parts(b, from_hidden, 3)
    new = b.tanh(x_new + b.sigmoid(x_reset + h_reset) * h_new)
    return (b.sigmoid(x_keep + h_keep) * (states[0] - new) + new,)


_CELLS: Final[dict[str, Cell]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda b, x, h, _: (b.tanh(x + h),),
    "RNN_RELU": lambda b, x, h, _: (b.relu(x + h),),
}


@decompose("pd_op.rnn")
def _(c: OpCall) -> Any:
    """Layers one after the other, each direction on its own; rows that have ended keep their state.

    The numbers of the dropouts between layers are one draw, as in the whole op.
    """
    b, layers = c.b, c.num_layers
    steps = c.x.shape[0]
    if steps == UNKNOWN:
        return NotImplemented
    x = b.wide(c.x)
    directions = 2 if c.is_bidirec else 1
    cells = layers * directions
    weights = [b.wide(w) for w in c.weight_list]
    starts = [b.wide(s) for s in c.pre_state]
    running = _running(c, steps)
    mask_bits = _masked(c, x, layers, directions)
    final: list[States] = []
    for layer in range(layers):
        if mask_bits is not None and layer:
            share = 1 - c.dropout_prob
            x = b.where(
                mask_bits[layer - 1], b.scaled(x, 1 / share if share else 0.0), b.zeros_like(x)
            )
        outputs: list[Value] = []
        for cell in range(layer * directions, (layer + 1) * directions):
            at = 2 * cell
            own = (*weights[at : at + 2], *weights[2 * cells + at : 2 * cells + at + 2])
            states = tuple([s[cell] for s in starts])
            backward = cell % directions == 1
            out, last = _run(c, x, own, states, running, backward=backward)
            outputs.append(out)
            final.append(last)
        x = b.concat(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
    states = [b.stack(list(s), axis=0) for s in zip(*final, strict=True)]
    empty = b.const(0.0, dt.float32, (0,))
    dtype = c.x.dtype
    return b.cast(x, dtype), empty, [b.cast(s, dtype) for s in states], empty


def _masked(c: OpCall, x: Value, layers: int, directions: int) -> Value | None:
    """True for what the dropout in front of each layer but the first keeps; None without one."""
    if not may_draw(c.definition, c.op.attribute_values()):
        return None
    b = c.b
    shape = [layers - 1, *sizes_of(b, x)[:2], c.hidden_size * directions]
    return drawn_above(b, c.dropout_prob, as_shape(b, shape), c.seed)


def _run(
    c: OpCall,
    x: Value,
    weights: Sequence[Value],
    states: States,
    running: Sequence[Value] | None,
    *,
    backward: bool,
) -> tuple[Value, States]:
    """Outputs of one cell for all steps, and its last states."""
    b = c.b
    of_input, of_hidden, bias_input, bias_hidden = weights
    steps = x.shape[0]
    gates = b.matmul(x, of_input, transpose_y=True) + bias_input
    out: list[Value] = [gates] * steps
    for t in reversed(range(steps)) if backward else range(steps):
        from_hidden = b.matmul(states[0], of_hidden, transpose_y=True) + bias_hidden
        new = _CELLS[c.mode](b, gates[t], from_hidden, states)
        out[t] = new[0]
        if running is not None:
            out[t] = b.where(running[t], new[0], b.zeros_like(new[0]))
            new = tuple([b.where(running[t], n, o) for n, o in zip(new, states, strict=True)])
        states = new
    return b.stack(out, axis=0), states


def _running(c: OpCall, steps: int) -> list[Value] | None:
    """For each step, which rows of the batch have not ended: [batch, hidden]."""
    b, lengths = c.b, c.sequence_length
    if lengths is None:
        return None
    like = c.pre_state[0][0]
    rows = b.reshape(lengths, (-1, 1))
    return [b.expand_like(b.greater_than(rows, b.value(t, lengths)), like) for t in range(steps)]


def _parts(b: Builder, x: Value, count: int) -> Sequence[Value]:
    return b.split_vec(b.split_with_num(x, num=count, axis=-1))
