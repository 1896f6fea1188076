"""Recurrent layers, unrolled: the number of steps is a size of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.onnx.node_builder import NodeBuilder
from pirkit.onnx.rules import rule

_DEFAULTS: Final = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"),
                    "LSTM": ("Sigmoid", "Tanh", "Tanh")}  # fmt: skip
_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS: Final[dict[str, Callable[[NodeBuilder, Value], Value]]] = {
    "Relu": lambda b, x: b.relu(x),
    "Tanh": lambda b, x: b.tanh(x),
    "Sigmoid": lambda b, x: b.sigmoid(x),
    "Softsign": lambda b, x: b.softsign(x),
    "Softplus": lambda b, x: b.softplus(x),
}


class _Cell:
    """One direction of a layer: its weights, cut by direction, and its functions."""

    def __init__(self, b: NodeBuilder, kind: str, names: Sequence[str], given: dict[str, Any],
                 hidden: int, clip: float | None, reset_first: bool) -> None:  # fmt: skip
        self.b, self.kind, self.hidden, self.clip = b, kind, hidden, clip
        self.reset_first = reset_first
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
        """All steps times the input weights at once."""
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
        if self.reset_first:
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
        steps, batch, _ = b.static(x)
        hidden = r.shape[-1]
        two = 2 if direction == "bidirectional" else 1
        names = list(activations or _DEFAULTS[kind] * two)
        each = len(names) // two
        outs: list[Value] = []
        lasts: list[Value] = []
        cells: list[Value] = []
        for d in range(two):
            given = {k: None if v is None else b.at(v, 0, d)
                     for k, v in (("w", w), ("r", r), ("b", bias), ("p", peep))}  # fmt: skip
            cell = _Cell(b, kind, names[d * each : (d + 1) * each], given, hidden, clip,
                         bool(linear_before_reset))  # fmt: skip
            zero = b.const(0.0, x.dtype, (batch, hidden))
            h = zero if h0 is None else b.at(h0, 0, d)
            c = None if kind != "LSTM" else zero if c0 is None else b.at(c0, 0, d)
            inputs = cell.projected(x)
            rows: list[Value] = [zero] * steps
            backward = direction == "reverse" or d == 1
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
        ends = [b.concat(v, 0) for v in (lasts, cells) if v]
        if layout:
            whole = b.permute(whole, (2, 0, 1, 3))
            ends = [b.permute(v, (1, 0, 2)) for v in ends]
        return (whole, *ends)

    return emit


for _kind in _GATES:
    rule(_kind)(_layer(_kind))
