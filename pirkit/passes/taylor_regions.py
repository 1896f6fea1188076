"""Taylor series through branches and loops.

The branch or loop is emitted a second time, with the Taylor coefficients of its results as further
results; a loop carries them from iteration to iteration. This requires that nothing inside has an
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from xdsl.ir import Block, Region, SSAValue

from pirkit.analysis.differentiation import is_cut, is_differentiable
from pirkit.analysis.effects import is_quiet
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import PirOp, bodies, create, origin_of, span_of, with_nested
from pirkit.dialect.rules.taylor.series import Series

Known = dict[SSAValue, Any]


class Sweep(Struct, frozen=True):
    """How to propagate series up to an order through the ops of a block."""

    b: Builder
    order: int
    prepare: Callable[[Sequence[PirOp]], None]
    """Decomposes ops that have no series rule."""
    push: Callable[[Sequence[PirOp], Known], Known]
    """Returns the given series together with those of all values that the ops compute."""


def push_if(sweep: Sweep, op: PirOp, known: Known) -> None:
    """Compute the series of the results of a branch."""
    b, order = sweep.b, sweep.order
    _require_quiet(op)
    blocks: list[Block] = []
    found: list[list[Series]] = []
    for region in bodies(op):
        block = Block()
        yielded = _repeated(sweep, region.block, {}, block, known)
        with b.inside(block):
            inside = sweep.push(_active(block, known), known)
            found.append([inside.get(v, [None] * order) for v in yielded])
        blocks.append(block)
    places = [
        (i, k)
        for i in range(len(op.results))
        for k in range(order)
        if any(series[i][k] is not None for series in found)
    ]
    for block, series in zip(blocks, found, strict=True):
        with b.inside(block):
            b("pir.yield", *[_dense(b, series[i][k], op.results[i]) for i, k in places])
    if not places:
        return
    types = [op.results[i].type for i, _ in places]
    made = create("pd_op.if", op.operands, types, regions=[Region(block) for block in blocks])
    for (i, k), result in zip(places, b.insert(made).results, strict=True):
        known.setdefault(op.results[i], [None] * order)[k] = b.wrap(result)


def push_while(sweep: Sweep, op: PirOp, known: Known) -> None:
    """Compute the series of the results of a loop, which carries values and coefficients."""
    b, order = sweep.b, sweep.order
    _require_quiet(op)
    old = op.regions[0].block
    carried = _carried(op, known)
    block = Block(arg_types=[a.type for a in old.args])
    replacement: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
    inside: Known = dict(known)
    for i in carried:
        types = [old.args[i].type] * order
        inside[block.args[i]] = [b.wrap(block.insert_arg(t, len(block.args))) for t in types]
    more, *following = _repeated(sweep, old, replacement, block, inside)
    with b.inside(block):
        propagated = sweep.push(_active(block, inside), inside)
        series = [propagated.get(following[i], [None] * order) for i in carried]
        coefficients = [
            _dense(b, c, following[i]) for i, s in zip(carried, series, strict=True) for c in s
        ]
        b("pir.yield", *map(b.wrap, (more, *following)), *coefficients)
    starts = [
        _dense(b, c, op.operands[1 + i])
        for i in carried
        for c in known.get(op.operands[1 + i], [None] * order)
    ]
    types = [r.type for r in op.results]
    types += [op.results[i].type for i in carried for _ in range(order)]
    operands = (*op.operands, *[s.ssa for s in starts])
    made = b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
    results = [b.wrap(r) for r in made.results[len(op.results) :]]
    for n, i in enumerate(carried):
        known[op.results[i]] = results[n * order : (n + 1) * order]


REGIONS: Final[dict[str, Callable[[Sweep, PirOp, Known], None]]] = {
    "pd_op.if": push_if,
    "pd_op.while": push_while,
}
"""Ops with regions through which series can be propagated."""


def _require_quiet(op: PirOp) -> None:
    if not is_quiet(op):
        raise UnsupportedError(
            f"`{op.name}` has no Taylor series: what is inside cannot be repeated",
            code="PK0402",
            span=span_of(op),
            notes=origin_of(op),
            help="use nested `grad`",
        )


def _repeated(
    sweep: Sweep, old: Block, replacement: dict[SSAValue, SSAValue], block: Block, known: Known
) -> list[SSAValue]:
    """Copy a block without its terminator, and decompose active ops that have no series rule.

    Returns the operands of the terminator in the copy. ``replacement`` maps the block's arguments.
    """
    for op in old.ops:
        block.add_op(op.clone(value_mapper=replacement))
    last = cast(PirOp, block.last_op)
    sweep.prepare(_active(block, known))
    yielded = list(last.operands)
    last.detach()
    last.erase()
    return yielded


def _active(block: Block, known: Known) -> list[PirOp]:
    """The ops of a block that depend on a value with a series."""
    reached = set(known)
    found: list[PirOp] = []
    for op in block.ops:
        if _depends(cast(PirOp, op), reached):
            flows = [r for r in op.results if is_differentiable(r) and not is_cut(r, op.operands)]
            reached.update(flows)
            if flows:
                found.append(cast(PirOp, op))
    return found


def _depends(op: PirOp, reached: set[SSAValue]) -> bool:
    return any(v in reached for inner in with_nested(op) for v in inner.operands)


def _carried(op: PirOp, known: Known) -> list[int]:
    """The arguments of a loop that have a series in any iteration: a fixed point."""
    block = op.regions[0].block
    yielded = cast(PirOp, block.last_op).operands[1:]
    found = {i for i, v in enumerate(op.operands[1:]) if v in known and is_differentiable(v)}
    while True:
        start = {**known, **{block.args[i]: None for i in found}}
        active = {r for o in _active(block, start) for r in o.results} | start.keys()
        more = {i for i, v in enumerate(yielded) if v in active and is_differentiable(v)}
        if more <= found:
            return sorted(found)
        found |= more


def _dense(b: Builder, coefficient: Value | None, like: SSAValue) -> Value:
    return b.zeros_like(b.wrap(like)) if coefficient is None else coefficient
