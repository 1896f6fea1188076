"""Recurrent networks: loops over the steps, and what inputs add to the gates before them.

At most `MAX_UNROLLED` steps are written out. Where their number is not known, the op is not
decomposed, and neither is its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, may_draw
from pirkit.dialect.rules.loops import scan
from pirkit.dialect.rules.movement.size_ops import as_shape, sizes_of
from pirkit.dialect.rules.nn.dropout import drawn_above
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN

States = tuple[Value, ...]
Cell = Callable[[Builder, Value, Value, States], States]
"""Gates from the input, gates from the hidden state, old states -> new states, hidden first."""


def _lstm(b: Builder, from_input: Value, from_hidden: Value, states: States) -> States:
    enter, forget, new, leave = _parts(from_input + from_hidden, 4)
    cell = b.sigmoid(forget) * states[1] + b.sigmoid(enter) * b.tanh(new)
    return b.sigmoid(leave) * b.tanh(cell), cell


def _gru(b: Builder, from_input: Value, from_hidden: Value, states: States) -> States:
    x_reset, x_keep, x_new = _parts(from_input, 3)
    h_reset, h_keep, h_new = _parts(from_hidden, 3)
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
    if UNKNOWN in c.x.shape[:2] or not c.x.shape[0]:
        return NotImplemented
    x = b.wide(c.x)
    directions = 2 if c.is_bidirec else 1
    cells = layers * directions
    weights = [b.wide(w) for w in c.weight_list]
    starts = [b.wide(s) for s in c.pre_state]
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
            out, last = _run(c, x, own, states, backward=backward)
            outputs.append(out)
            final.append(last)
        x = b.concat(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
    states = [b.stack(list(s), axis=0) for s in zip(*final, strict=True)]
    empty = b.const(0.0, dt.float32, (0,))
    dtype = c.x.dtype
    return b.cast(x, dtype), empty, [b.cast(s, dtype) for s in states], empty


def _masked(c: OpCall, x: Value, layers: int, directions: int) -> Value | None:
    """True for what the dropout before each layer but the first keeps; None without one."""
    if not may_draw(c.definition, c.op.attribute_values()):
        return None
    b = c.b
    shape = [layers - 1, *sizes_of(b, x)[:2], c.hidden_size * directions]
    return drawn_above(b, c.dropout_prob, as_shape(b, shape), c.seed)


def _run(
    c: OpCall, x: Value, weights: Sequence[Value], states: States, *, backward: bool
) -> tuple[Value, States]:
    """Outputs of one cell for all steps, and its last states.

    One product computes what all inputs add to the gates, as in cuDNN (Appleyard et al.,
    arXiv:1604.01946); the loop multiplies by the weights of the hidden state only.
    """
    b = c.b
    if not x.shape[0]:  # no steps
        return b.const(0.0, x.dtype, (0, *states[0].shape)), states
    of_input, of_hidden, bias_input, bias_hidden = weights
    joined = c.mode != "GRU"  # the reset gate of a GRU scales the hidden state's bias as well
    bias = bias_input + bias_hidden if joined else bias_input
    gates = b.matmul(x, of_input, transpose_y=True) + bias
    lengths = c.sequence_length
    ends = None if lengths is None else b.reshape(lengths, (-1, 1))

    def step(t: Value, rows: Sequence[Value], states: States) -> tuple[States, list[Value]]:
        from_hidden = b.matmul(states[0], of_hidden, transpose_y=True)
        from_hidden = from_hidden if joined else from_hidden + bias_hidden
        new = _CELLS[c.mode](b, rows[0], from_hidden, states)
        if ends is None:
            return new, [new[0]]
        running = b.expand_like(b.greater_than(ends, b.cast(t, ends.dtype)), new[0])
        kept = [b.where(running, n, old) for n, old in zip(new, states, strict=True)]
        return tuple(kept), [b.where(running, new[0], b.zeros_like(new[0]))]

    last, (out,) = scan(b, step, states, [gates], reverse=backward)
    return out, tuple(last)


def _parts(x: Value, count: int) -> list[Value]:
    """Equal parts of the last axis. Slices, not a list of parts: they fuse with what reads them."""
    size = x.shape[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]
