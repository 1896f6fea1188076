"""Reverse sweeps that recompute: `pir.checkpoint`.

The operations between the inputs and the outputs of the op are repeated where the sweep is, and the
copies are differentiated. They read the inputs through `pd_op.depend`, which makes them wait for
the cotangents and keeps `cse` from merging them with the originals (Griewank and Walther,
"Revolve", ACM TOMS 26, 2000, treat where to put such checkpoints).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace
from xdsl.ir import Block, SSAValue

from pirkit.analysis.differentiation import paths_between
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.opdef import may_draw
from pirkit.dialect.operation import PirOp, bodies, declares, span_of, with_nested
from pirkit.passes.autodiff_custom import Sweep


def differentiate_checkpoint(back: Sweep, op: PirOp, held: list[Any]) -> None:
    """Repeat the operations from the inputs to the outputs, and differentiate the copy."""
    count, kept = int(op.attribute("outputs")), frozenset(op.attribute("saved"))
    outputs = op.operands[:count]
    ops = _between(op, outputs, back.shared.wrt.union(op.operands[count:]))
    inputs = _read(ops, outputs)
    b = back.b
    cotangents = [cast(Value, h) for h in held if h is not None]
    late = b.combine(cotangents)
    copies: dict[SSAValue, SSAValue] = {}
    saved: list[tuple[SSAValue, SSAValue]] = []

    def behind(value: SSAValue) -> SSAValue:
        return b("pd_op.depend", b.wrap(value), late).ssa

    for value in inputs:
        copies[value] = behind(value)
    for each in ops:
        again = each.clone(value_mapper=copies)
        b.insert(again)
        if each.name in kept or _draws(each):
            saved += [(r, behind(v)) for r, v in zip(again.results, each.results, strict=True)]
    targets = [copies.get(v, v) for v in outputs]
    sources = [copies[v] for v in inputs]
    paths = paths_between(b.block, targets, sources)
    inner = back.over(replace(back.shared, paths=paths, wrt=frozenset(sources)))
    for value, cotangent in zip(targets, held, strict=True):
        if cotangent is not None and value in paths.active:
            inner.add(value, cotangent)
    inner.sweep(paths.ops)
    for again, original in saved:  # saved by the forward: not computed again
        again.replace_all_uses_with(original)
    for value, source in zip(inputs, sources, strict=True):
        found = inner.total(source)
        if found is not None and value in back.shared.paths.active:
            back.add(value, found)


def _between(op: PirOp, outputs: Sequence[SSAValue], inputs: frozenset[SSAValue]) -> list[PirOp]:
    """The operations that compute the outputs from the inputs, in order, but for those that are
    given or drawn from nothing."""
    wanted = set(outputs) - inputs
    found: list[PirOp] = []
    each = op.prev_op
    while each is not None and wanted:
        made = wanted.intersection(each.results)
        if made:
            wanted -= made
            if declares(each, SOURCE) or (not each.operands and _draws(cast(PirOp, each))):
                each = each.prev_op
                continue
            found.append(cast(PirOp, each))
            inner = (v for o in with_nested(each) for v in o.operands)
            wanted |= {v for v in inner if v not in inputs and _block_of(v) is op.parent}
        each = each.prev_op
    return found[::-1]


def _read(ops: Sequence[PirOp], outputs: Sequence[SSAValue]) -> list[SSAValue]:
    """The values that operations read and do not define; also outputs that they do not define."""
    made: set[SSAValue] = set()
    read: dict[SSAValue, None] = {}
    for op in ops:
        for inner in with_nested(op):
            made |= {*inner.results, *[a for r in bodies(inner) for a in r.block.args]}
        read.update({v: None for inner in with_nested(op) for v in inner.operands})
    return [v for v in {**read, **dict.fromkeys(outputs)} if v not in made]


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _draws(op: PirOp) -> bool:
    """Whether an op draws random numbers, so that a copy of it would draw others."""
    for region in bodies(op):
        if any(_draws(inner) for inner in operations(region.block)):
            raise UnsupportedError(
                f"`{op.name}` draws random numbers inside of `checkpoint`",
                code="PK0402",
                span=span_of(op),
                help="draw with a key (`pirkit.random`): its numbers are the same again",
            )
    return may_draw(op.definition, op.attribute_values())
