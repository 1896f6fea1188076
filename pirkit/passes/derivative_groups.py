"""Derivatives of a program that one series gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from pirkit.analysis.derivative_sums import Direction, Form, Sum
from pirkit.analysis.differentiation import between
from pirkit.analysis.linear_forms import GRADIENT, JET, Forms
from pirkit.dialect.operation import PirOp, with_nested


class Group(Struct):
    """The values to compute, with their forms, and the ops from the variables to the roots."""

    wanted: dict[SSAValue, Form] = field(default_factory=dict[SSAValue, Form])
    roots: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    ops: list[PirOp] = field(default_factory=list[PirOp])

    @property
    def order(self) -> int:
        """The highest order of a derivative."""
        return max(form.order for form in self.wanted.values())

    def directions(self) -> list[Direction]:
        """All directions of the derivatives."""
        return list(dict.fromkeys(d for m in self.monomials() for d in m))

    def monomials(self) -> list[tuple[Direction, ...]]:
        """The mixed derivatives of all roots, of order 1 and higher."""
        forms = self.wanted.values()
        keys = (key for f in forms for e in f.elements.flat for key in cast(Sum, e))
        return list(dict.fromkeys(m for _, m in keys if m))


def wanted_values(block: Block, forms: Forms) -> dict[SSAValue, Form]:
    """The derivatives that something reads which is not a sum of derivatives itself."""
    found: dict[SSAValue, Form] = {}
    seen: set[PirOp] = set()
    pending = [cast(PirOp, op) for op in block.ops if not op.results or op.regions]
    while pending:
        op = pending.pop()
        if op in seen or op.parent is not block:
            continue
        seen.add(op)
        for value in (v for inner in with_nested(op) for v in inner.operands):
            form = forms.of.get(value)
            if form is not None and form.order:
                found[value] = form
                roots = {root.value for e in form.elements.flat for root, _ in cast(Sum, e)}
                pending += [r.owner for r in roots if isinstance(r.owner, PirOp)]
            elif isinstance(value.owner, PirOp):
                pending.append(value.owner)
    place = {op: i for i, op in enumerate(block.ops)}
    return dict(sorted(found.items(), key=lambda each: place[cast(PirOp, each[0].owner)]))


def groups_of(
    block: Block, wanted: dict[SSAValue, Form], refused: Iterable[SSAValue], least: int
) -> list[Group]:
    """Groups of wanted derivatives whose roots share ops, if one has order ``least`` or more.

    A root that depends on a derivative waits until that is computed. First derivatives that such a
    root depends on make a group as well, because they will be differentiated again. No group has a
    root of ``refused``.
    """
    variables = _variables(wanted.values())
    paths = {root: between(block, [root], vs) for root, vs in variables.items()}
    waiting = {r: ops for r, ops in paths.items() if any(o.name in (GRADIENT, JET) for o in ops)}
    held = {*refused, *waiting}
    again = {op for r, ops in waiting.items() if _in_rows(wanted, r) for op in ops}
    groups: list[Group] = []
    for value, form in wanted.items():
        roots = {root.value for e in form.elements.flat for root, m in cast(Sum, e) if m}
        if held & roots:
            continue
        ops = {op for root in roots for op in paths[root]}
        near = [g for g in groups if not ops.isdisjoint(g.ops) or roots & g.roots.keys()]
        merged = Group({value: form}, dict.fromkeys(roots), [])
        for group in near:
            groups.remove(group)
            merged.wanted |= group.wanted
            merged.roots |= group.roots
            ops.update(group.ops)
        merged.ops = list(ops)
        groups.append(merged)
    chosen = [g for g in groups if g.order >= least or any(v.owner in again for v in g.wanted)]
    place = {op: i for i, op in enumerate(block.ops)}
    for group in chosen:
        group.ops.sort(key=place.__getitem__)
    return chosen


def _variables(forms: Iterable[Form]) -> dict[SSAValue, list[SSAValue]]:
    """The roots of forms, each with the variables that it is differentiated to."""
    found: dict[SSAValue, dict[SSAValue, None]] = {}
    for form in forms:
        for element in form.elements.flat:
            for root, monomial in cast(Sum, element):
                if monomial:
                    held = found.setdefault(root.value, {})
                    held |= dict.fromkeys(d.variable for d in monomial)
    return {root: list(variables) for root, variables in found.items()}


def _in_rows(wanted: dict[SSAValue, Form], root: SSAValue) -> bool:
    """True if a root is differentiated to the columns of a variable."""
    keys = (key for f in wanted.values() for e in f.elements.flat for key in cast(Sum, e))
    return any(r.value is root and any(d.in_rows for d in m) for r, m in keys)
