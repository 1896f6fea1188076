"""Which operations have sizes or attributes that are known only at run time."""

from __future__ import annotations

from pirkit.dialect.declared_types import has_mismatched_type
from pirkit.dialect.infer import is_dynamic
from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta, VecMeta


def is_dynamic_call(op: PirOp) -> bool:
    """True if sizes of operands or results, or attributes, are known only at run time.

    A size that Paddle declares wrongly counts as unknown.
    """
    metas = [meta_of(v.type) for v in (*op.operands, *op.results)]
    tensors = [t for m in metas for t in (m.items if isinstance(m, VecMeta) else (m,))]
    if any(isinstance(t, TensorMeta) and not t.is_static for t in tensors):
        return True
    slots = zip(op.definition.operands, op.operand_slots, strict=False)
    if any(s.kind is not None and v is not None and is_dynamic(v) for s, v in slots):
        return True
    return has_mismatched_type(op)
