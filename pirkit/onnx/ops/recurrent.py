"""Recurrent layers: RNN, GRU and LSTM, with shapes as in ONNX.

`pd_op.rnn`, a loop, computes the usual functions. Other functions, bounds (``clip``), peepholes,
GRUs that reset before the matmul, and reversed layers with lengths are unrolled, for which the
number of steps must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule
from pirkit.runtime.meta import UNKNOWN

_DEFAULTS: Final = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"),
                    "LSTM": ("Sigmoid", "Tanh", "Tanh")}  # fmt: skip
"""The activation functions of one direction, where a node does not state them."""
_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS: Final[dict[str, Callable[[NodeBuilder, Value], Value]]] = {
    "Relu": lambda b, x: b.relu(x),
    "Tanh": lambda b, x: b.tanh(x),
    "Sigmoid": lambda b, x: b.sigmoid(x),
    "Softsign": lambda b, x: b.softsign(x),
    "Softplus": lambda b, x: b.softplus(x),
}

_MODES: Final[dict[tuple[str, tuple[str, ...], bool], tuple[str, tuple[int, ...]]]] = {
    # (operator, functions, linear_before_reset): (mode of `pd_op.rnn`, ONNX's gates in its order)
    ("LSTM", ("Sigmoid", "Tanh", "Tanh"), False): ("LSTM", (0, 2, 3, 1)),
    ("GRU", ("Sigmoid", "Tanh"), True): ("GRU", (1, 0, 2)),
    ("RNN", ("Tanh",), False): ("RNN_TANH", (0,)),
    ("RNN", ("Relu",), False): ("RNN_RELU", (0,)),
}


def _looped(
    b: NodeBuilder, mode: str, order: Sequence[int], x: Value, weights: Sequence[Value | None],
    lengths: Value | None, starts: Sequence[Value | None], *, reverse: bool,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """`pd_op.rnn` of one layer: outputs ``[steps, directions, batch, hidden]``, last states."""
    w, r, bias = weights
    assert w is not None
    assert r is not None
    directions, hidden, batch = r.shape[0], r.shape[-1], x.shape[1]
    gates = len(order) * hidden

    def rows(v: Value, first: int = 0) -> Value:
        parts = [b.cut(v, 0, first + g * hidden, first + (g + 1) * hidden) for g in order]
        return b.concat(parts, 0)

    matrices = [rows(b.at(v, 0, d)) for d in range(directions) for v in (w, r)]
    zeros = b.const(0.0, x.dtype, (gates,)) if bias is None else None
    biases = [zeros if bias is None else rows(b.at(bias, 0, d), k * gates)
              for d in range(directions) for k in range(2)]  # fmt: skip
    states = [_zeros(b, x, (directions, batch, hidden)) if v is None else v for v in starts]
    out, _, last, _ = b(
        "pd_op.rnn", b.flip(x, axis=(0,)) if reverse else x, states, [*matrices, *biases], lengths,
        b.const(0.0, x.dtype, (1,)), is_bidirec=directions == 2, input_size=x.shape[2],
        hidden_size=hidden, mode=mode, is_test=True,
    )  # fmt: skip
    out = b.flip(out, axis=(0,)) if reverse else out
    shape = [0 if n == UNKNOWN else n for n in (x.shape[0], batch)]  # 0 takes the size over
    split = b.reshape(out, (*shape, directions, hidden))
    return b.permute(split, (0, 2, 1, 3)), list(b.split_vec(last))


def _zeros(b: NodeBuilder, x: Value, shape: tuple[int, int, int]) -> Value:
    """Initial states. An unknown batch size is computed: it is that of the second axis of ``x``."""
    if UNKNOWN not in shape:
        return b.const(0.0, x.dtype, shape)
    first, _, last = (b.array(np.asarray([n], np.int64)) for n in shape)
    sizes = b.concat([first, b.cut(b.shape64(x), 0, 1, 2), last], 0)
    return b.full_with_tensor(b.const(0.0, x.dtype), shape=sizes, dtype=x.dtype)


class _Cell:
    """One direction of a layer: its weights and functions.

    ``given`` has the weights of ONNX without the dimension of directions: ``w`` ``[gates * hidden,
    input]``, ``r`` ``[gates * hidden, hidden]``, ``b`` ``[2 * gates * hidden]``, ``p`` (peepholes).
    """

    def __init__(self, b: NodeBuilder, kind: str, names: Sequence[str], given: dict[str, Any],
                 hidden: int, clip: float | None, resets_product: bool) -> None:  # fmt: skip
        self.b, self.kind, self.hidden, self.clip = b, kind, hidden, clip
        self.resets_product = resets_product
        unknown = [n for n in names if n not in _FUNCTIONS]
        if unknown:
            raise b.unsupported(f"with the function {unknown[0]} has no rule")
        self.functions = [_FUNCTIONS[n] for n in names]
        self.w, self.r, self.peep = given["w"], given["r"], given["p"]
        gates, bias = _GATES[kind], given["b"]
        self.wb = None if bias is None else b.cut(bias, 0, 0, gates * hidden)
        self.rb = None if bias is None else b.cut(bias, 0, gates * hidden, 2 * gates * hidden)

    def bounded(self, x: Value) -> Value:
        if not self.clip:
            return x
        b = self.b
        return b.minimum(b.maximum(x, b.scalar(-self.clip, x)), b.scalar(self.clip, x))

    def call(self, number: int, x: Value) -> Value:
        return self.functions[number](self.b, self.bounded(x))

    def gate(self, x: Value, number: int) -> Value:
        return self.b.cut(x, x.rank - 1, number * self.hidden, (number + 1) * self.hidden)

    def projected(self, x: Value) -> Value:
        """The input weights applied to all steps in one matmul."""
        found = self.b.matmul(x, self.w, transpose_y=True)
        return found if self.wb is None else self.b.add(found, self.wb)

    def recurred(self, h: Value) -> Value:
        found = self.b.matmul(h, self.r, transpose_y=True)
        return found if self.rb is None else self.b.add(found, self.rb)

    def step(self, x: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
        return {"RNN": self.rnn, "GRU": self.gru, "LSTM": self.lstm}[self.kind](x, h, c)

    def rnn(self, x: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
        return self.call(0, self.b.add(x, self.recurred(h))), None

    def gru(self, x: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
        b, n = self.b, self.hidden
        if self.resets_product:
            rest = self.recurred(h)
            z = self.call(0, b.add(self.gate(x, 0), self.gate(rest, 0)))
            r = self.call(0, b.add(self.gate(x, 1), self.gate(rest, 1)))
            inner = b.add(self.gate(x, 2), b.multiply(r, self.gate(rest, 2)))
        else:
            weights = b.cut(self.r, 0, 0, 2 * n)
            rest = b.matmul(h, weights, transpose_y=True)
            rest = rest if self.rb is None else b.add(rest, b.cut(self.rb, 0, 0, 2 * n))
            z = self.call(0, b.add(self.gate(x, 0), self.gate(rest, 0)))
            r = self.call(0, b.add(self.gate(x, 1), self.gate(rest, 1)))
            last = b.matmul(b.multiply(r, h), b.cut(self.r, 0, 2 * n, 3 * n), transpose_y=True)
            last = last if self.rb is None else b.add(last, b.cut(self.rb, 0, 2 * n, 3 * n))
            inner = b.add(self.gate(x, 2), last)
        new = self.call(1, inner)
        return b.add(b.multiply(b.subtract(b.ones_like(z), z), new), b.multiply(z, h)), None

    def lstm(self, x: Value, h: Value, c: Value | None) -> tuple[Value, Value | None]:
        b = self.b
        assert c is not None
        total = b.add(x, self.recurred(h))
        i, o, f, g = (self.gate(total, k) for k in range(4))
        if self.peep is not None:
            i = b.add(i, b.multiply(self.gate(self.peep, 0), c))
            f = b.add(f, b.multiply(self.gate(self.peep, 2), c))
        i, f = self.call(0, i), self.call(0, f)
        cell = b.add(b.multiply(f, c), b.multiply(i, self.call(1, g)))
        if self.peep is not None:
            o = b.add(o, b.multiply(self.gate(self.peep, 1), cell))
        return b.multiply(self.call(0, o), self.functions[2](b, cell)), cell


def _unrolled(
    b: NodeBuilder, kind: str, names: Sequence[str], x: Value, given: Mapping[str, Value | None],
    lengths: Value | None, starts: Sequence[Value | None], *, clip: float | None,
    resets_product: bool, reverse: bool,
) -> tuple[Value, list[Value]]:  # fmt: skip
    """The same as `_looped`, with the ops of each step."""
    recurrent, (h0, c0) = given["r"], starts
    assert recurrent is not None
    (steps, batch, _), (two, _, hidden) = b.static(x), recurrent.shape
    each = len(names) // two
    outs: list[Value] = []
    lasts: list[Value] = []
    cells: list[Value] = []
    for d in range(two):
        own = {k: None if v is None else b.at(v, 0, d) for k, v in given.items()}
        functions = names[d * each : (d + 1) * each]
        cell = _Cell(b, kind, functions, own, hidden, clip, resets_product)
        zero = b.const(0.0, x.dtype, (batch, hidden))
        h = zero if h0 is None else b.at(h0, 0, d)
        c = None if kind != "LSTM" else zero if c0 is None else b.at(c0, 0, d)
        inputs = cell.projected(x)
        rows: list[Value] = [zero] * steps
        backward = reverse or d == 1
        for t in range(steps)[:: -1 if backward else 1]:
            new, state = cell.step(b.at(inputs, 0, t), h, c)
            row = new
            if lengths is not None:
                alive = b.unsqueezed(b.greater_than(lengths, b.const(t, lengths.dtype)), (1,))
                row = b.where(alive, new, zero)
                new = b.where(alive, new, h)
                state = None if state is None or c is None else b.where(alive, state, c)
            h, c, rows[t] = new, state, row
        outs.append(b.concat([b.unsqueezed(v, (0,)) for v in rows], 0))
        lasts.append(b.unsqueezed(h, (0,)))
        cells += [] if c is None else [b.unsqueezed(c, (0,))]
    whole = b.concat([b.unsqueezed(v, (1,)) for v in outs], 1)
    return whole, [b.concat(v, 0) for v in (lasts, cells) if v]


def _layer(kind: str) -> Callable[..., Any]:
    def emit(
        b: NodeBuilder, x: Value, w: Value, r: Value, bias: Value | None = None,
        lengths: Value | None = None, h0: Value | None = None, c0: Value | None = None,
        peep: Value | None = None, activations: Sequence[str] | None = None,
        activation_alpha: Any = None, activation_beta: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int = 0, input_forget: int = 0,
        layout: int = 0, linear_before_reset: int = 0, output_sequence: int = 0,
    ) -> Any:  # fmt: skip
        if input_forget or activation_alpha or activation_beta:
            raise b.unsupported("with coupled gates or parameters of functions has no rule")
        if layout:
            x = b.permute(x, (1, 0, 2))
            h0, c0 = (v if v is None else b.permute(v, (1, 0, 2)) for v in (h0, c0))
        two = 2 if direction == "bidirectional" else 1
        names = list(activations or _DEFAULTS[kind] * two)
        each = len(names) // two
        apart = {tuple(names[d * each : (d + 1) * each]) for d in range(two)}
        known = [_MODES.get((kind, n, kind == "GRU" and bool(linear_before_reset))) for n in apart]
        reverse = direction == "reverse"
        if (
            len(known) == 1 and known[0] is not None and x.dtype.is_float
            and not clip and peep is None and not (reverse and lengths is not None)
        ):  # fmt: skip
            starts = (h0, c0)[: 2 if kind == "LSTM" else 1]
            weights = (w, r, bias)
            whole, ends = _looped(b, *known[0], x, weights, lengths, starts, reverse=reverse)
        else:
            weights = {"w": w, "r": r, "b": bias, "p": peep}
            whole, ends = _unrolled(
                b, kind, names, x, weights, lengths, (h0, c0), clip=clip,
                resets_product=bool(linear_before_reset), reverse=reverse,
            )  # fmt: skip
        if layout:
            whole = b.permute(whole, (2, 0, 1, 3))
            ends = [b.permute(v, (1, 0, 2)) for v in ends]
        return (whole, *ends)

    return emit


for _kind in _GATES:
    rule(_kind)(_layer(_kind))
