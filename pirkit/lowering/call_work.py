"""The memory traffic and the arithmetic of a call, from its index maps and the shapes of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple, cast

from pirkit.dialect.map_expr.call import MapCall
from pirkit.dialect.map_expr.library_spaces import library_spaces
from pirkit.dialect.map_expr.tree import Apply, Opaque, Reduction, Scatter, Value, roots, walk
from pirkit.dialect.map_expr.verify_kernel import kernel_at
from pirkit.dialect.opdef import OpDef, find, index_maps
from pirkit.runtime.meta import Meta, TensorMeta
from pirkit.runtime.plan import Call

FUSED: Final = "pir.map_expr"


class Work(NamedTuple):
    """Bytes that a call reads and writes at least once, and its arithmetic operations.

    An elementwise function counts as the ``cost`` of its op, in additions; a step of a contraction
    counts as 2. ``flops`` is 0 where no index map says what an op computes.
    """

    nbytes: int
    flops: int


def work_of(call: Call, inputs: Sequence[Meta], outputs: Sequence[Meta]) -> Work:
    """The work of a call on operands of these metas."""
    definition = find(call.kernel)
    if call.kernel == FUSED:
        kernel = kernel_at(call.attrs["kernel"], tuple([_tensor(m).shape for m in inputs]))
        flops = sum(
            s.work * (sum(map(_cost, s.nodes())) + bool(s.reduction)) for s in kernel.statements
        )
        return Work(kernel.traffic(), flops)
    nbytes = sum(_bytes(m) for m in (*inputs, *outputs))
    if definition is None:
        return Work(nbytes, 0)
    is_view = bool(definition.views) and not definition.writes
    return Work(0 if is_view else nbytes, _flops(definition, call.attrs, inputs, outputs))


def _flops(
    definition: OpDef, attrs: Mapping[str, Any], inputs: Sequence[Meta], outputs: Sequence[Meta]
) -> int:
    rule = library_spaces.get(definition) or index_maps.get(definition)
    slots = [s for s in definition.operands if s.kind is None]
    if rule is None or len(slots) != len(inputs) or len(outputs) != len(definition.results):
        return 0
    try:
        found = rule(MapCall(definition, list(inputs), list(outputs), dict(attrs)))
    except KeyError:  # the rule reads an attribute that this call lacks
        return 0
    if isinstance(found, Opaque):
        return 0
    values = cast("tuple[Value | None, ...]", found if isinstance(found, tuple) else (found,))
    return sum(
        _work(value, _tensor(meta))
        for value, meta in zip(values, outputs, strict=True)
        if value is not None
    )


def _work(value: Value, meta: TensorMeta) -> int:
    costs = sum(_cost(node) for root in roots(value) for node in walk(root))
    if isinstance(value, Reduction | Scatter):
        return prod(meta.shape) * prod(value.extents) * (costs + 1)
    return prod(meta.shape) * costs


def _cost(node: object) -> int:
    if not isinstance(node, Apply):
        return 0
    definition = find(node.op)
    return 1 if definition is None else definition.cost


def _tensor(meta: Meta) -> TensorMeta:
    return cast(TensorMeta, meta)


def _bytes(meta: Meta) -> int:
    return meta.numel * meta.dtype.itemsize if isinstance(meta, TensorMeta) else 0
