"""Excludes ops without native code, so that one such op does not make a whole kernel non-native."""

from __future__ import annotations

from pirkit.analysis.effects import WRITE_BACK
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.map_expr.tree import Apply, Opaque, Reduction, Scatter, walk
from pirkit.dialect.operation import declares
from pirkit.dialect.types import meta_of
from pirkit.lowering.codegen.lower.scalar_ops import is_supported
from pirkit.lowering.codegen.lower.split_scatter import SCATTERED
from pirkit.lowering.codegen.lower.statement_nest import combiner_of, extremum_of
from pirkit.lowering.fusion.index_equations import Equations, Unit
from pirkit.runtime.meta import TensorMeta

COMPLEX = Opaque("complex numbers have no native code")


OPEN = Opaque("its sizes are known only when the program runs")
EMPTY = Opaque("its result has no elements")
UPDATE = Opaque("it writes some elements of a parameter, which a kernel would copy whole")


def drop_non_native(found: Equations, static: bool = False) -> None:
    """Make ops opaque that have no native code, those that update a part of a parameter, which the
    pass `inplace` lets write there, and if only ``static`` ones count those of unknown sizes."""
    for op, unit in list(found.units.items()):
        why = OPEN if static and _is_open(unit) else UPDATE if _updates(unit) else why_not(unit)
        if why is not None:
            found.opaque[op] = why
            del found.units[op]


def _updates(unit: Unit) -> bool:
    """Whether an op scatters to a parameter or input, to which its result is written back."""
    if not isinstance(unit.value, Scatter) or not unit.op.operands:
        return False
    target = unit.op.operands[0]
    backs = [u.operation for u in unit.result.uses if u.operation.name == WRITE_BACK]
    return declares(target.owner, SOURCE) and any(b.operands[1] is target for b in backs)


def _is_open(unit: Unit) -> bool:
    metas = [meta_of(v.type) for v in (*unit.tensors, unit.result)]
    return any(isinstance(m, TensorMeta) and not m.is_static for m in metas)


def why_not(unit: Unit) -> Opaque | None:
    """Why an op by itself has no native code; None if it may have."""
    metas = [meta_of(v.type) for v in (*unit.tensors, unit.result)]
    if any(isinstance(m, TensorMeta) and m.dtype.is_complex for m in metas):
        return COMPLEX
    if isinstance(metas[-1], TensorMeta) and metas[-1].numel == 0:
        return EMPTY
    value = unit.value
    if isinstance(value, Reduction) and not (combiner_of(value.op) or extremum_of(value.op)):
        return Opaque(f"`{value.op}` has no native code")
    if isinstance(value, Scatter) and unit.meta.dtype not in SCATTERED:
        return Opaque(
            f"{unit.meta.dtype.name} has no native code that writes at data-dependent indices"
        )
    for node in (n for root in unit.roots for n in walk(root)):
        if isinstance(node, Apply) and not is_supported(node):
            return Opaque(f"`{node.op}` has no native code")
    return None
