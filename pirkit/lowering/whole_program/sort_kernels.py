"""Sorts of short rows in native programs: each element is compared with each, without branches.

The place of an element is the number of elements that come before it; a second nest finds for each
place the element that belongs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

from pirkit.dialect.kinds import SORT
from pirkit.dialect.opdef import has_trait
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call

_TYPES: Final = (dt.float32, dt.float64, dt.int32, dt.int64)
_PAIRS: Final = 1 << 16
"""At most so many pairs are compared, which takes about 17 us. A call of the library has that much
overhead, but takes a quarter of the time for the rows themselves."""
_SHORT: Final = 16
"""Rows of up to so many elements are sorted by comparisons, however many rows there are."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Two nests: the places of the elements (int32) from x; x, places and results."""

    places: Kernel
    select: Kernel
    slots: tuple[int, ...]
    """The slots of x and of the results, values and indices, that somebody reads."""

    @property
    def place_bytes(self) -> int:
        return self.places.operands[-1].size


def sort_of(call: Call, meta: Callable[[int], TensorMeta]) -> Sort | None:
    """The nests of a sort; None for any other operation and for rows that the library sorts."""
    x_slot, results = call.inputs[0] if call.inputs else None, call.outputs
    if not has_trait(call.kernel, SORT) or not isinstance(x_slot, int) or len(call.inputs) > 1:
        return None
    x = meta(x_slot)
    if not x.rank or x.dtype not in _TYPES or not x.numel:
        return None
    how = call.attrs
    axis = int(how["axis"]) % x.rank
    before, size, behind = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    if size > _SHORT and x.numel * size > _PAIRS:
        return None
    count, descending = int(how.get("k", size)), bool(how.get("largest", how.get("descending")))
    step, item = behind * x.dtype.itemsize, x.dtype.itemsize
    rows, whole = (size * step, item), before * size * step
    # Places are [before, behind, size], so that both nests read those of a row contiguously.
    place_rows = behind * size * 4, size * 4
    places = Kernel(
        (before, behind, size),
        (size,),
        (
            Operand(x.dtype, (*rows, step), (0,), whole),
            Operand(x.dtype, (*rows, 0), (step,), whole),
            Operand(dt.int32, (*place_rows, 4), (0,), before * behind * size * 4),
        ),
        (LoopPhase(tuple(_in_front(x.dtype, descending)), (Store(2, "place"),)),),
    )
    found = [s for s in results if isinstance(s, int)]
    metas = [meta(s) for s in found]
    operands = [
        Operand(dt.int32, (*place_rows, 0), (4,), before * behind * size * 4),
        Operand(x.dtype, (*rows, 0), (0,), whole),
    ]
    for m in metas:
        along = behind * m.dtype.itemsize
        outer = count * along, m.dtype.itemsize, along
        operands.append(Operand(m.dtype, outer, (0,), before * count * along))
    stores = [
        Store(2 + k, "index" if slot == results[-1] else "value") for k, slot in enumerate(found)
    ]
    after = (
        Constant("step", dt.int32, behind), _compute("at", "multiply", "from", "step", of=dt.int32),
        Load("value", 1, at="at", limit=(size - 1) * behind),
        _compute("index", "cast", "from", of=dt.int64), *stores,
    )  # fmt: skip
    # Exactly one element of a row has the wanted place, so the sum over the row is its index.
    body = (
        Index("wanted", 2, dt.int32), Index("own", 3, dt.int32), Load("place", 0),
        _compute("here", "equal", "place", "wanted"), Constant("zero", dt.int32, 0),
        _compute("own_here", "where", "here", "own", "zero", of=dt.int32),
        Reduce("from", "sum", "own_here"),
    )  # fmt: skip
    select = Kernel((before, behind, count), (size,), tuple(operands), (LoopPhase(body, after),))
    return Sort(places, select, (x_slot, *found))


def _compute(name: str, primitive: str, *args: str, of: DType = dt.bool_) -> Statement:
    return Compute(name, primitive, args, of)


def _in_front(dtype: DType, descending: bool) -> list[Statement]:
    """Count the elements ``y`` that come before ``x``; of equal ones, those at earlier places.

    The order is stable when it descends too, and the places of a row are a permutation also with
    NaN: `_less` is a total order.
    """
    first, last = ("x", "y") if descending else ("y", "x")
    return [
        Load("x", 0), Load("y", 1), Index("x_at", 2, dt.int32), Index("y_at", 3, dt.int32),
        *_less("less", first, last, dtype), *_less("more", last, first, dtype),
        _compute("not_more", "logical_not", "more"),
        _compute("stands_before", "less_than", "y_at", "x_at"),
        _compute("in_front", "where", "stands_before", "not_more", "less"),
        Constant("one", dt.int32, 1), Constant("none", dt.int32, 0),
        _compute("counted", "where", "in_front", "one", "none", of=dt.int32),
        Reduce("place", "sum", "counted"),
    ]  # fmt: skip


def _less(name: str, x: str, y: str, dtype: DType) -> list[Statement]:
    """Whether x is less than y, where NaN is greatest and equal to itself."""
    if not dtype.is_float:
        return [_compute(name, "less_than", x, y)]
    return [
        _compute(f"{name}.number", "less_than", x, y),
        _compute(f"{name}.known", "equal", x, x),
        _compute(f"{name}.nan", "isnan", y),
        _compute(f"{name}.only", "logical_and", f"{name}.known", f"{name}.nan"),
        _compute(name, "logical_or", f"{name}.number", f"{name}.only"),
    ]
