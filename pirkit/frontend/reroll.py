"""Loops that Python unrolled, as operations on whole tensors.

A function that computes the same from each of ``y[0]``, ``y[1]``... and stacks or adds up the
results is recorded as one copy of its body for each slice, and every later step takes that many
times longer.
Operations that are the same but for the slice that they read are a family; one operation on all
slices replaces it, by the batching rules of `vmap`.

A derivative of each ``y[k]`` by one tensor that all share becomes one forward derivative for each
column of that tensor: of ``y`` as a whole, a reverse sweep would give the sum over the slices only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from pirkit.analysis.effects import is_pure, is_variable
from pirkit.analysis.linear_forms import GRADIENT
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.infer import fill_value
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import meta_of
from pirkit.frontend.batched import Batched
from pirkit.frontend.batching_regions import Rows
from pirkit.frontend.slice_families import Arrays, Family, Finder, terms_of
from pirkit.frontend.unrolled_loops import has_unrolled_loops, slice_of
from pirkit.frontend.vmap import all_rows
from pirkit.passes.base import PassContext, Remark
from pirkit.passes.cse import CsePass
from pirkit.passes.replace_ops import erase, replace
from pirkit.runtime.meta import TensorMeta

_MOST_COMPARED: Final = 1 << 16
"""Bytes up to which the content of arrays is compared."""


def reroll(module: ModuleOp, program: ProgramOp, captured: Arrays) -> list[Remark]:
    """Replace what a program computes slice by slice and stacks or adds up.

    ``captured`` has the arrays of the program by the names of its inputs. Arrays that differ from
    slice to slice are stacked in it, and those that are not read any more leave it. Returns why
    loops stay unrolled.
    """
    if not has_unrolled_loops(program):
        return []
    _merge_equal(program, captured)
    CsePass().run(PassContext("cse", sum(1 for _ in program.operations)), module)
    found = Finder(program, captured)
    found.run()
    is_kept = found.keep()
    remarks = found.remarks()
    if is_kept:
        try:
            _emit(found, captured)
        except UnsupportedError as error:  # the program is as it was, but for unused operations
            message = f"a loop stays unrolled: {error.message}"
            return [Remark("missed", "reroll", message, error.span)]
    return remarks


def _merge_equal(program: ProgramOp, captured: Arrays) -> None:
    """Let one input stand for arrays of the same content, unless a derivative is taken by it."""
    known: dict[Hashable, SSAValue] = {}
    for op in program.operations:
        array = captured.get(op.attribute("name")) if op.name == "pd_op.data" else None
        if array is None or is_variable(op.results[0]):
            continue
        if (held := np.asarray(array)).nbytes <= _MOST_COMPARED:
            key = (held.dtype, held.shape, held.tobytes())
            first = known.setdefault(key, op.results[0])
            if first is not op.results[0]:
                op.results[0].replace_all_uses_with(first)


def _emit(found: Finder, captured: Arrays) -> None:
    """Replace the families that are kept by operations on all slices."""
    whole: dict[SSAValue, Any] = {}
    """By a value of the first slice of a family: what stands for the values of all slices."""
    for family in found.families.values():
        if not family.is_kept:
            continue
        first = family.first
        b = Builder(found.block, first, location=first.location)
        if family.source is not None:
            whole[first.results[0]] = Batched(_all_slices(b, first), True)
            continue
        values: dict[SSAValue, Any] = {}
        for k, value in enumerate(first.operands):
            lane = found.lanes.get(value)
            if lane is not None:
                values[value] = whole[lane.family.first.results[lane.result]]
            else:
                values[value] = _of_all(b, family, k, captured)
        made = _derivatives(b, first, values) if first.name == GRADIENT else \
            _batched(b, first, values, family.count)  # fmt: skip
        whole.update(zip(first.results, made, strict=True))
    for lane, users in found.ends.values():
        if lane.family.is_kept:
            held = whole[lane.family.first.results[lane.result]]
            for user in users:
                b = Builder(found.block, user, location=user.location)
                replace(user, [all_rows(b, held, lane.family.count).ssa])
    for last, additions in found.sums.items():
        b = Builder(found.block, last, location=last.location)
        # A term may be another sum that was replaced: operands are read now.
        terms: dict[SSAValue, Value] = {}
        rest: list[Value] = []
        for value in terms_of(additions):
            lane = found.lanes.get(value)
            if lane is None or not lane.family.is_kept or lane.family not in found.added[last]:
                rest.append(b.wrap(value))
                continue
            first = lane.family.first.results[lane.result]
            if first not in terms:
                terms[first] = b.sum(all_rows(b, whole[first], lane.family.count), (0,))
        if terms:
            replace(last, [reduce(b.add, [*rest, *terms.values()]).ssa])
    for op in [cast(PirOp, op) for op in reversed(list(found.block.ops))]:
        if op.results and not any(r.uses for r in op.results):
            if is_pure(op):
                erase(op)
            elif op.name == "pd_op.data" and captured.pop(op.attribute("name"), None) is not None:
                erase(op)


def _all_slices(b: Builder, first: PirOp) -> Value:
    """What a slice takes from one row, taken from all rows."""
    x, cut = b.wrap(first.operands[0]), slice_of(first)
    assert cut is not None
    if cut.cuts:
        axes, starts, ends, drops = zip(*cut.cuts, strict=True)
        gone = tuple([axis for axis, drop in zip(axes, drops, strict=True) if drop])
        flags = {"infer_flags": (1,) * len(axes), "decrease_axis": gone}
        x = b("pd_op.slice", x, axes=axes, starts=starts, ends=ends, **flags)
    return x if cut.drops else b.reshape(x, (x.shape[0], 1, *x.shape[1:]))


def _of_all(b: Builder, family: Family, k: int, captured: Arrays) -> Batched:
    """An operand from outside: the same for all slices, or an array for each of them."""
    values = [family.ops[i].operands[k] for i in range(family.count)]
    if len(set(values)) == 1:
        return Batched(b.wrap(values[0]), False)
    owners = [cast(PirOp, v.owner) for v in values]
    name = f"captured{len(captured)}"
    captured[name] = np.stack([np.asarray(captured[o.attribute("name")]) for o in owners])
    meta, place = cast(TensorMeta, meta_of(values[0].type)), owners[0].attribute("place")
    shape = (family.count, *meta.shape)
    return Batched(b("pd_op.data", name=name, shape=shape, dtype=meta.dtype, place=place), True)


def _batched(b: Builder, op: PirOp, values: Mapping[SSAValue, Any], count: int) -> list[Any]:
    """The results of an operation on all slices."""
    block, clone = Block(), op.clone()
    end = create("pir.yield", clone.results)
    block.add_ops([clone, end])
    rows = Rows.of(b, count, block)
    rows.values.update(values)
    rows.run(clone)
    found = [rows.values[v] for v in end.operands]
    for each in reversed(list(block.ops)):
        each.detach()
        each.erase(safe_erase=False)
    return found


def _derivatives(b: Builder, op: PirOp, values: Mapping[SSAValue, Any]) -> list[Batched]:
    """The derivatives of all slices with respect to shared tensors, one column after the other."""
    target, cotangent = values[op.operands[0]].value, op.operands[1]
    found: list[Batched] = []
    for variable in op.operands[2:]:
        x = b.wrap(variable)
        columns: list[Value] = []
        for place in np.ndindex(*x.shape[1:]):
            unit = np.zeros(x.shape[1:])
            unit[place] = 1.0
            moved = b("pir.jet", target, x, _rows(b, x, unit), targets=1, given=(1,), order=1)
            if fill_value(cotangent) != 1:
                moved = b.multiply(moved, b.wrap(cotangent))
            over = tuple(range(2, moved.rank))
            columns.append(b.sum(moved, over, keepdim=False))
        joined = columns[0] if len(columns) == 1 else b("pd_op.stack", columns, axis=2)
        found.append(Batched(b.reshape(joined, (target.shape[0], *x.shape)), True))
    return found


def _rows(b: Builder, x: Value, row: np.ndarray[Any, Any]) -> Value:
    """A tensor like ``x`` with the same numbers in each row."""
    if (row == 1).all():
        return b.like(1.0, x)
    made = b.assign_value(shape=(1, *row.shape), dtype=x.dtype, values=row.ravel().tolist())
    return b.expand_like(made, x)
