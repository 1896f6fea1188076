"""Gathers by constant indices as slices: padding that reflects, repeats or wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, cast

from msgspec import Struct
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.alias import AliasClasses, alias_classes
from pirkit.analysis.constants import array_of
from pirkit.analysis.execution_order import operations
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import TAKE
from pirkit.dialect.operation import PirOp, declares
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats
from pirkit.passes.replace_ops import replace, stops_gradient
from pirkit.runtime.meta import UNKNOWN, TensorMeta

_MOST_RUNS: Final = 4
"""Runs of an index that become slices; a gather reads more of them at once as fast."""
_MOST_INDICES: Final = 1 << 16


class _Run(Struct):
    """Indices from ``first`` on, ``step`` apart."""

    first: int
    step: int
    count: int = 1


class SliceGathersPass(Pass):
    """Replace gathers by constant indices of few runs by slices and their concatenation.

    Padding that reflects, repeats or wraps around, and indexing by a list, are gathers. Where their
    indices are constant and have at most four runs with step 1, -1 or 0 (or one run of any step),
    slices tell the compiler what is read: a fused kernel then copies whole vectors, without looking
    up and checking an index for each element.

    ::

        %i = pd_op.full_int_array() {value = [2, 1, 0, 1, 2, 3]} : () -> tensor<6xi64>
        %1 = pd_op.gather(%x, %i) {axis = 1} : (tensor<2x4xf32>, tensor<6xi64>) -> tensor<2x6xf32>
        // becomes
        %a = pd_op.flip(pd_op.slice(%x) {axes = [1], starts = [0], ends = [3]}) {axis = [1]}
        %b = pd_op.slice(%x) {axes = [1], starts = [1], ends = [4]}
        %1 = pd_op.concat([%a, %b]) {axis = 1} : ... -> tensor<2x6xf32>
    """

    name = "slice-gathers"
    stats = Stats(sliced="gathers replaced by slices")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            classes = ctx.analysis(alias_classes, program)
            for op in ctx.each(list(operations(program.block))):
                if declares(op, TAKE):
                    found = _sliced(op, classes)
                    if found is not None:
                        ctx.rewrote("slice-gather", op)
                        ctx.count("sliced")
                        _rewrite(op, *found)


def _sliced(op: PirOp, classes: AliasClasses) -> tuple[int, list[_Run]] | None:
    """The axis and the runs of a gather that slices replace."""
    x, index, *more = op.operands
    meta = meta_of(x.type)
    if more or not isinstance(meta, TensorMeta):  # the axis may be an operand
        return None
    if any(map(classes.is_written, (*op.operands, *op.results))):
        return None
    if stops_gradient(op.results[0]) and not stops_gradient(x):
        return None
    indices, axis = array_of(index, classes, _MOST_INDICES), cast(int, op.attribute("axis"))
    size = meta.shape[axis]
    if indices is None or indices.ndim != 1 or not indices.size or size == UNKNOWN:
        return None
    if indices.min() < -size or indices.max() >= size:
        return None  # the kernel says which index is wrong
    runs = _runs([i % size for i in cast(list[int], indices.tolist())])
    return None if runs is None else (axis % meta.rank, runs)


def _runs(indices: Sequence[int]) -> list[_Run] | None:
    """The indices as runs; None if there are too many."""
    found: list[_Run] = []
    for index in indices:
        last = found[-1] if found else None
        if last is not None and last.count == 1:
            last.step = index - last.first
        if last is not None and index == last.first + last.step * last.count:
            last.count += 1
        elif len(found) == _MOST_RUNS:
            return None
        else:
            found.append(_Run(index, 0))
    for before, run in pairwise(found):
        last = before.first + before.step * (before.count - 1)
        if run.step == 1 and before.step != 1 and last == run.first - 1:
            # What both runs could have goes to the one that is copied as it is.
            before.count, run.first, run.count = before.count - 1, last, run.count + 1
    found = [run for run in found if run.count]
    is_near = all(abs(run.step) < 2 for run in found)
    return found if is_near or (len(found) == 1 and found[0].step) else None


def _rewrite(op: PirOp, axis: int, runs: Sequence[_Run]) -> None:
    block = op.parent
    assert block is not None
    b = Builder(block, before=op, location=op.location)
    parts = [_part(b, b.wrap(op.operands[0]), axis, run) for run in runs]
    out = parts[0] if len(parts) == 1 else b.concat(parts, axis=axis)
    out.ssa.name_hint = op.results[0].name_hint
    replace(op, [out.ssa])


def _part(b: Builder, x: Value, axis: int, run: _Run) -> Value:
    """The slice of one run."""
    reach = run.step * (run.count - 1)
    low, high = sorted((run.first, run.first + reach))
    if abs(run.step) > 1:
        part = b.strided_slice(
            x, axes=(axis,), starts=(low,), ends=(high + 1,), strides=(abs(run.step),)
        )
    else:
        part = b.slice(x, axes=(axis,), starts=(low,), ends=(high + 1,))
    if run.count == 1 or run.step > 0:
        return part
    if run.step < 0:
        return b.flip(part, axis=(axis,))
    return b.expand(part, shape=[run.count if k == axis else -1 for k in range(x.rank)])
