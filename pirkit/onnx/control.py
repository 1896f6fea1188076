"""Branches and loops of ONNX: `If` becomes `pd_op.if`, `Loop` `pd_op.while`.

`Scan`, a `Loop` with outputs of each iteration (scan outputs), and a `Loop` of at most four
iterations that no data ends are unrolled; the first two need a known trip count. Functions take the
importer, the node, its inputs and the values in scope, and give the outputs of the node. A branch
whose condition is constant is emitted in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from xdsl.ir import Block, Region

from pirkit.dialect.build import Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.onnx.libonnx import helper
from pirkit.runtime import dtype as dt

UNROLLED: Final = 1024
"""The most iterations that are unrolled, where a loop has scan outputs, which no region has."""


def _attributes(node: Any) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _if(importer: Any, node: Any, inputs: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    b, graphs = importer.b, _attributes(node)
    (condition,) = inputs
    taken = b.evaluated(condition.ssa)
    branches = [graphs["then_branch"], graphs["else_branch"]]
    if taken is not None:
        graph = branches[0] if np.ravel(taken)[0] else branches[1]
        return tuple(importer.graph(graph, dict(scope)))
    regions: list[Region] = []
    types: list[list[Any]] = []
    for graph in branches:
        block = Block()
        results = importer.subgraph(graph, block, scope, ())
        if not all(isinstance(v, Value) for v in results):
            raise b.unsupported("has a branch that returns a sequence")
        with b.inside(block):
            # A region yields values of its own: those from outside are copied.
            results = [b("pd_op.assign", v) if v.ssa.owner.parent is not block else v
                       for v in results]  # fmt: skip
            b.insert(create("pir.yield", [v.ssa for v in results]))
        types.append([type_of(v.meta) for v in results])
        regions.append(Region(block))
    if types[0] != types[1]:
        # With a constant condition one branch is emitted, so the error names the inputs to fix.
        b.known(condition, "condition")
        raise b.unsupported("has branches with results of different types")
    holds = b.reshape(b.cast(condition, dt.bool_), ())
    made = b.insert(create("pd_op.if", (holds.ssa,), types[0], regions=regions))
    return tuple([b.wrap(r) for r in made.results])


def _loop(importer: Any, node: Any, inputs: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    b, body = importer.b, _attributes(node)["body"]
    iterations, condition, *state = inputs
    scans = len(body.output) - 1 - len(state)
    count = None if iterations is None else b.evaluated(iterations.ssa)
    always = condition is None or _holds(b, condition) is True
    if scans and condition is not None:
        b.known(condition, "condition")
    if scans and iterations is not None:
        b.known(iterations, "trip count")
    if scans or (count is not None and int(np.ravel(count)[0]) <= 4 and always):
        if count is None or not always or int(np.ravel(count)[0]) > UNROLLED:
            raise b.unsupported("has outputs of each iteration, and no known trip count",
                                "export the model with a constant trip count")  # fmt: skip
        made = _unrolled(importer, body, int(np.ravel(count)[0]), state, scope)
        if made is not None:
            return made
    return _while(importer, body, iterations, condition, state, scope)


def _holds(b: Any, condition: Value) -> bool | None:
    found = b.evaluated(condition.ssa)
    return None if found is None else bool(np.ravel(found)[0])


def _unrolled(importer: Any, body: Any, count: int, state: list[Any], scope: Any) -> Any:
    """The iterations one by one; None if data ends the loop, and it has no outputs of each.

    The ops of the iterations so far are then unused, and are erased at the end of the import.
    """
    b = importer.b
    stacked: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    more = b.const(True, dt.bool_)
    for iteration in range(count):
        given = [b.const(iteration, dt.int64), more, *state]
        inner = {**scope, **{i.name: v for i, v in zip(body.input, given, strict=True)}}
        again, *results = importer.graph(body, inner)
        holds = _holds(b, again)
        if holds is None and iteration + 1 < count:
            if not stacked:
                return None
            raise b.unsupported("ends by data, and has outputs of each iteration",
                                "export the model with a constant trip count")  # fmt: skip
        state, made = results[: len(state)], results[len(state) :]
        for rows, row in zip(stacked, made, strict=True):
            rows.append(b.unsqueezed(row, (0,)))
        if holds is False:
            break
    if any(not rows for rows in stacked):
        raise b.unsupported("has outputs of each iteration, but there is none")
    return (*state, *(b.concat(rows, 0) for rows in stacked))


def _while(
    importer: Any, body: Any, iterations: Value | None, condition: Value | None, state: list[Any],
    scope: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """A `pd_op.while`, whose condition is emitted before the loop and at the end of its body."""
    b = importer.b
    if not all(isinstance(v, Value) for v in state):
        raise b.unsupported("carries a sequence through a loop whose length is not known")
    zero = b.const(0, dt.int64)
    bound = None if iterations is None else b.reshape(b.cast(iterations, dt.int64), ())
    holds = b.const(True, dt.bool_) if condition is None else b.reshape(condition, ())
    if bound is not None:
        holds = b.logical_and(holds, b.less_than(zero, bound))
    carried = [b("pd_op.assign", zero), *state]
    block = Block(arg_types=[type_of(v.meta) for v in carried])
    with b.inside(block):
        counter, *held = [b.wrap(a) for a in block.args]
    inner = {**scope}
    with b.inside(block):
        names = [i.name for i in body.input]
        inner.update(zip(names, [counter, b.const(True, dt.bool_), *held], strict=True))
        again, *results = importer.graph(body, inner)
        after = b.add(counter, b.const(1, dt.int64))
        more = b.reshape(again, ())
        if bound is not None:
            more = b.logical_and(more, b.less_than(after, bound))
        for old, new in zip(held, results, strict=True):
            if old.meta != new.meta:
                raise b.unsupported(f"carries {old.meta}, which an iteration makes {new.meta}")
        results = [b("pd_op.assign", v) if v.ssa.owner is block or v.ssa.owner.parent is not block
                   else v for v in results]  # fmt: skip
        b.insert(create("pir.yield", [more.ssa, after.ssa, *(v.ssa for v in results)]))
    types = [type_of(v.meta) for v in carried]
    operands = (holds.ssa, *(v.ssa for v in carried))
    made = b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
    return tuple([b.wrap(r) for r in made.results][1:])


def _scan(importer: Any, node: Any, inputs: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    """A loop over slices of its inputs; their number is a known size, and it is unrolled."""
    b, held = importer.b, _attributes(node)
    body, count = held["body"], held["num_scan_inputs"]
    if b.opset < 9:
        raise b.unsupported("of operator set 8 has a batch of its own")
    if not 0 < count <= len(inputs):
        raise b.unsupported(f"scans {count} of {len(inputs)} inputs")
    state, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    axes = [b.axis(a, v.rank) for a, v in
            zip(held.get("scan_input_axes", [0] * count), scanned, strict=True)]  # fmt: skip
    backward = held.get("scan_input_directions", [0] * count)
    length = b.static(scanned[0])[axes[0]]
    outs = len(body.output) - len(state)
    if not 0 < length <= UNROLLED:
        raise b.unsupported(f"has {length} iterations")
    rows: list[list[Value]] = [[] for _ in range(outs)]
    for iteration in range(length):
        slices = [b.at(v, a, length - 1 - iteration if r else iteration)
                  for v, a, r in zip(scanned, axes, backward, strict=True)]  # fmt: skip
        given = zip((i.name for i in body.input), [*state, *slices], strict=True)
        results = importer.graph(body, {**scope, **dict(given)})
        state = results[: len(state)]
        for made, row in zip(rows, results[len(state) :], strict=True):
            made.append(row)
    reversed_ = held.get("scan_output_directions", [0] * outs)
    places = held.get("scan_output_axes", [0] * outs)
    stacked: list[Value] = []
    for made, back, place in zip(rows, reversed_, places, strict=True):
        axis = b.axis(place, made[0].rank + 1)
        parts = [b.unsqueezed(v, (axis,)) for v in (made[::-1] if back else made)]
        stacked.append(b.concat(parts, axis))
    return (*state, *stacked)


CONTROL: Final[Mapping[str, Callable[..., Any]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
"""By the name of the operator: a function of the importer, the node, its inputs and the scope."""
