"""`torch.autograd.Function` in a graph: the program keeps the derivative that the user wrote.

In a captured graph it is made of three ops of the library `pirkit`. ``stand_in(x)`` stands for a
cotangent of ``x``. ``constant(x)`` is ``x`` without a gradient. ``custom(ys, xs, seeds, found)``
gives ``ys``; their derivative is what the graph computes from ``seeds``, which stand for the
cotangents of ``ys``, to ``found``, the cotangents of ``xs``. It becomes `pir.custom_derivative`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.captured_graph import Captured
from pirkit.torch.libtorch import listed, torch
from pirkit.torch.rules import RULES

APPLY: Final[Any] = torch.ops.higher_order.autograd_function_apply

_LIBRARY: Final[Any] = torch.library.Library("pirkit", "DEF")
_LIBRARY.define("stand_in(Tensor x) -> Tensor")
_LIBRARY.define("constant(Tensor x) -> Tensor")
_LIBRARY.define("custom(Tensor[] ys, Tensor[] xs, Tensor[] seeds, Tensor[] found) -> Tensor[]")


@torch.library.register_fake("pirkit::stand_in")
@torch.library.register_fake("pirkit::constant")
def _(x: Any) -> Any:
    return torch.empty_like(x)


@torch.library.register_fake("pirkit::custom")
def _(ys: list[Any], xs: list[Any], seeds: list[Any], found: list[Any]) -> list[Any]:
    return [torch.empty_like(y) for y in ys]


def apply(run: Callable[..., Any], forward: Any, backward: Any, args: Sequence[Any],
          options: Any) -> tuple[Any, ...]:  # fmt: skip
    """Record a call of a function with its own backward.

    ``run(graph, *args)`` runs a graph, ``args`` are those of the forward, ``options`` are Dynamo's.
    The graph of the backward is recorded for stand-ins of the cotangents. What the forward saves is
    a constant for second derivatives, unless it is an argument or result. Gives the results.
    """
    inputs = [a for a in args if isinstance(a, torch.Tensor)]
    if options.get("dirty_idx"):  # gradients are those of what arguments held before the writes
        inputs = [a.clone() for a in inputs]
    results, saved = run(forward, *args)
    ys = listed(results)
    fixed: set[int] = set(options.get("non_differentiable_idx") or ())
    at = [
        i for i, y in enumerate(ys)
        if isinstance(y, torch.Tensor) and y.is_floating_point() and i not in fixed
    ]  # fmt: skip
    if not at:
        return tuple(ys)
    ops = torch.ops.pirkit
    seeds = [
        (ops.stand_in(y) if i in at else torch.zeros_like(y)) if isinstance(y, torch.Tensor) else y
        for i, y in enumerate(ys)
    ]
    known = set(map(id, (*args, *ys)))
    kept = [
        ops.constant(t) if isinstance(t, torch.Tensor) and id(t) not in known else t for t in saved
    ]
    found = listed(run(backward, *seeds, *kept))
    pairs = [
        (x, torch.zeros_like(x) if g is None else g)
        for x, g in zip(inputs, _of_tensors(found, args), strict=True)
        if x.is_floating_point()
    ]
    made = ops.custom(
        [ys[i] for i in at], [x for x, _ in pairs], [seeds[i] for i in at],
        [g for _, g in pairs],
    )  # fmt: skip
    for i, value in zip(at, made, strict=True):
        ys[i] = value
    return tuple(ys)


def has_own_derivative(captured: Captured) -> bool:
    """Whether a graph has a user's derivative, which need not be linear in the cotangent."""
    graphs = [captured.graph, *[m.graph for m in captured.module.modules() if hasattr(m, "graph")]]
    own = torch.ops.pirkit.custom.default
    return any(node.target is own for graph in graphs for node in graph.nodes)


def _of_tensors(found: list[Any], args: Sequence[Any]) -> list[Any]:
    """The cotangents of those arguments that are tensors."""
    if len(found) == len(args):
        return [g for g, a in zip(found, args, strict=True) if isinstance(a, torch.Tensor)]
    return found


def _stand_in(b: AtenBuilder, x: Value) -> Value:
    return b("pd_op.assign", b.zeros_like(x))


def _custom(
    b: AtenBuilder, ys: list[Value], xs: list[Value], seeds: list[Value], found: list[Value]
) -> list[Value]:
    made: Any = b(
        "pir.custom_derivative", *ys, *xs, *seeds, *found,
        outputs=len(ys), inputs=len(xs), forward=False,
    )  # fmt: skip
    return listed(made)


RULES["pirkit.stand_in.default"] = _stand_in
RULES["pirkit.constant.default"] = AtenBuilder.stopped
RULES["pirkit.custom.default"] = _custom
