"""Whether a value depends on a variable row by row: row i on row i only.

Then the derivative of the sum of the value is the derivative of each row (see `passes/taylor.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Struct
from xdsl.ir import Block, SSAValue

from pirkit.analysis.differentiation import between, block_of
from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.kinds import DERIVATIVE, ELEMENTWISE, LIST
from pirkit.dialect.map_expr.call import MapCall, call_of, maps_of, tensors_of
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import Load, Opaque, Scatter, roots, walk
from pirkit.dialect.map_expr.tree import Value as Element
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose, index_maps
from pirkit.dialect.operation import PirOp, declares
from pirkit.dialect.types import meta_of
from pirkit.index.extent import Undecided
from pirkit.index.index_maps import space
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta

_SOME_SIZE: Final = 7919
"""The number used for all dynamic sizes: a prime, so that no reshape of static sizes splits it."""


class Mixed(Struct, frozen=True):
    """Why rows are not independent, and the op that mixes them."""

    reason: str
    op: PirOp | None = None


def depends_by_rows(root: SSAValue, variable: SSAValue, lead: int = 1) -> Mixed | None:
    """Return None if row i of ``root`` depends only on row i of ``variable``.

    Rows are the indices of the first ``lead`` axes. A variable with one element has one row, and
    every value that depends on it trivially depends on that row.
    """
    held = meta_of(variable.type)
    assert isinstance(held, TensorMeta)
    if held.numel == 1:
        return None
    block = cast(Block, block_of(variable))
    active, rows = {variable}, held.shape[:lead]
    for op in between(block, [root], [variable]):
        if not declares(op, DERIVATIVE) and not _preserves_rows(op, active, rows):
            return Mixed(f"`{op.name}` mixes rows", op)
        active.update(op.results)
    if root not in active:
        return Mixed("the value does not depend on the variable row by row")
    return None


def _preserves_rows(op: PirOp, active: set[SSAValue], rows: Sequence[int]) -> bool:
    """True if row i of each result depends only on row i of the active operands.

    The index maps decide, where the op has any. Otherwise the op is elementwise by its record, or
    its decomposition preserves rows.
    """
    results = [meta for result in op.results for meta in _tensors(result)]
    if not all(_has_rows(meta, rows) for meta in results):
        return False
    if declares(op, LIST):
        return True
    elements = _elements(op)
    if elements is not None:
        return all(_reads_own_row(op, e, active, rows) for e in elements if e is not None)
    if op.definition.base.kind == ELEMENTWISE:
        given = [m for v in op.operands if v in active for m in _tensors(v)]
        return all(_has_rows(m, rows) and m.rank == results[0].rank for m in given)
    return _parts_keep_rows(op, active, rows)


def _tensors(value: SSAValue) -> tuple[TensorMeta, ...]:
    meta = meta_of(value.type)
    items = meta.items if isinstance(meta, VecMeta) else (meta,)
    return tuple([m for m in items if isinstance(m, TensorMeta)])


def _has_rows(meta: TensorMeta, rows: Sequence[int]) -> bool:
    return meta.rank >= len(rows) and meta.shape[: len(rows)] == tuple(rows)


def _elements(op: PirOp) -> Sequence[Element | None] | None:
    """The operand elements that a result element is computed from, by index maps; None without."""
    rule = library_spaces.get(op.definition)
    try:
        if rule is None:
            found = maps_of(op, _sized, _sized) if index_maps.get(op.definition) else None
            return None if isinstance(found, Opaque) else found
        call = call_of(op, _sized, _sized)
        return (rule(call),) if isinstance(call, MapCall) else None
    except Undecided:
        return None


def _sized(value: SSAValue) -> Meta | None:
    """The meta of a value with `_SOME_SIZE` for every dynamic size."""
    meta = meta_of(value.type)
    if isinstance(meta, VecMeta):
        return VecMeta(tuple([_with_sizes(item) for item in meta.items]))
    return _with_sizes(meta)


def _with_sizes(meta: Any) -> Any:
    if not isinstance(meta, TensorMeta):
        return meta
    return meta.with_shape([_SOME_SIZE if n == UNKNOWN else n for n in meta.shape])


def _reads_own_row(op: PirOp, element: Element, active: set[SSAValue], rows: Sequence[int]) -> bool:
    """True if the element reads active operands only in its own row."""
    if isinstance(element, Scatter):
        return False
    operands = tensors_of(op)
    own = space([_SOME_SIZE if n == UNKNOWN else n for n in rows])
    loads = (n for root in roots(element) for n in walk(root) if isinstance(n, Load))
    return all(
        len(load.index) >= len(own) and all(map(operator.is_, load.index, own))
        for load in loads
        if load.source >= len(operands) or operands[load.source] in active
    )


def _parts_keep_rows(op: PirOp, active: set[SSAValue], rows: Sequence[int]) -> bool:
    """True if the op has a decomposition that preserves rows.

    The decomposition is emitted before the op, analysed, and erased again.
    """
    rule, block = decompose.get(op.definition), op.parent
    if rule is None or block is None or op.definition.writes:
        return False
    b = Builder(block, op)
    try:
        found = rule(OpCall(b, op))
    except UnsupportedError:
        found = NotImplemented
    made = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
    keeps = all(v is None or isinstance(v, Value) for v in made)
    reached = set(active)
    for part in b.emitted:
        if keeps and not reached.isdisjoint(part.operands):
            keeps = _preserves_rows(part, reached, rows)
            reached.update(part.results)
    for part in reversed(b.emitted):
        part.detach()
        part.erase(safe_erase=False)
    return keeps
