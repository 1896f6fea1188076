"""`paddle.grad` in a captured function as the op `pir.gradient`, which passes expand later.

Paddle expands a gradient while it captures one; then passes cannot see any more that derivatives
are nested, and compute them as a Taylor series. So `paddle.grad` is replaced during the capture:
each of its results is an input of Paddle's program, and a result of `pir.gradient` in pirkit's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import flows
from pirkit.diag.errors import ArgumentError
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import PirOp, create, span_of
from pirkit.paddle.libpaddle import listed, paddle, pir_core

_OPERATORS: Final = (
    "__add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __matmul__ __radd__ __rsub__"
    " __rmul__ __rtruediv__ __rpow__ __rmatmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__"
    " __abs__ __getitem__"
).split()


@dataclass(frozen=True)
class Request:
    """One call of `paddle.grad`: live values, and the live inputs that stand for the results."""

    targets: list[Any]
    seeds: list[Any]
    wrt: list[Any]
    found: list[Any]
    create_graph: bool
    """Whether derivatives flow through the results; those of others are detached, as in eager."""
    allow_unused: bool
    """Whether Paddle would give None for an input on which no target depends."""


@contextmanager
def requested() -> Generator[list[Request]]:
    """Collect the calls of `paddle.grad` while a function is captured.

    Within it, operators of eager tensors that the function captures are recorded, too. Paddle's
    converter records those of tensors that the function's source names, and computes others.
    """
    requests: list[Request] = []

    def grad(
        outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
        create_graph: bool = False, only_inputs: bool = True, allow_unused: bool = False,
        no_grad_vars: Any = None,
    ) -> list[Any]:  # fmt: skip
        targets, wrt = listed(outputs), listed(inputs)
        seeds = listed(grad_outputs) if grad_outputs is not None else [None] * len(targets)
        if no_grad_vars:
            raise ArgumentError("`paddle.grad` with `no_grad_vars` is not captured",
                             help="call `detach()` on them where they are used")  # fmt: skip
        seeds = [
            paddle.ones_like(t) if s is None else s for s, t in zip(seeds, targets, strict=True)
        ]
        found = [_stand_in(x) for x in wrt]
        requests.append(Request(targets, seeds, wrt, found, create_graph, allow_unused))
        return found

    with replaced(paddle, {"grad": grad}), replaced(paddle.Tensor, _operators()):
        with replaced(paddle.pir.Value, _operators(paddle.pir.Value)):
            yield requests


def _stand_in(x: Any) -> Any:
    """An input of Paddle's program, like ``x``, that stands for a gradient by it."""
    name = paddle.utils.unique_name.generate("gradient")
    found = paddle.static.data(name, x.shape, x.dtype)
    found.stop_gradient = False
    return found


def _operators(kind: Any = None) -> dict[str, Any]:
    """Operators of values, by name, which first make values of operands that are eager tensors."""
    return {
        name: _converted(getattr(paddle.pir.Value, name))
        for name in _OPERATORS
        if hasattr(kind or paddle.Tensor, name)
    }


def _converted(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def ours(*operands: Any) -> Any:
        values = [pir_core._convert_into_value(v) for v in operands]
        return theirs(*[_exact(v, values) for v in values])

    return ours


def _exact(given: Any, operands: Sequence[Any]) -> Any:
    """A number as a float64 tensor if an operand is float64, and float32 does not hold the number.

    Paddle would make it an attribute in float32.
    """
    if not isinstance(given, float) or given == float(np.float32(given)):
        return given
    kinds = {v.dtype for v in operands if isinstance(v, paddle.pir.Value)}
    is_double = paddle.base.core.DataType.FLOAT64 in kinds
    return paddle.full([], given, "float64") if is_double else given


@contextmanager
def replaced(holder: Any, names: Mapping[str, Any]) -> Generator[None]:
    """Within it, these attributes of a module or class have other values."""
    kept = {name: getattr(holder, name) for name in names}
    for name, each in names.items():
        setattr(holder, name, each)
    try:
        yield
    finally:
        for name, each in kept.items():
            setattr(holder, name, each)


def insert_gradients(requests: list[Request], made: Mapping[int, PirOp]) -> None:
    """Replace the inputs that stand for gradients by results of `pir.gradient`.

    ``made`` are pirkit's operations by the id of Paddle's. Raises ArgumentError (PK0701) where
    Paddle would give None.
    """

    results: dict[int, SSAValue] = {}

    def ours(value: Any) -> SSAValue:
        if value.get_defining_op().id() in results:
            return results[value.get_defining_op().id()]
        op = made[value.get_defining_op().id()]
        return cast(SSAValue, op.result_slots[cast(int, value.index())])

    for request in requests:
        stand_ins = [made[v.get_defining_op().id()] for v in request.found]
        wrt = [ours(v) for v in request.wrt]
        counts = {
            name: mlir.IntegerAttr(count, 32)
            for name, count in (("targets", len(request.targets)), ("wrt", len(wrt)))
        }
        targets = [*map(ours, request.targets)]
        if request.allow_unused and not all(flows(targets, x) for x in wrt):
            raise ArgumentError(
                "`paddle.grad` gives None for an input that is not used, which is not captured",
                span=span_of(stand_ins[0]), help="ask for gradients by inputs that are used",
            )  # fmt: skip
        operands = [*targets, *map(ours, request.seeds), *wrt]
        gradient = create(
            "pir.gradient", operands, [v.type for v in wrt], counts, location=stand_ins[0].location
        )
        block = cast(Any, stand_ins[0].parent)  # Paddle puts inputs first, before the operands
        owners = {v.owner for v in operands}
        block.insert_op_after(gradient, next(op for op in reversed(block.ops) if op in owners))
        for live, op, result in zip(request.found, stand_ins, gradient.results, strict=True):
            if not request.create_graph:
                copy = create("pd_op.assign", [result], [result.type], location=op.location)
                copy.attributes["stop_gradient"] = encode("bool[]", (True,))
                block.insert_op_after(copy, gradient)
                result = copy.results[0]
            results[live.get_defining_op().id()] = result
            op.results[0].replace_all_uses_with(result)
            block.erase_op(op)
