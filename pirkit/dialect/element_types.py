"""Element types of the operands of an op, checked in one place for all ops.

The first tensor has one of the op's ``dtypes``. Further tensors have what the record states in
``operand_dtypes``. Of the others nothing is known, unless the op computes with floating numbers
only: then they are real where the first is real, and complex where it is complex. Those that
``same_dtype`` names have one type.

Half precision goes where float32 does, and narrow integers and bools where int32 does: mixed
precision was recorded on devices that have more kernels than the table lists. Bools are no
indices, lengths or labels, though, whose types the record states. Ops that only move
elements take every type as their first tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.kinds import DATA_MOVEMENT
from pirkit.dialect.opdef import OpDef
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta

Dtypes = tuple[DType, ...]

_OWN: Final = ("pir", "builtin", "cf")
"""Dialects whose ops take tensors of any element type."""


def check_element_types(definition: OpDef, tensors: Sequence[Meta | None]) -> None:
    """Raise ConstraintError for a tensor whose element type the op does not take."""
    if not definition.dtypes or definition.dialect in _OWN or not tensors:
        return
    if definition.dialect != "pd_op":  # what a plug-in's further operands hold, only its rules say
        tensors = tensors[:1]
    first = next(iter(_dtypes(tensors[0])), None)
    admitted = _admitted(definition, first is not None and first.is_complex)
    named: dict[DType, str] = {}
    for index, meta in enumerate(tensors):
        name, dtypes = admitted[min(index, len(admitted) - 1)]
        for dtype in _dtypes(meta) if dtypes else ():
            if dtype not in dtypes:
                known = ", ".join(d.name for d in dtypes)
                message = f"`{name}` has dtype {dtype}"
                raise ConstraintError("dtypes", message, help=f"`{definition.name}` takes {known}")
        if name in definition.same_dtype:
            for dtype in _dtypes(meta):
                named.setdefault(dtype, name)
    if len(named) > 1:
        message = " and ".join(f"`{name}` of dtype {dtype}" for dtype, name in named.items())
        raise ConstraintError("dtypes", f"{message} do not mix", help="cast one of them")


def _dtypes(meta: Meta | None) -> list[DType]:
    metas = meta.items if isinstance(meta, VecMeta) else (meta,)
    return [m.dtype for m in metas if isinstance(m, TensorMeta)]


@lru_cache(maxsize=4096)
def _admitted(definition: OpDef, is_complex: bool) -> tuple[tuple[str, Dtypes], ...]:
    """Name and element types of each tensor slot; nothing where any type goes."""
    own = () if definition.base.kind in DATA_MOVEMENT else _widened(definition.dtypes)
    all_equal: Dtypes = ()
    if own and all(d.is_float or d.is_complex for d in own):
        all_equal = tuple([d for d in own if d.is_complex == is_complex])
    slots = [s.name for s in definition.operands if s.kind is None]
    stated = definition.operand_dtypes
    return tuple([
        (name, _stated(stated[name]) if name in stated else all_equal if index else own)
        for index, name in enumerate(slots)
    ])  # fmt: skip


def _stated(dtypes: Dtypes) -> Dtypes:
    return tuple([d for d in _widened(dtypes) if d is not dt.bool_ or d in dtypes])


def _widened(dtypes: Dtypes) -> Dtypes:
    halves = (dt.float16, dt.bfloat16) if dt.float32 in dtypes else ()
    narrow = (dt.int8, dt.uint8, dt.int16, dt.bool_) if dt.int32 in dtypes else ()
    return tuple(dict.fromkeys((*dtypes, *halves, *narrow)))
