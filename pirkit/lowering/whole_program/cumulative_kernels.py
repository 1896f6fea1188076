"""Cumulative sums and products in native programs."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, Literal

from pirkit.dialect.kinds import CUMULATIVE_PRODUCT, CUMULATIVE_SUM
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.emit.cumulative import SCANNED, Cumulative, native_cumulative
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.plan import Call

Combine = Literal["add", "mul"]
_COMBINE: Final[dict[str, Combine]] = {CUMULATIVE_SUM: "add", CUMULATIVE_PRODUCT: "mul"}


def cumulative_of(call: Call, meta: Callable[[int], TensorMeta]) -> NativeFunction | None:
    """The function of a cumulative operation over its operand and its result.

    None for any other operation, an axis that is an operand, and element types without a scan.
    """
    combine: Combine | None = None
    for trait, how in _COMBINE.items():
        combine = how if has_trait(call.kernel, trait) else combine
    slots = (*call.inputs, *call.outputs)
    if combine is None or len(slots) != 2 or not all(isinstance(s, int) for s in slots):
        return None
    x, out = (meta(s) for s in slots if isinstance(s, int))
    if x.dtype not in SCANNED or out.dtype is not x.dtype or not x.numel:
        return None
    attrs = call.attrs
    shape = (x.numel,) if attrs.get("flatten") or not x.rank else x.shape
    axis = 0 if len(shape) != x.rank else attrs["axis" if "axis" in attrs else "dim"] % x.rank
    return native_cumulative(
        Cumulative(
            combine, x.dtype, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]),
            attrs["reverse"], attrs["exclusive"],
        )
    )  # fmt: skip
