"""The independent directions of a series: several variables may move the same inputs of a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.ir import SSAValue

from pirkit.analysis.constant_operands import operands_of
from pirkit.analysis.derivative_sums import Direction, Form, shape_of
from pirkit.analysis.element_moves import moved, moves
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.operation import PirOp

Seeds = dict[Direction, dict[int, float]]
"""Direction -> its factors for the independent directions, by the number of each."""
Array = np.ndarray[Any, Any]


def seeds_for(
    ops: Sequence[PirOp], directions: Sequence[Direction], roots: Sequence[SSAValue]
) -> tuple[list[Direction], Seeds]:
    """A basis of the directions, and each direction as a combination of the basis.

    ``x`` may be a column of ``z`` that is differentiated as well: where all that ``z`` moves is
    what ``x`` moves, both are one direction. Directions are compared by what they add to the values
    that other ops than moves of elements read.
    """
    known = [d for d in directions if isinstance(d.by, tuple)]
    if len({d.variable for d in known}) <= 1 and len({d.in_rows for d in known}) <= 1:
        return list(directions), {d: {i: 1.0} for i, d in enumerate(directions)}
    rows = _Entries(known).rows(ops, set(roots))
    pivots, reduced = _reduced(rows, len(known))
    base = [known[p] for p in pivots] + [d for d in directions if d not in known]
    number = {d: i for i, d in enumerate(base)}
    seeds: Seeds = {d: {number[d]: 1.0} for d in base}
    for column, direction in enumerate(known):
        if direction not in seeds:
            found = {i: float(reduced[i, column]) for i in range(len(pivots))}
            seeds[direction] = {i: v for i, v in found.items() if abs(v) > 1e-12}
    return base, seeds


class _Entries:
    """The contributions of directions to the values that enter a computation, as a matrix."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        self.directions = directions
        self.lead = int(all(d.in_rows for d in directions))
        self.of: dict[SSAValue, Form] = {}
        self.found: list[Array] = []

    def rows(self, ops: Sequence[PirOp], roots: set[SSAValue]) -> Array:
        """A row for each element of each value that enters."""
        results = {r for op in ops for r in op.results}
        for variable in dict.fromkeys(d.variable for d in self.directions):
            if variable not in results:
                self.of[variable] = self._own(variable)
        for op in ops:
            given = [v for v in operands_of(op) if v in self.of]
            form = self._moved(op) if given and moves(op) else None
            if form is None:
                for value in given:
                    self._enter(value)
            for result in op.results:
                if any(d.variable is result for d in self.directions):
                    own = self._own(result)
                    form = own if form is None else _added(form, own)
            if form is not None:
                self.of[op.results[0]] = form
        for root in roots & self.of.keys():
            self._enter(root)
        return np.array(self.found or [np.zeros(len(self.directions))])

    def _own(self, value: SSAValue) -> Form:
        shape = shape_of(value)
        if -1 in shape[self.lead :] or (not self.lead and np.prod(shape) > 1024):
            raise UnsupportedError("the directions are of different kinds", code="PK0402")
        elements = np.empty(shape[self.lead :], object)
        for place in np.ndindex(elements.shape):
            row = np.zeros(len(self.directions))
            for i, d in enumerate(self.directions):
                if d.variable is value:
                    own = place if d.in_rows == bool(self.lead) else place[1:]
                    row[i] = d.by in ((), own) if d.in_rows else d.by == own
            elements[place] = row
        return Form(self.lead, elements)

    def _moved(self, op: PirOp) -> Form | None:
        forms = [self.of.get(v) or self._none(v) for v in operands_of(op)]
        return moved(op, forms)

    def _none(self, value: SSAValue) -> Form:
        shape = [1 if n < 0 else n for n in shape_of(value)[self.lead :]]
        elements = np.empty(shape, object)
        for place in np.ndindex(elements.shape):
            elements[place] = np.zeros(len(self.directions))
        return Form(self.lead, elements)

    def _enter(self, value: SSAValue) -> None:
        self.found += [cast(Array, row) for row in self.of[value].elements.flat]


def _added(x: Form, y: Form) -> Form:
    elements = np.empty(x.elements.shape, object)
    for place in np.ndindex(elements.shape):
        elements[place] = x.elements[place] + y.elements[place]
    return Form(x.lead, elements)


def _reduced(rows: Array, columns: int) -> tuple[list[int], Array]:
    """The pivot columns and rows of the reduced echelon form."""
    matrix, pivots = np.unique(rows, axis=0).astype(float), list[int]()
    for column in range(columns):
        at = len(pivots)
        if at == len(matrix):
            break
        best = at + int(np.argmax(np.abs(matrix[at:, column])))
        if abs(matrix[best, column]) < 1e-9:
            continue
        matrix[[at, best]] = matrix[[best, at]]
        matrix[at] /= matrix[at, column]
        others = np.arange(len(matrix)) != at
        matrix[others] -= np.outer(matrix[others, column], matrix[at])
        pivots.append(column)
    return pivots, matrix
