"""One series that gives all derivatives of a group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.ir import Block, SSAValue

from pirkit.analysis.derivative_sums import Direction, Form, Root, Sum, shape_of
from pirkit.analysis.linear_forms import GRADIENT, JET
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import RULE, SOURCE, Builder, Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.series_algebra import Monomial, Rows, rows_for
from pirkit.passes.autodiff_taylor import SeriesStep
from pirkit.passes.derivative_groups import Group
from pirkit.passes.series_directions import Seeds, seeds_for
from pirkit.passes.taylor_series import has_series, no_series, prepared, push
from pirkit.runtime.meta import UNKNOWN

STEPS: Final[WeakKeyDictionary[ProgramOp, list[SeriesStep]]] = WeakKeyDictionary()
"""The series steps of the series in a program, for reverse sweeps through them."""

_ATTRIBUTES: Final = {SOURCE: mlir.StringAttr("gradient"), RULE: mlir.StringAttr("jet")}


def emit_series(program: ProgramOp, group: Group) -> tuple[int, int]:
    """Replace the wanted values of a group; returns the number of rows and of ops of the series.

    Raises UnsupportedError (PK0402) where an op has no series, or nested sweeps cost less.
    """
    for value, form in group.wanted.items():
        sizes = shape_of(value)
        if UNKNOWN in sizes[form.lead :] or sizes.count(UNKNOWN) > 1:
            raise UnsupportedError("only a number of rows may be unknown")
    block = program.block
    base, seeds = seeds_for(group.ops, group.directions(), list(group.roots))
    polynomials = {m: _expanded(m, seeds) for m in group.monomials()}
    rows = rows_for(_functionals(group, polynomials))
    shares = _Shares(group)
    if shares.of_rows(base, rows) >= shares.of_nested_sweeps(block):
        raise UnsupportedError(f"its {rows.algebra.size} rows cost more than nested sweeps")
    variables = list(dict.fromkeys(d.variable for d in group.directions()))
    ops, roots = prepared(list(group.roots), variables)
    missing = next((op for op in ops if not has_series(op) or op.definition.writes), None)
    if missing is not None:
        raise no_series(missing)
    if not ops:
        raise UnsupportedError("what is differentiated is a variable itself")
    first = ops[0]
    emitter = _Emitter(block, first, rows, dict(zip(group.roots, roots, strict=True)))
    b = emitter.builder(first)
    given = {
        v: [None if c is None else b.wrap(c.ssa) for c in series]
        for v, series in emitter.seeded(base).items()
    }
    steps: list[SeriesStep] = []
    known = push(b, ops, given, rows.algebra, steps, behind=True)
    STEPS.setdefault(program, []).extend(steps)
    for value, form in group.wanted.items():
        found = emitter.value(value, form, known, polynomials)
        value.replace_all_uses_with(found.ssa)
    return rows.algebra.size + 1, len(b.emitted)


Polynomial = dict[Monomial, float]


def _expanded(monomial: Sequence[Direction], seeds: Seeds) -> Polynomial:
    """A mixed derivative as a sum of those along the independent directions."""
    found: Polynomial = {(): 1.0}
    for direction in monomial:
        step: Polynomial = {}
        for m, v in found.items():
            for i, factor in seeds[direction].items():
                key = tuple(sorted((*m, i)))
                step[key] = step.get(key, 0.0) + v * factor
        found = step
    return found


def _in_coefficients(polynomial: Polynomial) -> Polynomial:
    """A sum of derivatives as one of Taylor coefficients, which are divided by factorials."""
    return {m: v * math.prod(map(math.factorial, Counter(m).values()))
            for m, v in polynomial.items()}  # fmt: skip


def _by_root(element: Sum, polynomials: dict[Any, Polynomial]) -> dict[Root, Polynomial]:
    """The factor of an element for each root."""
    found: dict[Root, Polynomial] = {}
    for (root, monomial), factor in element.items():
        part = polynomials[monomial] if monomial else {(): 1.0}
        held = found.setdefault(root, {})
        for m, v in _in_coefficients(part).items():
            held[m] = held.get(m, 0.0) + factor * v
    return found


def _functionals(group: Group, polynomials: dict[Any, Polynomial]) -> list[Polynomial]:
    elements = (cast(Sum, e) for form in group.wanted.values() for e in form.elements.flat)
    found = (p for e in elements for p in _by_root(e, polynomials).values())
    derivatives = ({m: v for m, v in p.items() if m} for p in found)
    return [p for p in derivatives if p]


class _Shares:
    """Costs of computing derivatives, where computing all ops of a group once costs 1.

    A derivative of some roots costs the share of the ops that these roots depend on. A set of roots
    is an int with one bit for each root.
    """

    def __init__(self, group: Group) -> None:
        self.ops = group.ops
        self.roots = {root: 1 << i for i, root in enumerate(group.roots)}
        self._below = dict(self.roots)
        for op in reversed(group.ops):
            mask = self._read_by(op.results)
            for value in op.operands:
                self._below[value] = self._below.get(value, 0) | mask
        self._known: dict[int, float] = {}

    def _read_by(self, values: Iterable[SSAValue]) -> int:
        """The roots that depend on at least one of the values."""
        return _union(self._below.get(v, 0) for v in values)

    def _share(self, roots: int) -> float:
        if roots not in self._known:
            read = [bool(self._read_by(op.results) & roots) for op in self.ops]
            self._known[roots] = sum(read) / len(self.ops) if self.ops else 1.0
        return self._known[roots]

    def of_rows(self, base: Sequence[Direction], rows: Rows) -> float:
        """The cost of the rows of a series: that of the roots that depend on their variables."""
        variables = [{base[i].variable for m in f for i in m} for f in rows.functionals[1:]]
        return sum(self._share(self._read_by(each)) for each in variables)

    def of_nested_sweeps(self, block: Block) -> float:
        """The approximate cost of nested reverse sweeps, which doubles with each order."""
        reached, found = {root: (0, mask) for root, mask in self.roots.items()}, 0.0
        for each in block.ops:
            op = cast(PirOp, each)
            held = [reached[v] for v in op.operands if v in reached]
            if held and op.results:
                order, mask = max(o for o, _ in held), _union(m for _, m in held)
                if op.name in (GRADIENT, JET):
                    order += 1
                    found += 2**order * self._share(mask)
                reached |= dict.fromkeys(op.results, (order, mask))
        return found


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found


class _Emitter:
    """Emits the seeds and the results of a series."""

    def __init__(
        self, block: Block, first: PirOp, rows: Rows, roots: dict[SSAValue, SSAValue]
    ) -> None:
        self.block = block
        self.first = first
        self.rows = rows
        self.roots = roots
        self.place = {op: i for i, op in enumerate(block.ops)}

    def builder(self, before: PirOp) -> Builder:
        """A builder with the origin of a series."""
        return Builder(self.block, before, location=before.location, attributes=_ATTRIBUTES)

    def seeded(self, base: Sequence[Direction]) -> dict[SSAValue, list[Value | None]]:
        """The series of the variables: rows of degree 1 along the directions that move them."""
        found: dict[SSAValue, list[Value | None]] = {}
        for variable in dict.fromkeys(d.variable for d in base):
            moves = [(i, d) for i, d in enumerate(base) if d.variable is variable]
            series: list[Value | None] = []
            for functional in self.rows.functionals[1:]:
                parts = [(functional.get((i,), 0.0), d) for i, d in moves]
                series.append(self._seed(variable, [(f, d) for f, d in parts if f]))
            found[variable] = series
        return found

    def _seed(self, variable: SSAValue, parts: Sequence[tuple[float, Direction]]) -> Value | None:
        owner, first = variable.owner, self.first
        if isinstance(owner, PirOp) and self.place.get(owner, -1) >= self.place[first]:
            first = cast(PirOp, owner.next_op)
        b = self.builder(first)
        x = b.wrap(variable)
        terms: list[Value | None] = []
        columns, elements = np.zeros(_columns(x, 1)), np.zeros(_columns(x, 0))
        for factor, direction in parts:
            if isinstance(direction.by, SSAValue):
                terms.append(self._tensor(b, direction.by, first) * factor)
            elif direction.in_rows:
                columns[direction.by] += factor
            else:
                elements[direction.by] += factor
        if columns.any():
            terms.append(_filled(b, x, columns, 1))
        if elements.any():
            terms.append(_filled(b, x, elements, 0))
        return b.total(terms)

    def _tensor(self, b: Builder, seed: SSAValue, first: PirOp) -> Value:
        owner = seed.owner
        if isinstance(owner, PirOp) and self.place.get(owner, -1) >= self.place[first]:
            raise UnsupportedError("a tangent is computed after what it is a tangent of")
        return b.wrap(seed)

    def value(
        self,
        value: SSAValue,
        form: Form,
        known: dict[SSAValue, Any],
        polynomials: dict[Any, Polynomial],
    ) -> Value:
        """A wanted value, from the rows of its roots."""
        b = self.builder(cast(PirOp, value.owner))
        like = b.wrap(value)
        parts = [_by_root(cast(Sum, e), polynomials) for e in form.elements.flat]
        whole = self._of_whole(parts, list(np.ndindex(form.elements.shape)))
        if whole is not None:
            terms = [self._combined(b, root, polynomial, known) for root, polynomial in whole]
            total = b.total(terms)
            if total is None:
                return self._zeros(b, like, like.rank)
            return b.reshape_like(total, like)
        columns: list[Value] = []
        for part in parts:
            terms = [
                self._picked(b, root, self._combined(b, root.value, polynomial, known))
                for root, polynomial in part.items()
            ]
            total = b.total(terms)
            if total is None:
                total = self._zeros(b, like, form.lead)
            columns.append(b.reshape(total, (*like.shape[: form.lead], 1)))
        if len(columns) == 1:
            return b.reshape_like(columns[0], like)
        return b.reshape_like(b.concat(columns, axis=form.lead), like)

    def _of_whole(
        self, parts: Sequence[dict[Root, Polynomial]], places: Sequence[Any]
    ) -> list[tuple[SSAValue, Polynomial]] | None:
        """The sum of whole roots that gives all elements at once, as pairs of root and factors.

        None if some element is not the same sum of the elements at its own place.
        """
        found: dict[SSAValue, Polynomial] | None = None
        for place, part in zip(places, parts, strict=True):
            alone = all(np.prod(_trail(r)) == len(parts) == 1 for r in part)
            if not alone and not all(r.place == place for r in part):
                return None
            if not all(np.prod(_trail(r)) == len(parts) for r in part):
                return None
            own = {r.value: polynomial for r, polynomial in part.items()}
            if found is not None and own != found:
                return None
            found = own
        return None if found is None else list(found.items())

    def _combined(
        self, b: Builder, root: SSAValue, polynomial: Polynomial, known: dict[SSAValue, Any]
    ) -> Value | None:
        """A sum of derivatives of a root."""
        value = self.roots.get(root, root)
        series = known.get(value)
        terms: list[Value | None] = []
        for m, factor in self.rows.coordinates(polynomial).items():
            row = b.wrap(value) if not m else series[m - 1] if series else None
            terms.append(None if row is None else b.scaled(b.wrap(row.ssa), factor))
        return b.total(terms)

    def _picked(self, b: Builder, root: Root, value: Value | None) -> Value | None:
        """One element of each row."""
        trail = _trail(root)
        if value is None or np.prod(trail) == 1:
            return value if value is None else b.reshape(value, self._rows(root, value))
        lead = value.rank - len(trail)
        axes = list(range(lead, value.rank))
        ends = [p + 1 for p in root.place]
        found = b.slice(value, axes=axes, starts=list(root.place), ends=ends)
        return b.reshape(found, self._rows(root, value))

    def _rows(self, root: Root, value: Value) -> tuple[int, ...]:
        return value.shape[: value.rank - len(root.place)]

    def _zeros(self, b: Builder, like: Value, lead: int) -> Value:
        if UNKNOWN in like.shape:  # its size would be read from the value that these zeros replace
            raise UnsupportedError("a derivative is zero for an unknown number of rows")
        if like.rank == lead:
            return b.zeros_like(like)
        behind = range(lead, like.rank)
        part = b.slice(
            like, axes=list(behind), starts=[0 for _ in behind], ends=[1 for _ in behind]
        )
        return b.zeros_like(part)


def _trail(root: Root) -> tuple[int, ...]:
    shape = shape_of(root.value)
    return shape[len(shape) - len(root.place) :]


def _columns(x: Value, lead: int) -> tuple[int, ...]:
    return tuple([max(n, 1) for n in x.shape[lead:]])


def _filled(b: Builder, x: Value, factors: Any, lead: int) -> Value:
    """A tensor like ``x`` with these numbers in each row."""
    if (factors == factors.flat[0]).all():
        return b.like(float(factors.flat[0]), x)
    if lead == 1 and x.rank == 2:
        columns: list[Value] = []
        for k, factor in enumerate(factors):
            column = b.slice(x, axes=[1], starts=[k], ends=[k + 1])
            columns.append(b.like(float(factor), column))
        return b.concat(columns, axis=1)
    values = b.assign_value(
        shape=(*[1] * lead, *factors.shape), dtype=x.dtype, values=factors.ravel().tolist()
    )
    return b.expand_like(values, x)
