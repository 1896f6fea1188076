"""A split program as one operation on the tape of Paddle's autograd."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pirkit.diag.errors import RuntimeFault
from pirkit.paddle.drawn_inputs import Draw
from pirkit.paddle.libpaddle import leaves_of, listed, paddle
from pirkit.paddle.live_program import Captured, Constant
from pirkit.paddle.shared_memory import Weights, given_back, shared
from pirkit.runtime.tensor.conversion import from_numpy
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.split.runnable import RunnableProgram


@dataclass(frozen=True)
class _Call:
    """What the forward of one call needs.

    It is a class, because Paddle would take tensors in a tuple for arguments to differentiate by.
    """

    net: Net
    x: list[Any]
    inputs: list[int]
    """Indices of the inputs whose gradients the tape asks for."""
    params: list[int]
    """Indices of the parameters whose gradients it asks for."""


class Net:
    """A captured network that runs both halves of its split on tensors of Paddle."""

    def __init__(
        self, capture: Captured, runnable: RunnableProgram, draws: Mapping[str, Draw]
    ) -> None:
        names = runnable.names
        self.runnable = runnable
        self.structure = capture.structure
        self.inputs, self.draws = capture.inputs, draws
        held = capture.program.params
        stored = [capture.tensors.get(n) for n in names.fp]
        self.params: list[Any] = [
            from_numpy(held[n]) if t is None or not t._is_initialized() else t
            for n, t in zip(names.fp, stored, strict=True)
        ]
        self.weights = Weights(self.params)
        # Parameters and inputs that get gradients, and parameters that the backward reads.
        self.learned = [i for i, name in enumerate(names.bp_g) if name is not None]
        self.followed = [i for i, name in enumerate(names.bx_g) if name is not None]
        self.read = [i for i, name in enumerate(names.bp) if name is not None]

    def __call__(self, *inputs: Any) -> Any:
        """What the network returns; the tape holds one operation for it.

        Its backward raises RuntimeFault (PK0907) if Paddle has written a parameter that it reads.
        """
        tensors = [leaf for leaf in leaves_of(inputs) if isinstance(leaf, paddle.Tensor)]
        given = dict(zip(self.inputs, tensors, strict=True))
        given |= {name: draw() for name, draw in self.draws.items()}
        x = [given[name] for name in self.runnable.names.fx]
        call = _Call(
            self,
            x,
            [i for i in self.followed if not x[i].stop_gradient],
            [i for i in self.learned if not self.params[i].stop_gradient],
        )
        tracked = [*(x[i] for i in call.inputs), *(self.params[i] for i in call.params)]
        if paddle.is_grad_enabled() and tracked:
            outputs = listed(_Halves.apply(call, *tracked))
        else:
            held = self.runnable.forward([shared(t) for t in x], self.weights.now(), training=False)
            outputs = [given_back(t) for t in held]
        leaves: list[Any] = [
            leaf.content if isinstance(leaf, Constant) else outputs[leaf]
            for leaf in listed(paddle.utils.flatten(self.structure))
        ]
        return paddle.utils.pack_sequence_as(self.structure, leaves)

    def versions(self) -> list[int]:
        """How often Paddle has written each parameter that the backward reads."""
        read = (self.params[i] for i in self.read)
        return [t.inplace_version for t in read if not isinstance(t, DenseTensor)]


class _Halves(paddle.autograd.PyLayer):  # pyright: ignore[reportUntypedBaseClass]
    """The forward program, and the backward program as its gradient."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tracked: Any) -> Any:
        net = call.net
        ctx.call = call
        ctx.versions = net.versions()
        ctx.outputs = net.runnable.forward([shared(t) for t in call.x], net.weights.now())
        return tuple([given_back(t) for t in ctx.outputs])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        call: _Call = ctx.call
        net = call.net
        if net.versions() != ctx.versions:
            raise RuntimeFault(
                "Paddle wrote a parameter that the backward reads",
                code="PK0907",
                help="run the backward before `optimizer.step()`, or pass a copy",
            )
        seeds = [None if c is None else shared(c.contiguous()) for c in cotangents]
        of_inputs, of_params = net.runnable.backward(seeds, ctx.outputs, retain_graph=True)
        found = [*(of_inputs[i] for i in call.inputs), *(of_params[i] for i in call.params)]
        return tuple([None if g is None else given_back(g) for g in found])
