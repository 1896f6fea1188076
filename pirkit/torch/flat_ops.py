"""Piecewise linear ops, and the zeros that torch gives for their second derivatives.

Torch's formula for the second derivative of a ReLU is a tensor of zeros, so an input before it gets
a gradient of zeros, where an input on which a first derivative does not depend gets None. Its
formulas for `clamp`, `where` and extremes have no such term. Those for the first derivative of
steps (`round`, `sign`) are zeros, too.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Final

from pirkit.torch.captured_graph import CUT, Captured
from pirkit.torch.libtorch import listed, torch

FLAT: Final = frozenset({
    "relu", "relu6", "leaky_relu", "hardtanh", "abs", "_prelu_kernel", "max_pool2d_with_indices",
    "max_pool3d_with_indices",
})  # fmt: skip
"""Names of ATen ops."""
STEPS: Final = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn"})
"""Those whose first derivative is a tensor of zeros in torch."""

Flat = tuple[frozenset[int], frozenset[int]]
"""Indices of the inputs on which a flat op depends, and of the outputs that depend on the op."""


def flat_ops(captured: Captured, inputs: Sequence[int], names: Set[str] = FLAT) -> tuple[Flat, ...]:
    """The flat ops through which gradients flow.

    ``inputs`` are indices of arguments of the graph; results have their positions there.
    """
    position = {argument: k for k, argument in enumerate(inputs)}
    nothing = frozenset[int]()
    sources: dict[Any, frozenset[int]] = {}
    passed: dict[Any, frozenset[int]] = {}
    found: list[frozenset[int]] = []
    for number, node in enumerate(captured.placeholders):
        sources[node] = frozenset([position[number]]) if number in position else nothing
    for node in captured.graph.nodes:
        if node.op != "call_function" or not _carries(node):
            continue
        given = [n for n in node.all_input_nodes if n in sources]
        sources[node] = nothing.union(*[sources[n] for n in given])
        passed[node] = nothing.union(*[passed.get(n, nothing) for n in given])
        if str(node.target).partition(".")[2].partition(".")[0] in names:
            passed[node] |= {len(found)}
            found.append(sources[node])
    reached = [passed.get(node, nothing) for node in captured.outputs]
    return tuple([
        (taken, frozenset([k for k, flats in enumerate(reached) if number in flats]))
        for number, taken in enumerate(found)
    ])  # fmt: skip


def stepped_inputs(captured: Captured, inputs: Sequence[int]) -> tuple[frozenset[int], ...]:
    """For each output, the inputs whose first derivative is zeros where there is no other.

    Empty if no gradient flows through a step function.
    """
    steps = flat_ops(captured, inputs, STEPS)
    if not steps:
        return ()
    return tuple([
        frozenset[int]().union(*[taken for taken, outputs in steps if k in outputs])
        for k in range(len(captured.outputs))
    ])  # fmt: skip


def zero_inputs(
    flats: Sequence[Flat], gives: Sequence[tuple[int, int]], read: Sequence[int],
    seeded: Sequence[int],
) -> tuple[frozenset[int], ...]:  # fmt: skip
    """For each gradient, the inputs that get zeros, not None, where it does not depend on them.

    ``gives`` are pairs of an input and the index of its gradient, ``seeded`` the outputs whose
    cotangents are given. The inputs that are found are positions in ``read``.
    """
    live = [taken for taken, outputs in flats if outputs.intersection(seeded)]
    beside = [set[int]() for _ in {k for _, k in gives}]
    for i, k in gives:
        beside[k].update(*[taken for taken in live if i in taken])
    return tuple([frozenset([k for k, i in enumerate(read) if i in near]) for near in beside])


def _carries(node: Any) -> bool:
    """Whether gradients flow through a node."""
    if node.meta.get(CUT):
        return False
    tensors = [v for v in listed(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    return any(t.is_floating_point() or t.is_complex() for t in tensors)
