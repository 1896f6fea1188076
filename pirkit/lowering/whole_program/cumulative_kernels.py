"""Cumulative sums, products and extrema in native programs."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, Literal

from pirkit.dialect.kinds import (
    CUMULATIVE_MAXIMUM,
    CUMULATIVE_MINIMUM,
    CUMULATIVE_PRODUCT,
    CUMULATIVE_SUM,
)
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.emit.cumulative import SCANNED, Cumulative, native_cumulative
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.plan import Call

Combine = Literal["add", "mul", "max", "min"]
_COMBINE: Final[dict[str, Combine]] = {
    CUMULATIVE_SUM: "add",
    CUMULATIVE_PRODUCT: "mul",
    CUMULATIVE_MAXIMUM: "max",
    CUMULATIVE_MINIMUM: "min",
}


def cumulative_of(
    call: Call, meta: Callable[[int], TensorMeta]
) -> tuple[NativeFunction, tuple[int, ...]] | None:
    """The function of a cumulative operation, and the slots of its operand and its results.

    None for any other operation, an axis that is an operand, and element types without a scan.
    """
    combine: Combine | None = None
    for trait, how in _COMBINE.items():
        combine = how if has_trait(call.kernel, trait) else combine
    if combine is None or len(call.inputs) != 1:
        return None
    slots = tuple([s for s in (*call.inputs, *call.outputs) if isinstance(s, int)])
    x, *results = map(meta, slots)
    has_values = isinstance(call.outputs[0], int)
    if x.dtype not in SCANNED or not x.numel or not results:
        return None
    if has_values and results[0].dtype is not x.dtype:
        return None
    attrs = call.attrs
    shape = (x.numel,) if attrs.get("flatten") or not x.rank else x.shape
    axis = 0 if len(shape) != x.rank else attrs["axis" if "axis" in attrs else "dim"] % x.rank
    scan = Cumulative(
        combine, x.dtype, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]),
        attrs.get("reverse", False), attrs.get("exclusive", False), has_values,
        results[-1].dtype if len(results) > has_values else None,
    )  # fmt: skip
    return native_cumulative(scan), slots
