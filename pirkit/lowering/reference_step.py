"""Computes one instruction of a plan by the reference rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from msgspec.structs import replace

from pirkit.lowering.kernel_library import KernelLibrary
from pirkit.lowering.native_ops import MATMUL, ROWS, SMALL_GEMM
from pirkit.runtime.binding import Binding, first_dtype
from pirkit.runtime.meta import Meta, of_value
from pirkit.runtime.plan import Call, Operand
from pirkit.runtime.registry import REFERENCE

Array = np.ndarray[Any, Any]
Results = tuple[Any, ...]
Generator = Callable[[], np.random.Generator]

_LIBRARY: Final = KernelLibrary(REFERENCE)


class Replayed:
    """Random numbers that two kernels draw one after the other: the second draws them again."""

    def __init__(self, draw: Generator) -> None:
        self.draw = draw
        self.drawn: list[np.random.Generator] = []

    def first(self) -> np.random.Generator:
        made = self.draw()
        self.drawn.append(copy.deepcopy(made))
        return made

    def again(self) -> np.random.Generator:
        return self.drawn.pop(0) if self.drawn else self.draw()


def reference_results(b: Binding, operands: Sequence[Any]) -> Results:
    """The results of the instruction ``b`` for these operands, as host arrays.

    Calls of a rewritten plan stand for several ops, which are run one after the other. Raises what
    the reference rules raise.
    """
    if b.op == ROWS:
        return _rows(b.attrs, operands)
    if b.op == SMALL_GEMM:
        attrs = {name: value for name, value in b.attrs.items() if name != "results"}
        (found,) = _one(MATMUL, operands[:2], attrs)
        return _one("pd_op.add", (found, operands[2]), {}) if len(operands) > 2 else (found,)
    return _one(b.op, operands, b.attrs, b)


def _rows(attrs: Mapping[str, Any], operands: Sequence[Any]) -> Results:
    read, written = attrs["slots"]
    values: dict[Operand, Any] = dict(zip(read, operands, strict=True))
    for call in cast("tuple[Call, ...]", attrs["calls"]):
        given = [None if o is None else values[o] for o in call.inputs]
        found = _one(call.kernel, given, call.attrs)
        values.update(zip(call.outputs, found, strict=False))
    return tuple([values[slot] for slot in written])


def _one(
    op: str, operands: Sequence[Any], attrs: Mapping[str, Any], known: Binding | None = None
) -> Results:  # fmt: skip
    metas: list[Meta | None] = [None if x is None else of_value(x) for x in operands]
    b = Binding(tuple(metas), (), attrs) if known is None else replace(known, inputs=tuple(metas))
    dtype = first_dtype(b.inputs) or first_dtype(b.outputs) or attrs.get("dtype")
    for choice in _LIBRARY.choices(op, cast(Any, dtype), attrs):
        step = choice.kernel(replace(b, op=choice.kernel.op, xp=np))
        if step is not None:
            with np.errstate(all="ignore"):
                found = step(*operands)
            return cast(Results, found if isinstance(found, tuple) else (found,))
    return ()
