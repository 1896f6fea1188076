"""Training steps of Paddle's layers: pirkit runs the network, Paddle the tape and the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.paddle.autograd_layer import Net
from pirkit.paddle.libpaddle import listed
from pirkit.paddle.live_program import captured
from pirkit.split.partition import forward_backward
from pirkit.split.runnable import RunnableProgram
from pirkit.split.save_or_recompute import SAVE_ALL

Passes = str | Callable[[Program], Program]


def train_step(
    layer: Any,
    loss: Callable[..., Any],
    optimizer: Any,
    *,
    passes: Passes | None = None,
    mode: str = SAVE_ALL,
) -> TrainStep:
    """A function that trains a layer by one step: ``value = step(x, label)``.

    ``loss(outputs, *labels)`` is any Python on Paddle's tensors. ``passes`` change the captured
    program before it is split: a pipeline, or a function from program to program. ``mode`` says
    what the forward saves for the backward (see docs/split.md).
    """
    return TrainStep(layer, loss, optimizer, passes, mode)


class TrainStep:
    """A step of training; `train_step` makes it.

    The network is captured when inputs of new shapes or element types come, and when ``layer``
    changes between training and evaluation. Its parameters and buffers stay Paddle's: pirkit reads
    and updates them where they are.
    """

    def __init__(
        self,
        layer: Any,
        loss: Callable[..., Any],
        optimizer: Any,
        passes: Passes | None,
        mode: str,
    ) -> None:
        self.layer, self.loss, self.optimizer = layer, loss, optimizer
        self.passes, self.mode = passes, mode
        self.nets: dict[Any, Net] = {}

    def __call__(self, inputs: Any, labels: Any = ()) -> Any:
        """Forward, backward, update; returns the loss. Both arguments: a tensor, or several."""
        value = self.loss(self.forward(*listed(inputs)), *listed(labels))
        value.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return value.detach()

    def forward(self, *inputs: Any) -> Any:
        """What the layer returns, on the tape of Paddle's autograd."""
        return self.net(*inputs)(*inputs)

    def net(self, *inputs: Any) -> Net:
        """The captured network for inputs like these."""
        kinds = [(tuple(t.shape), t.dtype, t.stop_gradient) for t in inputs]
        key = (self.layer.training, *kinds)
        found = self.nets.get(key)
        if found is None:
            capture = captured(self.layer, inputs)
            program = capture.program
            if isinstance(self.passes, str):
                program = run_passes(program, self.passes)
            elif self.passes is not None:
                program = self.passes(program)
            parts = forward_backward(program, mode=self.mode)
            found = self.nets[key] = Net(capture, RunnableProgram(parts))
        return found
