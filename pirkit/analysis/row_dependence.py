"""Whether a value depends on a variable row by row: row i on row i only.

Then the derivative of the sum of the value is the derivative of each row (see `passes/taylor.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from xdsl.ir import Block, SSAValue

from pirkit.analysis.derivative_sums import SOME_SIZE
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


class Mixed(Struct, frozen=True):
    """Why rows are not independent, and the op that mixes them."""

    reason: str
    op: PirOp | None = None


def depends_by_rows(root: SSAValue, variable: SSAValue, lead: int = 1) -> Mixed | None:
    """Return None if row i of ``root`` depends only on row i of ``variable``.

    Rows are the indices of the first ``lead`` axes; on the way they may be at other axes, as in
    ``outputs[k]`` of a tensor of (functions, points). A variable with one element has one row, and
    every value that depends on it trivially depends on that row.
    """
    held = meta_of(variable.type)
    assert isinstance(held, TensorMeta)
    if held.numel == 1:
        return None
    block = cast(Block, block_of(variable))
    first = tuple(range(lead))
    at, rows = {variable: first}, held.shape[:lead]
    for op in between(block, [root], [variable]):
        if declares(op, DERIVATIVE):
            at.update(dict.fromkeys(op.results, first))
        elif not _preserves_rows(op, at, rows):
            return Mixed(f"`{op.name}` mixes rows", op)
    if at.get(root) != first:
        return Mixed("the value does not depend on the variable row by row")
    return None


Axes = tuple[int, ...]


def _preserves_rows(op: PirOp, at: dict[SSAValue, Axes], rows: Sequence[int]) -> bool:
    """True if row i of each result depends only on row i of the operands in ``at``.

    ``at`` holds the axes of rows of the values that depend on the variable, and gets those of the
    results. The index maps decide, where the op has any. Otherwise the op is elementwise by its
    record, or its decomposition preserves rows.
    """
    given = {at[v] for v in op.operands if v in at}
    axes = min(given) if len(given) == 1 else None
    metas = [(r, m) for r in op.results for m in _tensors(r)]
    elements = None if declares(op, LIST) else _elements(op)
    if elements is not None:
        found = [axes if e is None else _axes_of_rows(op, e, at, m)
                 for e, (_, m) in zip(elements, metas, strict=False)]  # fmt: skip
    elif declares(op, LIST):
        found = [axes] * len(metas)
    elif op.definition.base.kind == ELEMENTWISE:
        ranks = {m.rank for v in op.operands if v in at for m in _tensors(v)}
        found = [axes if ranks == {m.rank} else None for _, m in metas]
    else:
        return _parts_keep_rows(op, at, rows)
    for (result, meta), held in zip(metas, found, strict=False):
        has_rows = op.name == "pir.combine" or (held is not None and _has_rows(meta, held, rows))
        if held is None or not has_rows or at.setdefault(result, held) != held:
            return False
    return True


def _tensors(value: SSAValue) -> tuple[TensorMeta, ...]:
    meta = meta_of(value.type)
    items = meta.items if isinstance(meta, VecMeta) else (meta,)
    return tuple([m for m in items if isinstance(m, TensorMeta)])


def _has_rows(meta: TensorMeta, axes: Axes, rows: Sequence[int]) -> bool:
    return meta.rank > max(axes) and [meta.shape[a] for a in axes] == [*rows]


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
    """The meta of a value with `SOME_SIZE` for every dynamic size."""
    meta = meta_of(value.type)
    if isinstance(meta, VecMeta):
        return VecMeta(tuple([_with_sizes(item) for item in meta.items]))
    return _with_sizes(meta)


def _with_sizes(meta: Any) -> Any:
    if not isinstance(meta, TensorMeta):
        return meta
    return meta.with_shape([SOME_SIZE if n == UNKNOWN else n for n in meta.shape])


def _axes_of_rows(
    op: PirOp, element: Element, at: dict[SSAValue, Axes], result: TensorMeta
) -> Axes | None:
    """The axes of the result at which the rows of all operands in ``at`` are."""
    if isinstance(element, Scatter):
        return None
    operands = tensors_of(op)
    own = {id(i): k for k, i in enumerate(space(_with_sizes(result).shape))}
    found: set[Axes | None] = set()
    for load in (n for root in roots(element) for n in walk(root) if isinstance(n, Load)):
        if load.source >= len(operands):
            return None
        axes = at.get(operands[load.source])
        if axes is not None:
            places = [own.get(id(load.index[a])) for a in axes if a < len(load.index)]
            known = tuple([p for p in places if p is not None])
            found.add(known if len(known) == len(axes) else None)
    return next(iter(found)) if len(found) == 1 else None


def _parts_keep_rows(op: PirOp, at: dict[SSAValue, Axes], rows: Sequence[int]) -> bool:
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
    pairs = [
        (r, v) for r, v in zip(op.result_slots, made, strict=False) if r is not None and r.uses
    ]
    keeps = found is not NotImplemented and all(isinstance(v, Value) for _, v in pairs)
    reached = dict(at)
    for part in b.emitted:
        if keeps and not reached.keys().isdisjoint(part.operands):
            keeps = _preserves_rows(part, reached, rows)
    if keeps:
        at.update({r: reached[v.ssa] for r, v in pairs if v.ssa in reached})
    for part in reversed(b.emitted):
        part.detach()
        part.erase(safe_erase=False)
    return keeps
