"""A captured program as one operation of a dynamic framework: forward, backward, update.

python examples/embedding.py

The framework is the smallest that deserves the name: tensors with gradients, a tape of nodes, and
one operation of its own. What it captured is a convolution net with batch norm, which writes its
running statistics in place; ``docs/embedding.md`` explains the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pirkit
from pirkit import DenseTensor
from pirkit.split import RunnableProgram

CAPTURED = Path(__file__).parents[1] / "tests" / "corpus" / "paddle" / "conv_bn_train"
STEPS = 40
RATE = np.float32(0.2)

Back = Callable[[Sequence[DenseTensor | None]], Sequence[DenseTensor | None]]


# --- the framework -------------------------------------------------------------------------------


@dataclass(eq=False)
class Tensor:
    """Elements, their gradient, and the node that made them."""

    value: DenseTensor
    grad: DenseTensor | None = None
    node: Node | None = None


@dataclass(eq=False)
class Node:
    """An operation on the tape: what went in, what came out, and how gradients go back."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    back: Back


def recorded(inputs: Sequence[Tensor], values: Sequence[DenseTensor], back: Back) -> list[Tensor]:
    """The results of an operation, on the tape."""
    outputs = [Tensor(value) for value in values]
    node = Node(list(inputs), outputs, back)
    for output in outputs:
        output.node = node
    return outputs


def mean_square(x: Tensor) -> Tensor:
    """The framework's own operation: the loss."""
    scale = np.float32(2 / x.value.size)
    loss = pirkit.tensor(np.mean(np.square(x.value.numpy())))
    (out,) = recorded([x], [loss], lambda g: [x.value * scale * g[0]])
    return out


def backward(loss: Tensor) -> None:
    """Walk the tape; each node's gradients are added to those of its inputs."""
    loss.grad = pirkit.tensor(np.ones((), np.float32))
    pending = [loss.node]
    while pending:
        node = pending.pop()
        if node is None:
            continue
        for tensor, gradient in zip(
            node.inputs, node.back([t.grad for t in node.outputs]), strict=True
        ):
            if gradient is not None:
                tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient
        pending += dict.fromkeys(t.node for t in node.inputs)


# --- the converter -------------------------------------------------------------------------------


def embedded(step: RunnableProgram) -> Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]:
    """A captured program as an operation of the framework."""

    def call(x: Sequence[Tensor], params: Sequence[Tensor]) -> list[Tensor]:
        outputs = step.forward([t.value for t in x], [t.value for t in params])

        def back(gradients: Sequence[DenseTensor | None]) -> Sequence[DenseTensor | None]:
            of_inputs, of_params = step.backward(gradients, outputs)  # holds what is kept
            return [*of_inputs, *of_params]

        return recorded([*x, *params], outputs, back)

    return call


def arrays(file: str) -> dict[str, Any]:
    """Named arrays of the captured case."""
    with np.load(CAPTURED / file, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def main() -> None:
    """Train, and tell how it went."""
    program = pirkit.load(CAPTURED / "program.txt")
    step = RunnableProgram(pirkit.split.forward_backward(program, mode="min-cut"))
    net = embedded(step)
    stored, inputs = arrays("params.npz"), arrays("inputs.npz")
    params = [Tensor(pirkit.tensor(stored[name])) for name in step.names.fp]
    x = [Tensor(pirkit.tensor(inputs[f"step1/{name}"])) for name in step.names.fx]
    losses: list[float] = []
    for _ in range(STEPS):
        (y,) = net(x, params)
        loss = mean_square(y)
        backward(loss)
        for param in params:
            if param.grad is not None:
                param.value[...] = param.value - param.grad * RATE
            param.grad = None
        losses.append(float(loss.value))
    print(step.parts.report)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.6f} in {STEPS} steps")
    count, (forward, _) = step.count(), step.plans()
    print(f"scopes made: {count.made}; buffers copied: {forward.counters.copies}")


if __name__ == "__main__":
    main()
