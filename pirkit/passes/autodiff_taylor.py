"""Reverse sweeps over the series of a function at once.

Op by op, the reverse of a series costs twice what the series cost. But ``y = f(x)`` changes by
``f'(x)`` times the change of ``x``, as series along the curve, and most of the series of ``f'(x)``
is there already: coefficient j of the cotangent of ``x`` is the sum over k of those of ``y`` times
coefficient k - j of ``f'(x)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import local_derivatives
from pirkit.dialect.operation import PirOp
from pirkit.dialect.rules.taylor.series import times
from pirkit.passes.autodiff_regions import Sweep


@dataclass(frozen=True, eq=False)
class SeriesStep:
    """The series of a function of one operand: coefficients 1.. of operand and result.

    ``made`` are the ops that compute those of the result.
    """

    op: PirOp
    x: Sequence[Value | None]
    y: Sequence[Value | None]
    made: tuple[PirOp, ...]


class Curves:
    """The series that a sweep meets. ``moved`` tells what stands for values that are gone."""

    def __init__(
        self, series_steps: Sequence[SeriesStep], moved: Mapping[SSAValue, SSAValue]
    ) -> None:
        self._of = {op: each for each in series_steps for op in each.made}
        self._moved = moved
        self._done: set[SeriesStep] = set()

    def holds(self, op: PirOp) -> bool:
        """Whether an op is part of a series."""
        return op in self._of

    def pull_back(self, back: Sweep, op: PirOp) -> bool:
        """Hand cotangents on to the operand of the series that an op is part of.

        False for one whose ops are to be visited one by one: what is inside is read elsewhere.
        """
        found = self._of[op]
        if found in self._done:
            return True
        if not self._serves(back, found):
            for part in found.made:
                self._of.pop(part, None)
            return False
        self._done.add(found)
        cotangents = self._cotangents(back, found)
        if all(g is None for g in cotangents):
            return True
        value, result = (back.b.wrap(v[0]) for v in (found.op.operands, found.op.results))
        xs, ys = ([self._latest(back, v) for v in series] for series in (found.x, found.y))
        rule = local_derivatives.of(found.op.definition)
        derivative = rule(OpCall(back.b, found.op), [value, *xs], [result, *ys])
        for j, x in enumerate([value, *xs]):
            if x is not None and x.ssa in back.shared.paths.active:
                terms = [times(g, derivative[k - j]) for k, g in enumerate(cotangents, 1) if k >= j]
                total = back.b.total(terms)
                if total is not None:
                    back.add(x.ssa, total)
        return True

    def _cotangents(self, back: Sweep, found: SeriesStep) -> list[Value | None]:
        """Those of the coefficients of the result, each of which is taken once.

        A coefficient may be the one before, or the result itself, where that of the operand is 1:
        then its cotangent belongs to that.
        """
        left = {r for op in found.made for r in op.results}
        cotangents: list[Value | None] = []
        for y in found.y:
            if y is None or y.ssa not in left:
                cotangents.append(None)
                continue
            left.discard(y.ssa)
            cotangents.append(back.total(y.ssa))
            back.grads.pop(y.ssa, None)
        return cotangents

    def _serves(self, back: Sweep, found: SeriesStep) -> bool:
        """Whether nobody asks for what the ops of a series hand on to each other.

        Cotangents of complex numbers are conjugates, which rules of slopes know nothing of.
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
