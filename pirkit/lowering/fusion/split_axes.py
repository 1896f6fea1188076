"""Reshapes that would make a kernel read at quotients of sums of loops.

Native code replaces quotients of one loop by a loop for each digit, and reads at strides. No loops
are the digits of a sum that the divisor does not respect (85 channels in each of 3 groups, of an
image in blocks of 16): there each lane divides for itself and is gathered. Storing the operand of
the reshape first costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from xdsl.ir import SSAValue

from pirkit.index.expr import Expr, Floor
from pirkit.index.extent import expected
from pirkit.index.index_maps import Index
from pirkit.lowering.fusion.index_equations import Unit
from pirkit.lowering.fusion.refusal import Refusal
from pirkit.lowering.fusion.uses import Reader
from pirkit.runtime.machine_costs import LAUNCH_ADDS, LOOKUP_ADDS, MEMORY_BYTE_ADDS


def splits_axes(
    unit: Unit, members: Mapping[SSAValue, Unit], is_free: Callable[[SSAValue], bool], most: int
) -> Refusal | None:
    """The refusal of a reshape whose kernel would divide sums of loops, if that costs more than
    ``most`` additions for each element; None for other ops.
    """
    inside = [r for r in unit.reads if r.source in members]
    if most >= LOOKUP_ADDS or not any(len(e.iters) > 1 for r in inside for e in r.index):
        return None
    moved = 2 * unit.meta.dtype.itemsize * MEMORY_BYTE_ADDS
    if expected(prod(unit.meta.shape)) * (LOOKUP_ADDS - moved) < LAUNCH_ADDS:
        return None
    if any(_divides_sums(r.index) for r in unit.reads):
        return None
    needs = Reader(unit, members, (), is_free).needs()
    if needs is None or not any(_divides_sums(i) for at in needs.others.values() for i in at):
        return None
    reason = "each element would be read at a quotient of several loops: no strides lead to it"
    ops = (members[inside[0].source].op, unit.op)
    return Refusal("cost", ops, reason, remedy=f"fuse{{recompute={LOOKUP_ADDS}}}")


def _divides_sums(index: Index) -> bool:
    return any(map(_divides_sum, index))


def _divides_sum(e: Expr) -> bool:
    floors = [atom for atom, _ in e.terms if isinstance(atom, Floor)]
    return any(len(f.inner.iters) > 1 or _divides_sum(f.inner) for f in floors)
