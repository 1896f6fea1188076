"""Replacement of operations, for all passes: names, locations and attributes carry over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import builtin as mlir
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue

from pirkit.analysis.alias import AliasClasses
from pirkit.analysis.differentiation import stops_gradient
from pirkit.analysis.effects import is_named, is_variable
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.op_form import OPERAND_SEGMENTS, RESULT_SEGMENTS
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.operation import PirOp, create, declares
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta, compatible


def successor(
    op: PirOp,
    operands: Sequence[SSAValue | None],
    *,
    definition: OpDef | str | None = None,
    result_types: Sequence[Attribute | None] | None = None,
    properties: Mapping[str, Attribute] | None = None,
    regions: Sequence[Region] = (),
) -> PirOp:
    """A copy of ``op`` at the same location that differs only in what is given.

    If the number of results is the same, all discardable attributes carry over; otherwise those
    that do not refer to single results.
    """
    types = [None if r is None else r.type for r in op.result_slots]
    if result_types is None:
        result_types = types
    if properties is None:
        properties = semantic_properties(op)
    carried = op.attributes
    if len(result_types) != len(types):
        carried = {k: v for k, v in carried.items() if not isinstance(v, mlir.DenseArrayBase)}
    return create(
        definition or op.definition,
        operands,
        result_types,
        properties,
        carried,
        op.location,
        regions,
    )


def semantic_properties(op: PirOp) -> dict[str, Attribute]:
    """The properties of an operation without its segment sizes."""
    form = (OPERAND_SEGMENTS, RESULT_SEGMENTS)
    return {k: v for k, v in op.properties.items() if k not in form}


def replace(op: PirOp, values: Sequence[SSAValue | None], new: Sequence[PirOp] = ()) -> None:
    """Insert ``new`` before ``op``, replace the results of ``op`` by ``values``, and erase ``op``.

    A result without uses may have None in ``values``. The new values take over the names of the
    results, and new operations without a location take over the location of ``op``.
    """
    block = op.parent
    if block is not None and new:
        block.insert_ops_before(new, op)
    for fresh in new:
        if isinstance(fresh.location, mlir.UnknownLoc):
            fresh.location = op.location
    for result, value in zip(op.results, values, strict=True):
        if value is None:
            continue
        if value.name_hint is None and value.owner in new:
            value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    erase(op)


def erase(op: Operation) -> None:
    """Erase an operation whose results have no uses."""
    op.detach()
    op.erase()


def may_replace(value: SSAValue, result: SSAValue, classes: AliasClasses) -> bool:
    """True if every use of ``result`` may use ``value`` instead, given that both hold equal data.

    False if one of them is written anywhere, if gradients would flow differently, if ``result`` is
    a variable of a derivative, if the type of ``value`` is less precise, or if both have external
    names.
    """
    return (
        not is_variable(result)
        and not classes.is_written(value)
        and not classes.is_written(result)
        and is_as_precise(meta_of(value.type), meta_of(result.type))
        and (not _has_gradient(value) or stops_gradient(value) == stops_gradient(result))
        and not (is_named(result) and (is_named(value) or _is_source(value)))
    )


def is_as_precise(new: Meta, old: Meta) -> bool:
    """True if ``new`` agrees with ``old`` and knows every dimension that ``old`` knows."""
    if not compatible(old, new):
        return False
    if isinstance(new, TensorMeta) and isinstance(old, TensorMeta):
        return all(a != UNKNOWN or b == UNKNOWN for a, b in zip(new.shape, old.shape, strict=True))
    if isinstance(new, VecMeta) and isinstance(old, VecMeta):
        return all(map(is_as_precise, new.items, old.items))
    return True


def _has_gradient(value: SSAValue) -> bool:
    meta = meta_of(value.type)
    metas = meta.items if isinstance(meta, VecMeta) else (meta,)
    return any(isinstance(m, TensorMeta) and not _is_discrete(m) for m in metas)


def _is_discrete(meta: TensorMeta) -> bool:
    return meta.dtype.is_integer or meta.dtype.name == "bool"


def _is_source(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(value, BlockArgument) or (declares(owner, SOURCE))
