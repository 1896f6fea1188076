"""Expansion of `pir.jet`: derivatives along a curve, in one forward sweep (Taylor mode).

An op without a series rule is decomposed. If a part still has none, derivatives are computed one
after the other by reverse mode twice: the pullback is linear in the cotangent, so the pullback of
the pullback is the forward derivative. Higher ones are those of a copy of the ops, as a function of
the number that runs along the curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from msgspec import Struct
from xdsl.dialects import builtin as mlir
from xdsl.ir import Block, SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import RULE, SOURCE, Builder
from pirkit.dialect.infer import fill_value
from pirkit.dialect.opdef import may_draw
from pirkit.dialect.operation import PirOp, ProgramOp, with_nested
from pirkit.dialect.series_algebra import powers
from pirkit.passes.autodiff import append_backward, latest
from pirkit.passes.autodiff_taylor import SeriesStep
from pirkit.passes.base import RemarkKind
from pirkit.passes.replace_ops import replace
from pirkit.passes.taylor_series import has_series, no_series, prepared, push

Report = Callable[[RemarkKind, str], None]
"""Called with the kind and the text of a remark."""


class _Curve(Struct):
    """The operands of one `pir.jet`. ``given`` maps inputs to their derivatives; None is zero."""

    program: ProgramOp
    op: PirOp
    targets: list[SSAValue]
    given: dict[SSAValue, list[SSAValue | None]]
    order: int


def expand_jet(program: ProgramOp, op: PirOp, report: Report) -> list[SeriesStep]:
    """Replace one `pir.jet`; no derivative before it is left unexpanded.

    Returns the series steps that a later reverse sweep can differentiate as units.

    Raises UnsupportedError (PK0402) if second or higher derivatives go through an op without a
    series that writes or draws, or that has no derivative.
    """
    curve = _read(program, op)
    ops, curve.targets = prepared(curve.targets, list(curve.given))
    series_steps: list[SeriesStep] = []
    try:
        _require_series(ops)
        found = _by_series(curve, ops, series_steps)
    except UnsupportedError as error:
        if curve.order > 1 and not all(map(_repeats, ops)):
            raise
        report("missed", f"{error.message}: reverse mode twice gives the derivative forward")
        found = _by_reverse_mode(curve, {}) if curve.order == 1 else _by_nested_sweeps(curve, ops)
    else:
        report("passed", f"forward mode: a series of order {curve.order} through {len(ops)} ops")
    replace(op, found)
    return series_steps


def _require_series(ops: Sequence[PirOp]) -> None:
    for op in ops:
        if not has_series(op) or op.definition.writes:
            raise no_series(op)


def _read(program: ProgramOp, op: PirOp) -> _Curve:
    count: int = op.attribute("targets")
    numbers: Sequence[int] = op.attribute("given")
    order: int = op.attribute("order")
    values = list(op.operands)
    targets, rest = values[:count], iter(values[count + len(numbers) :])
    given: dict[SSAValue, list[SSAValue | None]] = {}
    for value, number in zip(values[count:], numbers, strict=False):
        derivatives = [next(rest) for _ in range(number)]
        padded = [None if _is_zero(d) else d for d in derivatives]
        given[value] = [*padded, *[None] * (order - number)]
    return _Curve(program, op, targets, given, order)


def _is_zero(value: SSAValue) -> bool:
    return fill_value(value) == 0


def _by_series(
    curve: _Curve, ops: Sequence[PirOp], series_steps: list[SeriesStep]
) -> list[SSAValue]:
    attributes = {SOURCE: mlir.StringAttr("jet"), RULE: mlir.StringAttr("jet")}
    block = cast(Block, curve.op.parent)
    b = Builder(block, curve.op, location=curve.op.location, attributes=attributes)
    series = {
        value: [
            None if d is None else b.wrap(d) * (1 / math.factorial(k))
            for k, d in enumerate(derivatives, 1)
        ]
        for value, derivatives in curve.given.items()
    }
    known = push(b, ops, dict(series), powers(curve.order), series_steps)
    found: list[SSAValue] = []
    for target in curve.targets:
        like = b.wrap(target)
        for k, c in enumerate(known.get(target, [None] * curve.order), 1):
            found.append((b.zeros_like(like) if c is None else c * math.factorial(k)).ssa)
    return found


def _repeats(op: PirOp) -> bool:
    """True if a copy of an op computes the same."""
    inner = [cast(PirOp, o) for o in with_nested(op)]
    draws = any(may_draw(o.definition, o.attribute_values()) for o in inner)
    return not draws and not any(o.definition.writes for o in inner)


def _by_nested_sweeps(curve: _Curve, ops: Sequence[PirOp]) -> list[SSAValue]:
    """Derivatives of the ops along ``x + t x' + t^2 x''/2 + ...``, by ``t`` at 0, one by one."""
    b = Builder(cast(Block, curve.op.parent), curve.op, location=curve.op.location)
    first = b.wrap(next(iter(curve.given)))
    t = b.assign(b.const(0.0, first.dtype))
    mapped: dict[SSAValue, SSAValue] = {}
    for value, derivatives in curve.given.items():
        at, power = b.wrap(value), t
        for k, d in enumerate(derivatives, 1):
            if d is not None:
                at = at + b.wrap(d) * (b.cast(power, b.wrap(d).dtype) * (1 / math.factorial(k)))
            power = power * t
        mapped[value] = at.ssa
    for op in ops:
        b.insert(op.clone(value_mapper=mapped))
    moved: dict[SSAValue, SSAValue] = {}
    series: list[list[SSAValue]] = []
    for target in curve.targets:
        series.append([mapped.get(target, target)])
        for _ in range(curve.order):
            along = _Curve(
                curve.program, curve.op, series[-1][-1:], {t.ssa: [b.ones_like(t).ssa]}, 1
            )
            series[-1] += _by_reverse_mode(along, moved)
    return [latest(d, moved) for each in series for d in each[1:]]


def _by_reverse_mode(curve: _Curve, moved: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """First derivatives, one target after the other; a sweep may decompose what the next reads."""
    b = Builder(cast(Block, curve.op.parent), curve.op, location=curve.op.location)
    ways = [(w, d[0]) for w, d in curve.given.items() if d[0] is not None]

    def swept(targets: list[SSAValue], wrt: list[SSAValue], cotangents: list[SSAValue]):
        now = [[latest(v, moved) for v in values] for values in (targets, wrt, cotangents)]
        return append_backward(curve.program, *now, before=curve.op, moved=moved)

    found: list[SSAValue] = []
    for target in curve.targets:
        like = b.wrap(latest(target, moved))
        cotangent = b.assign(b.zeros_like(like)).ssa
        rows = swept([target], [w for w, _ in ways], [cotangent])
        both = [(r, d) for r, (_, d) in zip(rows, ways, strict=True) if r is not None]
        derivative = None
        if both:
            (derivative,) = swept([r for r, _ in both], [cotangent], [d for _, d in both])
        found.append(b.zeros_like(like).ssa if derivative is None else derivative)
    return [latest(d, moved) for d in found]
