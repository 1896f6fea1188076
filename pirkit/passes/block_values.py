"""What rules for blocked channels ask of values."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pirkit.dialect.operation import PirOp
from pirkit.dialect.types import meta_of
from pirkit.runtime.meta import TensorMeta


def image_meta(value: SSAValue) -> TensorMeta:
    """The shape and the element type of a value that is known to be a tensor."""
    meta = meta_of(value.type)
    assert isinstance(meta, TensorMeta)
    return meta


def only_user(value: SSAValue) -> PirOp | None:
    """The op that reads a value, if one does and once."""
    uses = list(value.uses)
    user = uses[0].operation if len(uses) == 1 else None
    return user if isinstance(user, PirOp) else None
