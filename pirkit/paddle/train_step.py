"""Training steps of Paddle's layers: pirkit runs the network, Paddle the tape and the optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any, Final

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.program import Program
from pirkit.frontend.compile import run_passes
from pirkit.paddle.autograd_layer import Net
from pirkit.paddle.drawn_inputs import draw_ahead
from pirkit.paddle.libpaddle import leaves_of, listed, paddle
from pirkit.paddle.live_program import captured
from pirkit.paddle.watched_layers import Reads
from pirkit.split.partition import forward_backward
from pirkit.split.runnable import RunnableProgram
from pirkit.split.save_or_recompute import SAVE_ALL

Passes = str | Callable[[Program], Program]
MOST_CAPTURES: Final = 8
"""Captures that are kept for inputs of one kind."""


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
    what the forward saves for the backward (see docs/split.md). A call raises ArgumentError
    (PK0701) for a layer that cannot be captured, and UnsupportedError (PK0401) for an unknown op.
    """
    return TrainStep(layer, loss, optimizer, passes, mode)


class TrainStep:
    """A step of training; `train_step` makes it.

    The network is captured for inputs of new shapes or element types, and when something that its
    Python reads has changed: its mode, that of a sublayer, a number, a hook. Parameters and buffers
    stay Paddle's: pirkit reads them, and updates buffers, where they are.
    """

    def __init__(
        self, layer: Any, loss: Callable[..., Any], optimizer: Any, passes: Passes | None, mode: str
    ) -> None:
        self.layer, self.loss, self.optimizer = layer, loss, optimizer
        self.passes, self.mode = passes, mode
        self.captures: dict[Any, list[tuple[Reads, Callable[[], bool], Net]]] = {}
        """For each kind of inputs: what a capture read, whether that has changed, the network."""
        self._advised = False

    def __call__(self, inputs: Any, labels: Any = ()) -> Any:
        """Forward, backward, update; returns the loss. Arguments are tensors, or lists of them."""
        value = self.loss(self.forward(*listed(inputs)), *listed(labels))
        value.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return value.detach()

    def forward(self, *inputs: Any) -> Any:
        """The results of the layer, on the tape of Paddle's autograd."""
        return self.net(*inputs)(*inputs)

    def net(self, *inputs: Any) -> Net:
        """The captured network for inputs like these, and for what the layer reads now."""
        leaves = leaves_of(inputs)
        kinds = [_kind(leaf) for leaf in leaves]
        if not all(isinstance(each, paddle.Tensor) for each in inputs):  # the structure counts, too
            kinds.append(repr(paddle.utils.map_structure(type, inputs)))
        tracer = paddle.base.framework._dygraph_tracer()
        key = (self.layer.training, tracer._amp_level, tracer._amp_dtype, *kinds)
        captures = self.captures.setdefault(key, [])
        for _, is_other, net in captures:
            if not is_other():
                return net
        if len(captures) == MOST_CAPTURES:
            self._advise(captures.pop(0)[0])
        reads = Reads(self.layer)
        capture = captured(self.layer, inputs)
        is_other = reads.settle()
        program, draws = draw_ahead(capture.program)
        if isinstance(self.passes, str):
            program = run_passes(program, self.passes)
        elif self.passes is not None:
            program = self.passes(program)
        net = Net(capture, RunnableProgram(forward_backward(program, mode=self.mode)), draws)
        captures.append((reads, is_other, net))
        return net

    @property
    def nets(self) -> list[Net]:
        """All captures that are kept."""
        return [net for held in self.captures.values() for *_, net in held]

    def _advise(self, oldest: Reads) -> None:
        """Warn once that the layer is captured again and again, and name what changes."""
        if not self._advised:
            changed = oldest.change()
            message = f"the layer is captured again and again, since it reads another {changed}"
            warnings.warn(message, stacklevel=4)
        self._advised = True


def _kind(leaf: Any) -> Any:
    """The part of the key of captures for one input: type of a tensor, or a constant itself.

    Raises ArgumentError (PK0701) for an input that is neither a tensor nor hashable.
    """
    if isinstance(leaf, paddle.Tensor):
        return (tuple(leaf.shape), leaf.dtype, leaf.stop_gradient)
    if not isinstance(leaf, Hashable):
        raise ArgumentError(
            f"an input is of the type {type(leaf).__name__}",
            help="pass tensors: `paddle.to_tensor(value)`",
        )
    return (type(leaf), leaf)
