"""`paddle.autograd.PyLayer` in a captured function: the program keeps its derivative.

Paddle's op for it holds the forward only, and calls Python for the backward. Here the backward is
captured, too, for values that stand for the cotangents; the derivative rule of
`pir.custom_derivative` repeats it for the actual ones.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Block

from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.ops.control.derivatives import CUSTOM
from pirkit.paddle.libpaddle import listed, paddle
from pirkit.paddle.requested_gradients import replaced

_capturing: Final[Any] = import_module("paddle.jit.dy2static.py_layer")


@dataclass(frozen=True)
class Custom:
    """One call of a layer, in live values of Paddle's program.

    ``found`` are the cotangents of ``inputs`` that the backward computes from ``seeds``, which
    stand for those of ``outputs``. ``results`` are copies of the outputs, which the rest reads.
    """

    outputs: list[Any]
    inputs: list[Any]
    seeds: list[Any]
    found: list[Any]
    results: list[Any]


@dataclass
class _Context:
    """The context that forward and backward get, in place of Paddle's, while they are captured."""

    saved: tuple[Any, ...] = ()
    fixed: list[Any] = field(default_factory=list[Any])

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved = tensors

    def saved_tensor(self) -> tuple[Any, ...]:
        return self.saved

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.fixed += tensors

    def mark_not_inplace(self, *tensors: Any) -> None:
        pass  # programs have values, not memory

    def set_materialize_grads(self, value: bool) -> None:
        pass  # cotangents that are missing are zeros


@contextmanager
def custom_layers() -> Generator[list[Custom]]:
    """Collect the calls of custom layers while a function is captured."""
    calls: list[Custom] = []

    def call(
        forward_fn: Any, inputs: Sequence[Any], backward_fn: Any = None, name: str | None = None
    ) -> Any:
        # In place of Paddle's op, forward and backward are recorded one after the other.
        inputs = [_defined(x) for x in inputs]
        returned = forward_fn(*inputs)
        leaves = paddle.utils.flatten(returned)
        fixed = forward_fn.args[0].fixed
        at = [i for i, y in enumerate(leaves) if _varies(y) and not any(y is f for f in fixed)]
        if not at or backward_fn is None:
            return returned
        seeds = {
            i: paddle.assign(paddle.zeros_like(y)) if i in at else paddle.zeros_like(y)
            for i, y in enumerate(leaves)
            if _is_value(y)
        }
        given = [x for x in paddle.utils.flatten(list(inputs)) if _is_value(x)]
        gradients = listed(backward_fn(*seeds.values()))
        pairs = [
            (x, paddle.zeros_like(x) if g is None else _defined(g))
            for x, g in zip(given, gradients, strict=True)
            if _varies(x)
        ]
        outputs = [_defined(leaves[i]) for i in at]
        results = [paddle.assign(y) for y in outputs]
        for i, result in zip(at, results, strict=True):
            leaves[i] = result
        calls.append(
            Custom(outputs, [x for x, _ in pairs], [seeds[i] for i in at],
                   [g for _, g in pairs], results)
        )  # fmt: skip
        return paddle.utils.pack_sequence_as(returned, leaves)

    names = {"static_pylayer": call, "StaticPyLayerContext": _Context}
    with replaced(_capturing, names):
        yield calls


def insert_custom(calls: Sequence[Custom], made: Mapping[int, PirOp]) -> None:
    """Let the copies of outputs copy results of `pir.custom_derivative`.

    ``made`` are pirkit's operations by the id of Paddle's.
    """
    for call in calls:
        copies = [made[v.get_defining_op().id()] for v in call.results]
        values = [*call.outputs, *call.inputs, *call.seeds, *call.found]
        operands = [
            made[v.get_defining_op().id()].result_slots[cast(int, v.index())] for v in values
        ]
        counts = {
            "outputs": mlir.IntegerAttr(len(call.outputs), 32),
            "inputs": mlir.IntegerAttr(len(call.inputs), 32),
            "forward": mlir.BoolAttr.from_bool(False),
        }
        kinds = [copy.operands[0].type for copy in copies]
        custom = create(CUSTOM, operands, kinds, counts, location=copies[0].location)
        cast(Block, copies[0].parent).insert_op_before(custom, copies[0])
        for copy, result in zip(copies, custom.results, strict=True):
            copy.operands[0] = result


def _is_value(leaf: Any) -> bool:
    return isinstance(leaf, paddle.pir.Value)


def _defined(leaf: Any) -> Any:
    """A leaf, or a copy of an argument of a loop's body, which no operation defines."""
    is_argument = _is_value(leaf) and leaf.get_defining_op() is None
    return paddle.assign(leaf) if is_argument else leaf


def _varies(leaf: Any) -> bool:
    """Whether a leaf is a value of real or complex numbers."""
    return _is_value(leaf) and (paddle.is_floating_point(leaf) or paddle.is_complex(leaf))
