"""Derivatives that the user wrote: `pir.custom_derivative`.

The rule lies in the program, recorded for stand-ins. A reverse sweep repeats it for the cotangents
that it has; a rule of forward mode is linear in its tangents, so a sweep over it transposes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace
from xdsl.ir import Block, SSAValue

from pirkit.analysis.differentiation import paths_between
from pirkit.analysis.effects import stand_ins
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.passes.autodiff_regions import Sweep
from pirkit.passes.replace_ops import replace as replace_op


class Custom(Struct, frozen=True):
    """The operands of an op, by their roles."""

    outputs: tuple[SSAValue, ...]
    inputs: tuple[SSAValue, ...]
    placeholders: tuple[SSAValue, ...]
    given: tuple[SSAValue, ...]
    """The results of the rule for its placeholders."""
    forward: bool

    @classmethod
    def of(cls, op: PirOp) -> Custom:
        values, stands = list(op.operands), stand_ins(op)
        ends = (0, int(op.attribute("outputs")), stands.start, stands.stop, len(values))
        parts = [tuple(values[a:b]) for a, b in pairwise(ends)]
        return cls(parts[0], parts[1], parts[2], parts[3], bool(op.attribute("forward")))


_LEVELS: Final[WeakKeyDictionary[PirOp, frozenset[SSAValue]]] = WeakKeyDictionary()
"""For each rule that was used: the variables of those derivatives."""


def is_used(op: PirOp) -> bool:
    """Whether a derivative has used the rule of a `pir.custom_derivative`."""
    return op in _LEVELS


def differentiate_custom(back: Sweep, op: PirOp, held: list[Any]) -> None:
    """Hand the cotangents of the results on to the inputs, by the rule.

    As in JAX the rule is that of the innermost derivative. One around it, which is with respect to
    other values, goes through the ops of the rule: those of its result, and of its derivative.
    """
    custom = Custom.of(op)
    b = back.b
    if _LEVELS.setdefault(op, back.shared.wrt) != back.shared.wrt:
        for value, cotangent in zip(custom.outputs, held, strict=True):
            if cotangent is not None and value in back.shared.paths.active:
                back.add(value, cotangent)
        return
    seeds = [
        b.zeros_like(b.wrap(y)) if h is None else cast(Value, h)
        for h, y in zip(held, custom.outputs, strict=True)
    ]
    found = (_transposed if custom.forward else _repeated)(back, op, custom, seeds)
    for value, cotangent in zip(custom.inputs, found, strict=True):
        if cotangent is not None and value in back.shared.paths.active:
            back.add(value, cotangent)


def _repeated(back: Sweep, op: PirOp, custom: Custom, seeds: Sequence[Value]) -> list[Value | None]:
    """A rule of reverse mode, with cotangents in place of its stand-ins.

    The operations between the outputs and the rule are repeated too.
    """
    block = cast(Block, op.parent)
    read = [*custom.placeholders, *(v for v in custom.outputs if v not in custom.inputs)]
    mapped = dict(zip(custom.placeholders, [s.ssa for s in seeds], strict=True))
    for each in _between(block, custom.given, read):
        if not any(v in custom.placeholders for v in each.results):
            back.b.insert(each.clone(value_mapper=mapped))
    return [back.b.wrap(mapped.get(v, v)) for v in custom.given]


def _between(block: Block, ends: Sequence[SSAValue], starts: Sequence[SSAValue]) -> Sequence[PirOp]:
    """All operations that lead from some values to others, conditions and integers among them."""
    reached, found = set(starts), list[PirOp]()
    for op in cast("list[PirOp]", list(block.ops)):
        if any(v in reached for inner in op.walk() for v in inner.operands):
            found.append(op)
            reached.update(op.results)
    needed, kept = set(ends), list[PirOp]()
    for op in reversed(found):
        if not needed.isdisjoint(op.results):
            kept.append(op)
            needed.update(v for inner in op.walk() for v in inner.operands)
    return kept[::-1]


def _transposed(
    back: Sweep, op: PirOp, custom: Custom, seeds: Sequence[Value]
) -> list[Value | None]:
    """A rule of forward mode, which is linear: its derivative with respect to the tangents."""
    paths = paths_between(cast(Block, op.parent), custom.given, custom.placeholders)
    inner = back.over(replace(back.shared, paths=paths, wrt=frozenset(custom.placeholders)))
    for value, seed in zip(custom.given, seeds, strict=True):
        if value in paths.active:
            inner.add(value, seed)
    inner.sweep(paths.ops)
    return [inner.total(v) for v in custom.placeholders]


def remove_marked(op: PirOp) -> None:
    """Replace a `pir.custom_derivative` or `pir.checkpoint` whose derivatives are all taken by its
    values."""
    replace_op(op, list(op.operands[: int(op.attribute("outputs"))]))
