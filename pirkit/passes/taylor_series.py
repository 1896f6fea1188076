"""Propagation of Taylor series through the ops between an input and a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.ir import SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import LIST
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, jet, local_derivatives
from pirkit.dialect.operation import PirOp, declares, origin_of, span_of
from pirkit.dialect.rules.taylor.series import LINEAR, Series
from pirkit.dialect.series_algebra import Algebra
from pirkit.dialect.types import meta_of
from pirkit.passes.autodiff import between, latest
from pirkit.passes.autodiff_taylor import SeriesStep
from pirkit.passes.decompose import decompose_op
from pirkit.passes.taylor_regions import REGIONS, Sweep
from pirkit.runtime.meta import VecMeta

AnySeries = Any
"""A Series, or a list of them for a list value."""


def has_series(op: PirOp) -> bool:
    """True if a series rule exists for the op, or the op is linear or structural."""
    short = op.name.removeprefix("pd_op.")
    held = short in LINEAR or declares(op, LIST) or op.name in REGIONS
    return held or jet.get(op.definition) is not None


def no_series(op: PirOp) -> UnsupportedError:
    """The error for an op for which `has_series` is false."""
    return UnsupportedError(
        f"`{op.name}` has no Taylor series",
        code="PK0402",
        span=span_of(op),
        notes=origin_of(op),
        help="give the op a `jet` or a `decompose` rule, or use nested `grad`",
    )


def prepared(
    targets: Sequence[SSAValue], wrt: Sequence[SSAValue]
) -> tuple[list[PirOp], list[SSAValue]]:
    """Decompose the ops from ``wrt`` to the targets that have no series.

    Returns the ops between and the targets after that.
    """
    owners = (t.owner for t in targets)
    block = next((o.parent if isinstance(o, PirOp) else o for o in owners), None)
    moved: dict[SSAValue, SSAValue] = {}
    _decompose_all(between(cast(Any, block), targets, wrt), moved)
    targets = [latest(t, moved) for t in targets]
    return between(cast(Any, block), targets, wrt), targets


def _decompose_all(ops: Sequence[PirOp], moved: dict[SSAValue, SSAValue] | None = None) -> None:
    """Decompose ops that have no series; ``moved`` receives the replaced results."""
    for op in ops:
        if not has_series(op) and decompose.get(op.definition):
            decompose_op(op, lambda made: not has_series(made), moved=moved, on_refusal=_defer)


def _defer(op: PirOp, error: UnsupportedError) -> None:
    """Accept that an op is not decomposed; the caller reports that it has no series."""


def push(
    b: Builder,
    ops: Sequence[PirOp],
    given: dict[SSAValue, AnySeries],
    algebra: Algebra,
    series_steps: list[SeriesStep] | None = None,
    *,
    behind: bool = False,
) -> dict[SSAValue, AnySeries]:
    """The given series together with those of all values that the ops compute.

    Coefficients are rows 1.. of the algebra; None is zero. A value that is given and computed has
    the sum of both. ``series_steps`` receives the elementwise functions that a reverse sweep can
    differentiate as one unit. ``behind`` emits the series of each op right after it.

    Raises UnsupportedError, with the name and location of the op, for an op without a series.
    """
    known = dict(given)
    order, b.algebra = algebra.size, algebra
    for op in ops:
        location, attributes = b.location, b.attributes
        b.location = op.location
        before = len(b.emitted)
        if behind:
            b.before = op.next_op
        _push_one(b, op, known, algebra)
        for result in given.keys() & set(op.results):
            pairs = zip(given[result], known[result], strict=True)
            known[result] = [
                b.total(pair) if known[result] is not given[result] else pair[0] for pair in pairs
            ]
        if series_steps is not None and local_derivatives.get(op.definition) is not None:
            x, y = (known.get(v, [None] * order) for v in (op.operands[0], op.results[0]))
            made = tuple(b.emitted[before:])
            series_steps.append(SeriesStep(op, x, y, made, algebra))
        b.location, b.attributes = location, attributes
    return known


def _push_one(b: Builder, op: PirOp, known: dict[SSAValue, AnySeries], algebra: Algebra) -> None:
    order = algebra.size
    if op.name == "pir.combine":
        known[op.results[0]] = [known.get(v, [None] * order) for v in op.operands]
        return
    if declares(op, LIST):
        parts = known[op.operands[0]]
        picked = parts if op.name == "pir.split" else [parts[op.attribute("index")]]
        for result, part in zip(op.result_slots, picked, strict=True):
            if result is not None:
                known[result] = part
        return
    if op.name in REGIONS:
        sweep = Sweep(b, order, _decompose_all, lambda inner, given: push(b, inner, given, algebra))
        REGIONS[op.name](sweep, op, known)
        return
    call = OpCall(b, op)
    slots = zip(op.definition.operands, op.operand_slots, strict=False)
    series = [_of(v, known, order) for slot, v in slots if slot.kind is None]
    rule = jet.get(op.definition)
    if rule is not None:
        found = rule(call, *series)
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    elif op.name.removeprefix("pd_op.") in LINEAR:
        results = _linear(call, series, order)
    else:
        raise no_series(op)
    for result, found in zip(op.result_slots, results, strict=False):
        if result is not None and found is not None:
            known[result] = found


def _of(value: SSAValue | None, known: dict[SSAValue, AnySeries], order: int) -> AnySeries:
    if value is None:
        return [None] * order
    found = known.get(value)
    if found is None:
        meta = meta_of(value.type)
        zero: Series = [None] * order
        return [zero] * len(meta) if isinstance(meta, VecMeta) else zero
    return found


def _linear(call: OpCall, series: list[AnySeries], order: int) -> tuple[AnySeries, ...]:
    """Apply a linear op to each coefficient of its first operand."""
    tensors = call.tensors()
    first, rest = tensors[0], tensors[1:]
    rows = [_applied(call, first, rest, series[0], k) for k in range(order)]
    return tuple(
        [
            _by_element(call, result, [None if row is None else row[i] for row in rows])
            for i, result in enumerate(call.op.result_slots)
        ]
    )


def _by_element(call: OpCall, result: SSAValue | None, column: Sequence[Value | None]) -> AnySeries:
    """The coefficients of a result; for a list, those of each element."""
    meta = None if result is None else meta_of(result.type)
    if not isinstance(meta, VecMeta):
        return column
    rows = [[None] * len(meta) if v is None else call.b.split_vec(v) for v in column]
    return [[row[i] for row in rows] for i in range(len(meta))]


def _applied(
    call: OpCall, first: Any, rest: tuple[Any, ...], series: AnySeries, k: int
) -> tuple[Value | None, ...] | None:
    if isinstance(first, tuple):
        values = cast("tuple[Value, ...]", first)
        picked = [s[k] for s in series]
        if all(p is None for p in picked):
            return None
        operand: Any = [
            call.b.zeros_like(v) if p is None else p for p, v in zip(picked, values, strict=True)
        ]
    else:
        operand = series[k]
        if operand is None:
            return None
    found = call.again(operand, *rest)
    return cast("tuple[Value | None, ...]", found if isinstance(found, tuple) else (found,))
