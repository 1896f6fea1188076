"""Networks of the corpus, written in `pirkit.ops`: they train by Paddle's numbers, and every
operation of their training steps names a line of this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.dialect.operation import span_of
from tests.frontend.test_to_static_networks import Recorded


def linear(p: Any, number: int, x: Any) -> Any:
    return ops.add(ops.matmul(x, p[f"linear_{number}.w_0"]), p[f"linear_{number}.b_0"])


def conv(p: Any, number: int, x: Any, **options: Any) -> Any:
    made = ops.conv2d(x, p[f"conv2d_{number}.w_0"], **options)
    return made + ops.reshape(p[f"conv2d_{number}.b_0"], [1, -1, 1, 1])


def norm(p: Any, number: int, x: Any, **options: Any) -> Any:
    gain, bias = (p[f"layer_norm_{number}.{k}_0"] for k in "wb")
    return ops.layer_norm(x, gain, bias, **options)


def mlp(p: Any, x: Any) -> Any:
    for number in range(2):
        x = ops.tanh(linear(p, number, x))
    return (linear(p, 2, x),)


def lenet(p: Any, x: Any) -> Any:
    x = ops.relu(conv(p, 0, x, paddings=[2, 2]))
    x = ops.pool2d(x, [2, 2], strides=[2, 2], pooling_type="max")
    x = ops.sigmoid(conv(p, 1, x))
    x = ops.pool2d(x, [2, 2], strides=[2, 2], pooling_type="avg")
    x = ops.flatten(x, start_axis=1, stop_axis=3)
    return (linear(p, 1, ops.relu(linear(p, 0, x))),)


def embedding_ce(p: Any, words: Any, labels: Any) -> Any:
    x = ops.relu(ops.embedding(words, p["embedding_0.w_0"], padding_idx=0))
    logits = linear(p, 0, x)
    _, losses = ops.cross_entropy_with_softmax(logits, ops.unsqueeze(labels, [-1]))
    return ops.mean(losses), logits


def layer_norm_gelu(p: Any, x: Any) -> Any:
    hidden = ops.gelu(linear(p, 0, norm(p, 0, x, begin_norm_axis=2)))
    y = norm(p, 1, x + linear(p, 1, hidden), begin_norm_axis=1, epsilon=1e-6)
    return y, ops.sum(ops.gelu(y, approximate=True), [-1])


def transformer_encoder(p: Any, x: Any) -> Any:
    def heads(y: Any) -> Any:
        return ops.transpose(ops.reshape(y, [2, 6, 2, 8]), [0, 2, 1, 3])

    q, k, v = (heads(linear(p, number, x)) for number in range(3))
    weights = ops.softmax(ops.matmul(q * 8**-0.5, k, transpose_y=True))
    mixed = ops.reshape(ops.transpose(ops.matmul(weights, v), [0, 2, 1, 3]), [2, 6, 16])
    x = norm(p, 0, x + linear(p, 3, mixed), begin_norm_axis=2)
    x = x + linear(p, 5, ops.relu(linear(p, 4, x)))
    return (norm(p, 1, x, begin_norm_axis=2),)


NETWORKS: Final[dict[str, Callable[..., Any]]] = {
    f.__name__: f for f in (mlp, lenet, embedding_ce, layer_norm_gelu, transformer_encoder)
}


def step(network: Callable[..., Any], rate: float) -> Callable[..., Any]:
    def trained(params: Any, seeds: Any, *inputs: Any) -> Any:
        found, pullback = pirkit.vjp(lambda p: network(p, *inputs), params)
        (slopes,) = pullback(seeds)
        return found, slopes, pirkit.tree.map(lambda p, g: p - rate * g, params, slopes)

    return trained


def close(recorded: Recorded, found: Any, expected: Any) -> None:
    """By the tolerance of the folder: some slopes are zero but for rounding."""
    allowed = recorded.meta["tolerance"]
    scale = np.abs(expected).max(initial=0) + allowed["floor"]
    assert np.abs(np.asarray(found) - expected).max(initial=0) <= allowed["rtol"] * scale


@pytest.mark.parametrize("name", NETWORKS)
def test_training_by_the_numbers_of_paddle(name: str) -> None:
    recorded = Recorded(name)
    train = step(NETWORKS[name], recorded.meta["learning_rate"])
    compiled, params = pirkit.jit(train), recorded.params
    for at in ("step1/", "step2/"):
        inputs = list(recorded.table("inputs", at).values())
        seeds = tuple(recorded.table("output_grads", at).values())
        found, slopes, params = compiled(params, seeds, *inputs)
        for i, expected in recorded.table("outputs", at).items():
            close(recorded, found[int(i)], expected)
        for k, expected in recorded.table("param_grads", at).items():
            close(recorded, slopes[k], expected)
    program = pirkit.run_passes(pirkit.trace(train, params, seeds, *inputs), "@default")
    every = [op for op in program.entry(None).block.walk() if op.name != "pd_op.data"]
    named = [s for op in every if (s := span_of(op)) is not None and s.file == __file__]
    outside = [op for op in every if op.name == "pir.shadow_output"]
    assert len(named) >= 0.99 * (len(every) - len(outside)) > 5
