"""Which values are sums of derivatives of other values, with constant factors.

A `pir.gradient` whose cotangent is constant, and a `pir.jet` along a direction, differentiate what
may be a derivative itself. What moves, adds and scales derivatives is followed as well, so that
``grad(grad(u)[:, 0])[:, 0] + grad(grad(u)[:, 1])[:, 1]`` is known to be the Laplacian of ``u``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct, field
from xdsl.ir import Block, SSAValue

from pirkit.analysis.constant_operands import evaluated, operands_of
from pirkit.analysis.derivative_sums import (
    Array,
    Direction,
    Form,
    Root,
    Sum,
    derived,
    dtype_of,
    scaled,
    shape_of,
    static,
    total,
    weighted,
)
from pirkit.analysis.differentiation import between, stops_gradient
from pirkit.analysis.effects import is_pure, is_variable
from pirkit.analysis.element_moves import moved, moves
from pirkit.analysis.row_dependence import depends_by_rows
from pirkit.dialect.infer import fill_value
from pirkit.dialect.kinds import RESHAPE
from pirkit.dialect.operation import PirOp, declares, with_nested
from pirkit.dialect.ops.control.derivatives import GRADIENT, JET
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import UNKNOWN, TensorMeta

MOST_COLUMNS: Final = 128
"""Numbers in a row of a variable up to which each is a direction of its own."""
_MOST_CONSTANT: Final = 1 << 20
_MOST_TRAIL: Final = 16


class Forms(Struct):
    """The forms of the values of a block that are derivatives."""

    block: Block
    of: dict[SSAValue, Form] = field(default_factory=dict[SSAValue, Form])
    _constants: dict[SSAValue, Array | None] = field(default_factory=dict[SSAValue, Any])
    _numbers: dict[Direction, int] = field(default_factory=dict[Direction, int])
    _inner: set[SSAValue] = field(default_factory=set[SSAValue])
    _by_rows: dict[tuple[SSAValue, SSAValue, int], bool] = field(default_factory=dict[Any, bool])

    def find(self) -> Forms:
        """Follow all ops of the block in order."""
        self._inner = _differentiated(self.block)
        for op in cast("Iterator[PirOp]", iter(self.block.ops)):
            if op.name == GRADIENT:
                self._gradient(op)
            elif op.name == JET:
                self._jet(op)
            elif (
                len(op.results) == 1
                and not stops_gradient(op.results[0])
                and any(v in self.of for v in operands_of(op))
            ):
                found = self._linear(op)
                if found is not None:
                    self.of[op.results[0]] = found
        return self

    # --- constants ---

    def constant(self, value: SSAValue) -> Array | None:
        """The elements of a value that the program determines."""
        if value not in self._constants:
            self._constants[value] = self._constant(value)
        return self._constants[value]

    def _constant(self, value: SSAValue) -> Array | None:
        meta, owner = meta_of(value.type), value.owner
        if not isinstance(meta, TensorMeta) or not isinstance(owner, PirOp) or is_variable(value):
            return None
        shape = static(meta.shape)
        number = fill_value(value)
        if isinstance(number, int | float):
            return np.broadcast_to(np.asarray(number, meta.dtype.np), shape)
        if not is_pure(owner) or len(owner.results) != 1 or np.prod(shape) > _MOST_CONSTANT:
            return None
        given = [self.constant(v) for v in operands_of(owner)]
        return None if any(g is None for g in given) else evaluated(owner, given)

    # --- derivatives ---

    def plain(self, value: SSAValue, lead: int | None = None) -> Form:
        """A value as itself."""
        shape = shape_of(value)
        if lead is None:
            lead = min(len(shape), 1)
            if np.prod(static(shape[1:])) > _MOST_TRAIL:
                lead = len(shape)
        elements = np.empty(static(shape[lead:]), object)
        for place in np.ndindex(elements.shape):
            elements[place] = {(Root(value, place), ()): 1.0}
        return Form(lead, elements)

    def _gradient(self, op: PirOp) -> None:
        count: int = op.attribute("targets")
        cotangent = self.constant(op.operands[1]) if count == 1 else None
        if cotangent is None:
            return
        target = op.operands[0]
        for variable, result in zip(op.operands[2:], op.results, strict=True):
            if _is_complex(variable):  # its gradient has two parts, of which a series has one
                continue
            # All elements move together where each depends on its own: as rows they would have a
            # direction for each column, and mixed derivatives of these.
            rank = len(shape_of(variable))
            leads = (1,) if rank < 2 or _is_taken_apart(result) else (rank, 1)
            tried = (self._in_rows(target, cotangent, variable, lead) for lead in leads)
            found = next((form for form in tried if form is not None), None)
            if found is None and (result in self._inner or target in self.of):
                found = self._of_one(target, cotangent, variable)
            if found is not None:
                self.of[result] = found

    def _in_rows(
        self, target: SSAValue, cotangent: Array, variable: SSAValue, lead: int
    ) -> Form | None:
        """The derivative of the sum of rows each of which depends on one row of the variable.

        Rows are the indices of the first ``lead`` axes.
        """
        value, factor = _summed(target)
        shape, rows = shape_of(variable), shape_of(value)
        if not shape or len(rows) < lead or shape[:lead] != rows[:lead]:
            return None
        form = self.of.get(value) or self.plain(value, lead if lead == len(rows) else None)
        if value is target:
            weights = cotangent[(0,) * lead]
            if not (cotangent == weights).all():
                return None
        else:
            weights = np.full(form.elements.shape, float(cotangent.reshape(())) * factor)
        columns = np.empty(static(shape[lead:]), object)
        if form.lead != lead or columns.size > MOST_COLUMNS:
            return None
        if not self._rowwise(form, variable, lead) or self._turns(form, [variable]):
            return None
        summed = weighted(form.elements, weights)
        for place in np.ndindex(columns.shape):
            columns[place] = derived(summed, {Direction(variable, place): 1.0}, self._numbers)
        return Form(lead, columns)

    def _of_one(self, target: SSAValue, cotangent: Array, variable: SSAValue) -> Form | None:
        """The derivative of one number by few."""
        shape = shape_of(variable)
        if np.prod(static(shape_of(target))) != 1 or np.prod(static(shape)) > _MOST_TRAIL:
            return None
        form = self.of.get(target) or self.plain(target, 0)
        if UNKNOWN in shape or form.elements.size != 1 or self._turns(form, [variable]):
            return None
        summed = weighted(form.elements, cotangent.reshape(form.elements.shape))
        elements = np.empty(shape, object)
        for place in np.ndindex(shape):
            elements[place] = derived(
                summed, {Direction(variable, place, in_rows=False): 1.0}, self._numbers
            )
        return Form(0, elements)

    def _rowwise(self, form: Form, variable: SSAValue, lead: int) -> bool:
        roots = {root.value for e in form.elements.flat for root, _ in cast(Sum, e)}
        for key in [(root, variable, lead) for root in roots]:
            if key not in self._by_rows:
                self._by_rows[key] = depends_by_rows(*key) is None
        return all(self._by_rows[root, variable, lead] for root in roots)

    def _jet(self, op: PirOp) -> None:
        count: int = op.attribute("targets")
        numbers: Sequence[int] = op.attribute("given")
        order: int = op.attribute("order")
        targets, rest = op.operands[:count], iter(op.operands[count + len(numbers) :])
        way: dict[Direction, float] = {}
        for variable, number in zip(op.operands[count:], numbers, strict=False):
            series = [next(rest) for _ in range(number)]
            if any(fill_value(m) != 0 for m in series[1:]):
                return
            if series and fill_value(series[0]) != 0:
                way |= self._directions(variable, series[0])
        for i, target in enumerate(targets):
            form = self.of.get(target) or self.plain(target)
            if self._turns(form, list(op.operands[count : count + len(numbers)])):
                continue
            for k in range(order):
                elements = np.empty(form.elements.shape, object)
                for place in np.ndindex(elements.shape):
                    elements[place] = derived(form.elements[place], way, self._numbers)
                form = Form(form.lead, elements)
                self.of[op.results[i * order + k]] = form

    def _turns(self, form: Form, variables: list[SSAValue]) -> bool:
        """Whether the direction of a derivative depends on the variables.

        The derivative with respect to them then has a term besides the mixed derivative.
        """
        keys = [key for e in form.elements.flat for key in cast(Sum, e)]
        ways = {d.by for _, monomial in keys for d in monomial if isinstance(d.by, SSAValue)}
        return any(w in variables or between(self.block, [w], variables) for w in ways)

    def _directions(self, variable: SSAValue, seed: SSAValue) -> dict[Direction, float]:
        """A tangent as a sum of directions."""
        known, shape = self.constant(seed), shape_of(variable)
        if known is None:
            return {Direction(variable, seed): 1.0}
        in_rows = bool(shape) and bool((known == known[:1]).all())
        one = known[0] if in_rows else known
        if np.count_nonzero(one) > _MOST_TRAIL:
            return {Direction(variable, seed): 1.0}
        return {
            Direction(variable, place, in_rows): float(one[place])
            for place in np.ndindex(one.shape)
            if one[place]
        }

    # --- what moves, adds and scales ---

    def _linear(self, op: PirOp) -> Form | None:
        known = next(v for v in operands_of(op) if v in self.of)
        if dtype_of(known) is not dtype_of(op.results[0]):
            return None  # a sum may convert what it adds
        lead = self.of[known].lead
        if moves(op):
            given = [self._operand(v, lead) for v in operands_of(op)]
            return None if any(g is None for g in given) else moved(op, cast("list[Form]", given))
        rule = _RULES.get(op.name)
        return None if rule is None else rule(self, op)

    def _operand(self, value: SSAValue, lead: int) -> Form | None:
        if fill_value(value) == 0:
            elements = np.empty(static(shape_of(value)[lead:]), object)
            for place in np.ndindex(elements.shape):
                elements[place] = {}
            return Form(lead, elements)
        found = self.of.get(value) or self.plain(value, lead)
        return found if found.lead == lead and self.constant(value) is None else None

    def sum_of(self, op: PirOp, sign: float) -> Form | None:
        """A sum or difference of two tensors of one shape."""
        x, y = op.operands
        for form, other in ((x, y), (y, x)) if sign == 1 else ((x, y),):
            # Python's `sum` begins with such a zero
            if (
                form in self.of
                and fill_value(other) == 0
                and shape_of(op.results[0]) == shape_of(form)
            ):
                return self.of[form]
        lead = self.of[x if x in self.of else y].lead
        if shape_of(x) != shape_of(y):
            return None
        p, q = self._operand(x, lead), self._operand(y, lead)
        if p is None or q is None:
            return None
        elements = np.empty(p.elements.shape, object)
        for place in np.ndindex(elements.shape):
            elements[place] = total([(p.elements[place], 1.0), (q.elements[place], sign)])
        return Form(lead, elements)

    def times_constant(self, op: PirOp) -> Form | None:
        """A form times or over a constant that is alike in all rows."""
        x, y = op.operands
        form, other = (self.of.get(x), y) if x in self.of else (self.of.get(y), x)
        known = self.constant(other)
        divides = op.name == "pd_op.divide"
        if form is None or known is None or (divides and other is x) or known.dtype.kind == "c":
            return None
        value = x if other is y else y
        if shape_of(op.results[0]) != shape_of(value):
            return None
        if known.ndim > len(shape_of(value)) - form.lead:
            if (known == known.flat[:1]).all():
                known = known.flat[0]
            elif form.lead != 1 or not (known == known[:1]).all():
                return None
            else:
                known = known[0]
        factors = np.broadcast_to(known, form.elements.shape)
        return scaled(form, 1.0 / factors if divides else factors)


def _is_complex(value: SSAValue) -> bool:
    return cast(TensorMeta, meta_of(value.type)).dtype.is_complex


def _sum(forms: Forms, op: PirOp) -> Form | None:
    return forms.sum_of(op, 1.0)


def _difference(forms: Forms, op: PirOp) -> Form | None:
    return forms.sum_of(op, -1.0)


def _scale(forms: Forms, op: PirOp) -> Form | None:
    form, number = forms.of.get(op.operands[0]), op.attribute("scale")
    if form is None or op.attribute("bias") or op.operand_slots[1] is not None:
        return None
    if isinstance(number, complex):  # the coefficients of forms are real
        return None
    return scaled(form, np.full(form.elements.shape, float(number)))


def _reduced(forms: Forms, op: PirOp) -> Form | None:
    """A sum or mean along axes after the rows."""
    form = forms.of[op.operands[0]]
    rank = form.lead + form.elements.ndim
    axes = sorted({a % rank for a in op.attribute("axis") or range(rank)})
    if not axes or axes[0] < form.lead or 0 in form.elements.shape:
        return None
    inner = tuple([a - form.lead for a in axes])
    keeps = bool(op.attribute("keepdim"))
    left = [a for a in range(form.elements.ndim) if a not in inner]
    order = np.transpose(form.elements, (*left, *inner))
    flat = order.reshape(*[form.elements.shape[a] for a in left], -1)
    factor = 1.0 if op.name == "pd_op.sum" else 1.0 / flat.shape[-1]
    elements = np.empty(flat.shape[:-1], object)
    for place in np.ndindex(elements.shape):
        elements[place] = total([(e, factor) for e in flat[place]])
    if keeps:
        elements = elements.reshape([1 if a in inner else n for a, n in
                                     enumerate(form.elements.shape)])  # fmt: skip
    return Form(form.lead, elements)


def _trace(forms: Forms, op: PirOp) -> Form | None:
    form = forms.of[op.operands[0]]
    if form.lead or form.elements.ndim != 2 or op.attribute("offset"):
        return None
    elements = np.empty((), object)
    count = min(form.elements.shape)
    elements[()] = total([(form.elements[i, i], 1.0) for i in range(count)])
    return Form(0, elements)


_RULES: Final[dict[str, Callable[[Forms, PirOp], Form | None]]] = {
    "pd_op.add": _sum,
    "pd_op.subtract": _difference,
    "pd_op.multiply": Forms.times_constant,
    "pd_op.divide": Forms.times_constant,
    "pd_op.scale": _scale,
    "pd_op.sum": _reduced,
    "pd_op.mean": _reduced,
    "pd_op.trace": _trace,
}


def _is_taken_apart(value: SSAValue) -> bool:
    """Whether ops of linear forms move elements of a value, or sum them along some of the axes."""
    pending, seen = [value], {value}
    for held in pending:
        for op in [cast(PirOp, use.operation) for use in held.uses]:
            rule, is_same = _RULES.get(op.name), op.name == "pd_op.assign"
            if rule in (_reduced, _trace):
                if rule is _trace or np.prod(static(shape_of(op.results[0]))) > 1:
                    return True
            elif rule is not None or is_same:
                pending += [r for r in op.results if r not in seen]
                seen.update(op.results)
            elif moves(op):
                return True
    return False


def _differentiated(block: Block) -> set[SSAValue]:
    """The values on which what is differentiated depends."""
    found: set[SSAValue] = set()
    for op in cast("Iterator[PirOp]", reversed(list(block.ops))):
        if op.name in (GRADIENT, JET):
            found.update(op.operands[: op.attribute("targets")])
        if not found.isdisjoint(op.results):
            found.update(v for inner in with_nested(op) for v in inner.operands)
    return found


def _summed(target: SSAValue) -> tuple[SSAValue, float]:
    """The tensor and the factor of which a value of one element is ``factor * sum(tensor)``.

    For any other value that is the value itself, with factor 1.
    """
    value, factor = target, 1.0
    while np.prod(static(shape_of(value))) == 1:
        owner = value.owner
        if not isinstance(owner, PirOp) or not owner.operands or stops_gradient(value):
            break
        inner = owner.operands[0]
        if _RULES.get(owner.name) is _reduced:
            shape = shape_of(inner)
            axes = owner.attribute("axis")
            if axes and len(set(axes)) != len(shape):
                break
            if owner.name == "pd_op.mean":
                if UNKNOWN in shape or 0 in shape:
                    break
                factor /= float(np.prod(shape))
        elif not declares(owner, RESHAPE) and owner.name != "pd_op.assign":
            break
        value = inner
    return (value, factor) if value is not target else (target, 1.0)
