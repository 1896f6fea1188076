"""Bisection in native programs: `searchsorted` as a loop nest without branches.

Each vector of queries bisects at once: a round gathers one element of the sorted sequence for each
of them and moves the lanes whose element is smaller. numpy mispredicts a branch in every round.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call

SEARCH: Final = "pd_op.searchsorted"
_TYPES: Final = (dt.float32, dt.float64, dt.int32, dt.int64)
_MAX_LENGTH: Final = 1 << 30


def search_of(call: Call, meta: Callable[[int], TensorMeta]) -> Kernel | None:
    """The loop nest of a bisection; its operands are the sequence, the queries and the result.

    None for any other operation, for types other than those of `_TYPES`, and for nothing to do.
    """
    slots = (*call.inputs, *call.outputs)
    if call.kernel != SEARCH or not all(isinstance(s, int) for s in slots):
        return None
    table, values, out = (meta(s) for s in slots if isinstance(s, int))
    length = table.shape[-1]
    if table.dtype not in _TYPES or not values.numel or not 0 < length < _MAX_LENGTH:
        return None
    batch = table.shape[:-1]
    outer = (prod(batch), values.numel // prod(batch))
    strides = (length * table.dtype.itemsize if batch else 0, 0)
    operands = (
        Operand(table.dtype, strides, (), table.numel * table.dtype.itemsize),
        *(
            Operand(
                m.dtype,
                (outer[1] * m.dtype.itemsize, m.dtype.itemsize),
                (),
                m.numel * m.dtype.itemsize,
            )
            for m in (values, out)
        ),
    )
    body = _rounds(length, table.dtype, bool(call.attrs["right"]))
    found = (*body, Compute("out", "cast", ("at0",), out.dtype), Store(2, "out"))
    return Kernel(outer, (), operands, (LoopPhase(found),))


def _rounds(length: int, dtype: DType, right: bool) -> list[Statement]:
    """How many elements are smaller than a query, or not larger if ``right``.

    The last statement defines them as ``at0``; each round adds half of what the one before it did.
    NaN is the largest number and equal to itself, as in numpy.
    """
    found: list[Statement] = [Load("query", 1), Constant("one", dt.int32, 1)]

    def compute(name: str, primitive: str, *args: str, of: DType = dt.bool_) -> str:
        found.append(Compute(name, primitive, args, of))
        return name

    if dtype.is_float:
        compute("is_nan", "isnan", "query")
    found += [Constant("at", dt.int32, 0), Constant("length", dt.int32, length)]
    at = "at"
    # as many rounds for all queries: lanes that are done take no further step
    for k in reversed(range(length.bit_length())):
        found.append(Constant(f"step{k}", dt.int32, 1 << k))
        end = compute(f"end{k}", "add", at, f"step{k}", of=dt.int32)
        probe = compute(f"probe{k}", "subtract", end, "one", of=dt.int32)
        found.append(Load(f"element{k}", 0, at=probe, limit=length - 1))
        before = compute(
            f"before{k}", "less_equal" if right else "less_than", f"element{k}", "query"
        )
        if dtype.is_float:
            other = "is_nan"
            if not right:
                number = compute(f"number{k}", "equal", f"element{k}", f"element{k}")
                other = compute(f"other{k}", "logical_and", number, "is_nan")
            before = compute(f"sorted{k}", "logical_or", before, other)
        # the gather is clamped to the last element, so a probe beyond it counts for nothing
        inside = compute(f"inside{k}", "less_equal", end, "length")
        moves = compute(f"moves{k}", "logical_and", before, inside)
        at = compute(f"at{k}", "where", moves, end, at, of=dt.int32)
    return found
