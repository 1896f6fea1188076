"""Recurrent layers: the share of the inputs in the gates is one matmul for all steps.

A sigmoid is ``(1 + tanh(x / 2)) / 2``; the half is multiplied into the weights (which is exact), so
that all gates of an LSTM pass one call of tanh.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.registry import kernel

Advance = Callable[[Array, Array, list[Array]], None]
"""Takes the gates from the input, those from the hidden state, and the states, which it changes."""


class _Mode(Struct, frozen=True):
    """A kind of cell. ``halved`` are the gates that are sigmoids.

    If ``joined``, both biases are added before the loop over time. In a GRU they are not, as its
    reset gate multiplies the hidden bias.
    """

    gates: int
    halved: tuple[int, ...]
    joined: bool
    make: Callable[[Binding, int, int], Advance]


def _lstm(b: Binding, batch: int, hidden: int) -> Advance:
    """Gates in the order in, forget, new, out; states hidden and cell."""
    xp = b.xp
    term = b.workspace((batch, hidden))
    first, new, leave = (
        slice(0, 2 * hidden),
        slice(2 * hidden, 3 * hidden),
        slice(3 * hidden, 4 * hidden),
    )

    def advance(entered: Array, gates: Array, states: list[Array]) -> None:
        state, cell = states
        xp.add(gates, entered, gates)
        xp.tanh(gates, gates)
        for sigmoid in (gates[:, first], gates[:, leave]):
            xp.multiply(sigmoid, 0.5, sigmoid)
            xp.add(sigmoid, 0.5, sigmoid)
        xp.multiply(cell, gates[:, hidden : 2 * hidden], cell)
        xp.multiply(gates[:, :hidden], gates[:, new], term)
        xp.add(cell, term, cell)
        xp.tanh(cell, term)
        xp.multiply(gates[:, leave], term, state)

    return advance


def _gru(b: Binding, batch: int, hidden: int) -> Advance:
    """Gates in the order reset, keep, new."""
    xp = b.xp
    both, new = slice(0, 2 * hidden), slice(2 * hidden, 3 * hidden)

    def advance(entered: Array, gates: Array, states: list[Array]) -> None:
        state = states[0]
        sigmoids, value = gates[:, both], gates[:, new]
        xp.add(sigmoids, entered[:, both], sigmoids)
        xp.tanh(sigmoids, sigmoids)
        xp.multiply(sigmoids, 0.5, sigmoids)
        xp.add(sigmoids, 0.5, sigmoids)
        xp.multiply(value, gates[:, :hidden], value)
        xp.add(value, entered[:, new], value)
        xp.tanh(value, value)
        xp.subtract(state, value, state)
        xp.multiply(state, gates[:, hidden : 2 * hidden], state)
        xp.add(state, value, state)

    return advance


def _tanh(b: Binding, batch: int, hidden: int) -> Advance:
    xp = b.xp

    def advance(entered: Array, gates: Array, states: list[Array]) -> None:
        xp.add(gates, entered, gates)
        xp.tanh(gates, states[0])

    return advance


def _relu(b: Binding, batch: int, hidden: int) -> Advance:
    xp = b.xp

    def advance(entered: Array, gates: Array, states: list[Array]) -> None:
        xp.add(gates, entered, gates)
        xp.maximum(gates, 0, out=states[0])

    return advance


_MODES: Final = {
    "LSTM": _Mode(4, (0, 1, 3), joined=True, make=_lstm),
    "GRU": _Mode(3, (0, 1), joined=False, make=_gru),
    "RNN_TANH": _Mode(1, (), joined=True, make=_tanh),
    "RNN_RELU": _Mode(1, (), joined=True, make=_relu),
}


@kernel("rnn", dtypes=dt.FLOATS, widen=True)
def rnn(b: Binding) -> Step | None:
    """Without dropout, which draws random numbers: that is the reference rule's."""
    layers: int = b.attrs["num_layers"]
    if layers > 1 and b.attrs["dropout_prob"] > 0 and not b.attrs["is_test"]:
        return None
    time, batch, _ = b.input().shape
    if not time * batch:
        return None
    hidden: int = b.attrs["hidden_size"]
    directions = 2 if b.attrs["is_bidirec"] else 1
    cells = layers * directions
    run = _Cell(b, _MODES[b.attrs["mode"]], time, batch, hidden).run
    values = [b.workspace((time, batch, hidden * directions)) for _ in range(min(layers - 1, 2))]
    last = b.workspace((time, batch, hidden * directions)) if b.outputs[0] is None else None
    xp = b.xp

    def step(
        x: Array,
        before: list[Array],
        weights: list[Array],
        lengths: Array | None,
        _dropout: Array | None,
        out: Array | None,
        _dropout_out: Array | None,
        after: list[Array] | None,
        _reserve: Array | None,
    ) -> None:
        keep_mask = None if lengths is None else xp.less.outer(xp.arange(time), lengths)[..., None]
        value = x
        for layer in range(layers):
            target: Any = values[layer % 2] if layer < layers - 1 else last if out is None else out
            for direction in range(directions):
                cell = layer * directions + direction
                states = run(
                    value,
                    [s[cell] for s in before],
                    [weights[2 * at + k] for at in (cell, cells + cell) for k in range(2)],
                    keep_mask,
                    target[..., direction * hidden : (direction + 1) * hidden],
                    direction == 1,
                )
                if after is not None:
                    for goal, state in zip(after, states, strict=True):
                        goal[cell] = state
            value = target

    return step


class _Cell:
    """Runs one cell; its scratch memory serves all cells of the op in turn."""

    def __init__(self, b: Binding, mode: _Mode, time: int, batch: int, hidden: int) -> None:
        rows = mode.gates * hidden
        self._xp = b.xp
        self._mode = mode
        self._hidden = hidden
        self._entered = b.workspace((time, batch, rows))
        self._gates = b.workspace((batch, rows))
        self._recurrent = b.workspace((rows, hidden))
        self._states = [b.workspace((batch, hidden)) for _ in range(2)]
        self._old = [b.workspace((batch, hidden)) for _ in range(2)]
        self._advance = mode.make(b, batch, hidden)

    def _halve(self, array: Array) -> None:
        """Multiply the last dimension's sigmoid gates by a half."""
        for gate in self._mode.halved:
            part = array[..., gate * self._hidden : (gate + 1) * self._hidden]
            self._xp.multiply(part, 0.5, part)

    def run(
        self,
        x: Array,
        before: list[Array],
        weights: list[Array],
        keep_mask: Array | None,
        out: Array,
        backward: bool,
    ) -> list[Array]:
        """All steps of one cell; ``out`` takes the hidden states. Returns the last states."""
        xp, gates, entered = self._xp, self._gates, self._entered
        of_input, of_hidden, bias_input, bias_hidden = weights
        time, batch, width = x.shape
        xp.matmul(x.reshape(time * batch, width), of_input.T, entered.reshape(time * batch, -1))
        xp.add(entered, bias_input + bias_hidden if self._mode.joined else bias_input, entered)
        self._halve(entered)
        xp.copyto(self._recurrent, of_hidden)
        self._halve(self._recurrent.T)
        bias = xp.array(bias_hidden)
        self._halve(bias)
        states = self._states[: len(before)]
        for state, first in zip(states, before, strict=True):
            xp.copyto(state, first)
        factor = self._recurrent.T
        for t in reversed(range(time)) if backward else range(time):
            xp.matmul(states[0], factor, gates)
            if not self._mode.joined:
                xp.add(gates, bias, gates)
            if keep_mask is None:
                self._advance(entered[t], gates, states)
                xp.copyto(out[t], states[0])
            else:
                self._masked(entered[t], states, keep_mask[t], out[t])
        return states

    def _masked(self, entered: Array, states: list[Array], keep_mask: Array, out: Array) -> None:
        """A step in which rows that have ended keep their states and give zeros."""
        xp, ended = self._xp, ~keep_mask
        for old, state in zip(self._old, states, strict=False):
            xp.copyto(old, state)
        self._advance(entered, self._gates, states)
        xp.copyto(out, states[0])
        xp.copyto(out, 0, where=ended)
        for old, state in zip(self._old, states, strict=False):
            xp.copyto(state, old, where=ended)
