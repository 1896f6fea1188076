"""Reverse mode over a whole Taylor series at once, instead of op by op.

Op by op, the reverse of a series costs about twice the series. For ``y = f(x)`` it can be had for
less: along the curve, a change of ``x`` changes ``y`` by ``f'(x)`` times that change, as a product
of power series, and the forward series has computed most coefficients of ``f'(x)`` already. So the
cotangent of coefficient j of ``x`` is the sum over k >= j of the cotangent of coefficient k of
``y`` times coefficient k - j of ``f'(x)``; in general over all products in which it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import local_derivatives
from pirkit.dialect.operation import PirOp
from pirkit.dialect.rules.taylor.series import scaled, times
from pirkit.dialect.series_algebra import Algebra
from pirkit.passes.autodiff_regions import Sweep
from pirkit.passes.autodiff_support import Part, aligned


class SeriesStep(Struct, frozen=True, eq=False):
    """The series of an elementwise function of one operand: coefficients 1.. of ``x`` and ``y``.

    ``made`` are the ops that compute the coefficients of the result.
    """

    op: PirOp
    x: Sequence[Value | None]
    y: Sequence[Value | None]
    made: tuple[PirOp, ...]
    algebra: Algebra


class Curves:
    """The series steps of a reverse sweep; ``moved`` maps replaced values to new ones."""

    def __init__(
        self, series_steps: Sequence[SeriesStep], moved: Mapping[SSAValue, SSAValue]
    ) -> None:
        self._of = {op: each for each in series_steps for op in each.made}
        self._moved = moved
        self._done: set[SeriesStep] = set()

    def holds(self, op: PirOp) -> bool:
        """True if an op is part of a series step."""
        return op in self._of

    def pull_back(self, back: Sweep, op: PirOp) -> bool:
        """Propagate cotangents through a series step, all coefficients at once.

        Returns False if the ops of the step have to be visited one by one, because an intermediate
        value of the step has a cotangent of its own.
        """
        found = self._of[op]
        if found in self._done:
            # where two series share a coefficient, the other's cotangent may come after the step
            return back.grads.keys().isdisjoint(op.results)
        if not self._serves(back, found):
            for part in found.made:
                self._of.pop(part, None)
            return False
        self._done.add(found)
        parts = aligned(back.b, self._cotangents(back, found))
        there = [p for p in parts if p.value is not None]
        if not there:
            return True
        cotangents, support = [p.value for p in parts], there[0].support
        value, result = (back.b.wrap(v[0]) for v in (found.op.operands, found.op.results))
        xs, ys = ([self._latest(back, v) for v in series] for series in (found.x, found.y))
        rule = local_derivatives.of(found.op.definition)
        back.b.algebra = found.algebra
        derivative = rule(OpCall(back.b, found.op), [value, *xs], [result, *ys])
        for j, x in enumerate([value, *xs]):
            if x is not None and x.ssa in back.shared.paths.active:
                terms = [
                    scaled(times(g, derivative[i]), factor)
                    for g, pairs in zip(cotangents, found.algebra.pairs[1:], strict=True)
                    for a, i, factor in pairs
                    if a == j
                ]
                total = back.b.total(terms)
                if total is not None:
                    back.add(x.ssa, total, support, support is not None)
        return True

    def _cotangents(self, back: Sweep, found: SeriesStep) -> list[Part]:
        """The cotangents of the coefficients of the result; each value is taken once.

        Two coefficients may be one value, or a coefficient may not be computed by this step at all
        (it is then an earlier value, for instance where the operand's coefficient is 1). Such a
        value keeps its cotangent for the op that defines it.
        """
        left = {r for op in found.made for r in op.results}
        cotangents: list[Part] = []
        for y in found.y:
            if y is None or y.ssa not in left:
                cotangents.append(Part(None))
                continue
            left.discard(y.ssa)
            cotangents.append(back.part(y.ssa))
            back.grads.pop(y.ssa, None)
        return cotangents

    def _serves(self, back: Sweep, found: SeriesStep) -> bool:
        """True if no intermediate value of the step has a cotangent or is in ``wrt``.

        Complex functions are excluded: their cotangents are conjugated, which the rules for local
        derivatives do not do.
        """
        if found.op.parent is None or back.b.wrap(found.op.results[0]).dtype.is_complex:
            return False
        made = {r for op in found.made for r in op.results}
        results = {v.ssa for v in found.y if v is not None}
        return made.isdisjoint(back.shared.wrt) and back.grads.keys().isdisjoint(made - results)

    def _latest(self, back: Sweep, value: Value | None) -> Value | None:
        if value is None:
            return None
        ssa = value.ssa
        while ssa in self._moved:
            ssa = self._moved[ssa]
        return back.b.wrap(ssa)
