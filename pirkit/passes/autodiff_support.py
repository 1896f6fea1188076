"""The support of a cotangent: the elements on which it may be other than zero.

The cotangent of a branch of `where` is zero on the elements that are taken from the other branch. A
rule multiplies it by a derivative, which may be infinite or NaN there: ``where(x > 0, sqrt(x), 0)``
at 0 gives ``0 * inf``. So a reverse sweep carries, beside a cotangent, the conditions under which
an element of it counts (its support), through the elementwise ops that compute the branch. Where
the cotangent leaves them, ``where(support, cotangent, 0)`` removes what the local derivatives have
made of the zeros. This is the "double where" that people write by hand, at the other end of the
branch. Since the mask is a `where` itself, derivatives of any order through it are right as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from msgspec import Struct
from xdsl.ir import Block, SSAValue

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import DATA_MOVEMENT, ELEMENTWISE
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import vjp
from pirkit.dialect.operation import PirOp
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.dialect.rules.taylor.series import LINEAR
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Cotangent = Any
"""A Value, a list of cotangents for a list value, or None for zero."""

WHERE: Final = "pd_op.where"
_TAKEN: Final = {"x": True, "y": False}
_MOST: Final = 4
"""Conditions in a support at most; more are combined into one by ops."""


class Moved(Struct, frozen=True):
    """A support that an op has moved: the result's elements that depend on supported ones."""

    op: PirOp
    slot: str
    support: Support


Literal = tuple["SSAValue | Moved", bool]
"""A condition, or a moved support, and whether it has to hold."""


class Support(Struct, frozen=True):
    """The elements under one of ``terms``, each of which is conditions that hold together."""

    terms: tuple[tuple[Literal, ...], ...]


class Part(Struct, frozen=True):
    """A cotangent that is zero outside its support, which is everywhere if it is None.

    If it is ``spoiled``, its elements outside the support are arbitrary instead.
    """

    value: Cotangent
    support: Support | None = None
    spoiled: bool = False


class BlockSweep(Protocol):
    """A reverse sweep over one block; see `pirkit.passes.autodiff`."""

    b: Builder

    @property
    def active(self) -> set[SSAValue]:
        """The values that get cotangents."""
        ...

    def add(
        self,
        value: SSAValue,
        cotangent: Cotangent,
        support: Support | None = None,
        spoiled: bool = False,
    ) -> None:
        """Add a contribution to the cotangent of a value."""
        ...

    def apply(self, op: PirOp, parts: list[Part]) -> None:
        """Apply the rule of an op to the cotangents of its results."""
        ...

    def visit(self, op: PirOp) -> None:
        """Propagate the cotangents of an op's results to its operands."""
        ...


def give(
    back: BlockSweep,
    op: PirOp,
    part: Part,
    given: Sequence[tuple[str, SSAValue, Cotangent]],
    made: Sequence[PirOp],
) -> None:
    """Add the contributions of an op to its operands, by slot, for a cotangent with a support.

    ``made`` are the ops that its rule has emitted.
    """
    if not keeps_elements(op):
        for slot, value, cotangent in given:
            support = None if part.support is None else _through(op, slot, part.support)
            back.add(value, cotangent, support if isinstance(cotangent, Value) else None)
        return
    spoils = [
        part.spoiled or (op.name != WHERE and _reads(cotangent, made, part.value))
        for _, _, cotangent in given
    ]
    broadcast = [v for (_, v, _), is_spoiled in zip(given, spoils, strict=True)
              if is_spoiled and not _same_sizes(v, op)]  # fmt: skip
    if broadcast and UNKNOWN not in back.b.wrap(op.results[0]).shape:
        # The rule sums over what an operand is broadcast to: that has to be masked before.
        _broadcast(back, op, broadcast, part)
        return
    for (slot, value, cotangent), is_spoiled in zip(given, spoils, strict=True):
        if not _same_sizes(value, op):
            back.add(value, cotangent)
        elif op.name != WHERE:
            back.add(value, cotangent, part.support, is_spoiled)
        elif (taken := _branch(back.b, part, op, slot)) is not None:
            back.add(value, cotangent, taken.support, taken.spoiled)


def _broadcast(back: BlockSweep, op: PirOp, values: Sequence[SSAValue], part: Part) -> None:
    """Differentiate an op after its operands are broadcast by ops of their own."""
    b = Builder(cast(Block, op.parent), op, location=op.location)
    made: list[PirOp] = []
    for value in values:
        wide = b.expand_like(b.wrap(value), b.wrap(op.results[0]))
        made.append(b.emitted[-1])
        back.active.add(wide.ssa)
        for index, operand in enumerate(op.operands):
            if operand is value:
                op.operands[index] = wide.ssa
    back.apply(op, [part])
    for expand in made:
        back.visit(expand)


def aligned(b: Builder, parts: Sequence[Part]) -> list[Part]:
    """The parts with one support, the union of theirs."""
    there = [p.support for p in parts if p.value is not None]
    if all(s == there[0] for s in there):
        return list(parts)
    terms = [t for s in there if s is not None for t in s.terms]
    union = None if None in there else _simplified(b, terms)
    return [Part(cleaned(b, p).value, union) for p in parts]


def joined(b: Builder, parts: Sequence[Part]) -> Part:
    """The sum of tensors."""
    shared: dict[Support | None, list[Part]] = {}
    for part in parts:
        shared.setdefault(part.support, []).append(part)
    sums = aligned(b, [
        Part(_total(b, [p.value for p in held]), support, any(p.spoiled for p in held))
        for support, held in shared.items()
    ])  # fmt: skip
    if len(sums) < 2:
        return sums[0] if sums else Part(None)
    return Part(_total(b, [p.value for p in sums]), sums[0].support)


def _total(b: Builder, values: Sequence[Value | None]) -> Value | None:
    """The sum of cotangents. What some scatter to zeros is scattered to the sum of the others: the
    gradient of a table that is also a matrix, as of tied embeddings, is one sum less.
    """
    late, others = list[Value](), list[Value]()
    for value in values:
        if value is not None:
            (late if _scatters_to_zeros(value.ssa.owner) else others).append(value)
    found = b.total(others or late[:1])
    for value in late if others else late[1:]:
        _, index, updates = map(b.wrap, cast(PirOp, value.ssa.owner).operands)
        found = b.scatter_nd_add(found, index, updates)
    return found


def _scatters_to_zeros(owner: Any) -> bool:
    if not isinstance(owner, PirOp) or owner.name != "pd_op.scatter_nd_add":
        return False
    return owner.results[0].first_use is None and fill_value(owner.operands[0]) == 0


def cleaned(b: Builder, part: Part) -> Part:
    """The cotangent with zeros outside its support."""
    if not part.spoiled or part.support is None or part.value is None:
        return part
    only = part.support.terms[0][0] if len(part.support.terms) == 1 else None
    if only is not None and len(part.support.terms[0]) == 1 and isinstance(only[0], SSAValue):
        held = b.wrap(only[0])
        masked = b.where(held, part.value, 0) if only[1] else b.where(held, 0, part.value)
    else:
        masked = b.where(_condition(b, part.support), part.value, 0)
    return Part(masked, part.support)


def _branch(b: Builder, part: Part, op: PirOp, slot: str) -> Part | None:
    """The contribution of a `where` to one branch, without its value; None if it selects none.

    The sizes of both are equal and known.
    """
    literal: Literal = (op.operands[0], _TAKEN[slot])
    opposite: Literal = (op.operands[0], not _TAKEN[slot])
    terms = ((),) if part.support is None else part.support.terms
    if (literal,) in terms:  # all elements that are taken are in the support
        return Part(None, Support(((literal,),)))
    both = [(*[o for o in t if o != literal], literal) for t in terms if opposite not in t]
    return Part(None, _simplified(b, both), part.spoiled) if both else None


def _through(op: PirOp, slot: str, support: Support) -> Support | None:
    """The support after an op that moves or adds elements."""
    linear = op.name.removeprefix("pd_op.") in LINEAR and vjp.get(op.definition) is not None
    kind, alone = op.definition.kind, len(op.results) == 1
    if linear and alone and (kind in DATA_MOVEMENT or kind == "reduction"):
        return Support((((Moved(op, slot, support), True),),))
    return None


def keeps_elements(op: PirOp) -> bool:
    """True if each element of the result is computed from the same elements of the operands, or
    of what the operands are broadcast to. Parts of complex numbers have an axis of their own."""
    if op.definition.kind != ELEMENTWISE or op.name not in PRIMITIVES or len(op.results) != 1:
        return False
    metas = [meta_of(v.type) for v in (op.results[0], *op.operands)]
    rank, *ranks = [m.rank for m in metas if isinstance(m, TensorMeta)]
    return rank == max(ranks, default=rank)


def _same_sizes(value: SSAValue, op: PirOp) -> bool:
    """True if a value has the sizes of the result of an op, and they are known."""
    (meta, like) = (meta_of(v.type) for v in (value, op.results[0]))
    if not isinstance(meta, TensorMeta) or not isinstance(like, TensorMeta):
        return False
    return meta.shape == like.shape and UNKNOWN not in meta.shape


def _reads(value: Value, made: Iterable[PirOp], given: Value) -> bool:
    """True if a cotangent that ``made`` compute from ``given`` reads numbers of the program."""
    inside, pending, seen = set(made), [value.ssa], set[SSAValue]()
    while pending:
        ssa = pending.pop()
        if ssa is given.ssa or ssa in seen:
            continue
        seen.add(ssa)
        op = ssa.owner
        if isinstance(op, PirOp) and op in inside:
            slots = zip(op.definition.operands, op.operand_slots, strict=False)
            unread = op.definition.reads_meta_only
            pending += [v for slot, v in slots if v is not None and slot.name not in unread]
        elif _is_float(ssa) and fill_value(ssa) is None:
            return True
    return False


def _is_float(value: SSAValue) -> bool:
    meta = meta_of(value.type)
    return isinstance(meta, TensorMeta) and (meta.dtype.is_float or meta.dtype.is_complex)


def _simplified(b: Builder, terms: Sequence[tuple[Literal, ...]]) -> Support:
    """The support of the terms that no other one contains; one condition if they are many."""
    sets = {frozenset(t): t for t in terms}
    least = [t for s, t in sets.items() if not any(other < s for other in sets)]
    support = Support(tuple(least))
    if sum(map(len, least)) <= _MOST:
        return support
    return Support((((_condition(b, support).ssa, True),),))


_CONDITIONS: Final[WeakKeyDictionary[Builder, dict[Support, Value]]] = WeakKeyDictionary()
"""The conditions that a builder has emitted: later ops may read them."""


def _condition(b: Builder, support: Support) -> Value:
    """The support as a tensor of bools that can be broadcast to the cotangent."""
    known = _CONDITIONS.setdefault(b, {})
    found = known.get(support)
    if found is None or found.ssa.owner.parent is not b.block:
        found = known[support] = _computed(b, support)
    return found


def _computed(b: Builder, support: Support) -> Value:
    found: Value | None = None
    for term in support.terms:
        together: Value | None = None
        for held, is_true in term:
            one = _moved(b, held) if isinstance(held, Moved) else b.wrap(held)
            one = one if is_true else b.logical_not(one)
            together = one if together is None else b.logical_and(together, one)
        found = together if found is None else b.logical_or(found, cast(Value, together))
    return cast(Value, found)


def _moved(b: Builder, moved: Moved) -> Value:
    """The moved support: where the derivative of a linear op of non-negative factors maps ones."""
    out = b.wrap(moved.op.results[0])
    ones = b.where(_condition(b, moved.support), b.ones_like(out), 0)
    rule = vjp.of(moved.op.definition)
    found = rule(OpCall(b, moved.op, frozenset((moved.slot,))), ones)
    first = cast(Value, found[0] if isinstance(found, tuple) else found)
    return b.not_equal(first, b.zeros_like(first))
