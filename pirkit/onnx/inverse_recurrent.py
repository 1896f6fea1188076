"""Writes `pd_op.rnn` as LSTM, GRU and RNN of ONNX: one node for each layer.

Paddle's op holds all layers; ONNX's operator holds one, with the gates in another order and the
weights of both directions in one tensor. See `inverse` for what a writer is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.dialect.operation import PirOp
from pirkit.onnx.write_model import GraphWriter, writes

_FORMS: Final[dict[str, tuple[str, tuple[int, ...], dict[str, Any]]]] = {
    # mode: operator, for each gate of ONNX its position in Paddle's order, attributes
    "LSTM": ("LSTM", (0, 3, 1, 2), {}),
    "GRU": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "RNN_TANH": ("RNN", (0,), {"activations": ["Tanh"]}),
    "RNN_RELU": ("RNN", (0,), {"activations": ["Relu"]}),
}


@writes("rnn")
def _(w: GraphWriter, op: PirOp) -> Any:
    x, _, _, lengths, _ = op.operand_slots
    layers, hidden = int(op.attribute("num_layers")), int(op.attribute("hidden_size"))
    directions = 2 if op.attribute("is_bidirec") else 1
    if not op.attribute("is_test") and op.attribute("dropout_prob") > 0 and layers > 1:
        raise w.unsupported(op, "is training")
    if any(v is not None and v.uses for v in (op.result_slots[1], op.result_slots[3])):
        raise w.unsupported(op, "has a result without a form in ONNX")
    kind, order, attributes = _FORMS[str(op.attribute("mode"))]
    rows = w.integers([g * hidden + i for g in order for i in range(hidden)])
    states, weights = (w(op.operand_named(name)) for name in ("pre_state", "weight_list"))
    length = "" if lengths is None else w.node("Cast", w(lengths), to=6)  # INT32
    if directions == 2:
        attributes = {**attributes, "direction": "bidirectional"}
        if "activations" in attributes:
            attributes["activations"] = attributes["activations"] * 2

    def of_layer(layer: int, first: int) -> str:
        """The weights of a layer, ``[directions, gates * hidden, ...]``, gates in ONNX's order.

        ``first`` is the position of the first such weight in Paddle's list, in which those of input
        and state alternate.
        """
        cells = range(layer * directions, (layer + 1) * directions)
        each = [w.node("Gather", weights[first + 2 * c], rows, axis=0) for c in cells]
        return w.node("Concat", *(w.node("Unsqueeze", v, w.integers([0])) for v in each), axis=0)

    def of_state(state: str, layer: int) -> str:
        bounds = ([layer * directions], [(layer + 1) * directions], [0])
        return w.node("Slice", state, *map(w.integers, bounds))

    value, matrices = w(x), 2 * layers * directions
    finals: list[tuple[str, ...]] = []
    for layer in range(layers):
        w_r = (of_layer(layer, 0), of_layer(layer, 1))
        biases = [of_layer(layer, matrices + k) for k in (0, 1)]
        out, *final = w.node(
            kind, value, *w_r, w.node("Concat", *biases, axis=1), length,
            *(of_state(s, layer) for s in states),
            outputs=1 + len(states), hidden_size=hidden, **attributes,
        )  # fmt: skip
        joined = w.node("Transpose", out, perm=(0, 2, 1, 3))
        value = w.node("Reshape", joined, w.integers([0, 0, directions * hidden]))
        finals.append(tuple(final))
    state = [w.node("Concat", *each, axis=0) for each in zip(*finals, strict=True)]
    empty = w.constant(np.zeros(0, np.float32))
    return value, empty, state, empty
