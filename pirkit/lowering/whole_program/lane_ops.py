"""Elementwise ops on vectors of batch rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from pirkit.dialect.promotion import numpy_common
from pirkit.lowering.codegen.ir.llvm_text import Builder, Value
from pirkit.lowering.codegen.math.casts import Typed, cast
from pirkit.lowering.codegen.math.primitives import TABLE
from pirkit.lowering.whole_program.op_graph import Op
from pirkit.runtime.dtype import DType

_CONTRACTED: Final = {"add": "fadd", "subtract": "fsub", "multiply": "fmul"}
_POWERS: Final = (-2.0, -1.0, 1.0, 2.0, 3.0)
"""Exponents computed by multiplications and a division, with an error of at most 1.5 ULP."""


def moved_columns(op: Op, rank: int, given: int) -> tuple[int, int, float]:
    """The first column that a `slice` or `pad` reads, the first that it writes, and the value of
    the other columns.
    """
    if op.name == "pad":
        paddings = op.attrs["paddings"]
        return 0, paddings[2] if len(paddings) > 2 else 0, float(op.attrs["pad_value"])
    if op.name == "slice":
        starts = {a % rank: s for a, s in zip(op.attrs["axes"], op.attrs["starts"], strict=True)}
        return slice(starts.get(1, 0), None).indices(given)[0], 0, 0.0
    return 0, 0, 0.0


def is_elementwise(op: Op) -> bool:
    """Whether `apply_op` emits an op: each element follows from single elements of operands."""
    return op.name in TABLE or op.name in _RULES


def apply_op(
    b: Builder, op: Op, given: Sequence[Typed], dtype: DType, contracts: bool = False
) -> Value:
    """Emit an elementwise op; with ``contracts`` LLVM may fuse a multiply and an add (FMA)."""
    rule = _RULES.get(op.name)
    if rule is _operand:
        return given[0][0]
    if dtype.is_float and op.name != "cast" and not any(kind.is_float for _, kind in given):
        given = [(cast(b, x, kind, dtype), dtype) for x, kind in given]
    skip = int(op.name == "where")
    if op.name != "cast" and len({kind for _, kind in given[skip:]}) > 1:
        common = reduce(numpy_common, (kind for _, kind in given[skip:]))
        given = [*given[:skip], *((cast(b, x, kind, common), common) for x, kind in given[skip:])]
    if contracts and dtype.is_float and op.name in _CONTRACTED:
        return b.op(f"{_CONTRACTED[op.name]} contract", given[0][0], given[1][0])
    return rule(b, op, given[0], contracts) if rule else TABLE[op.name](b, list(given), dtype)


def _operand(b: Builder, op: Op, given: Typed, contracts: bool) -> Value:
    return given[0]


def _scale(b: Builder, op: Op, given: Typed, contracts: bool) -> Value:
    x = given[0]
    factor, shift = float(op.attrs["scale"]), float(op.attrs["bias"])
    if shift and not op.attrs["bias_after_scale"]:
        x = b.add(x, shift)
    x = x if factor == 1 else b.op("fmul contract" if contracts else "fmul", x, factor)
    return b.add(x, shift) if shift and op.attrs["bias_after_scale"] else x


def _pow(b: Builder, op: Op, given: Typed, contracts: bool) -> Value:
    x, kind = given
    exponent = float(op.attrs["y"])
    if exponent == 0.5:  # as in numpy: NaN at -inf and -0.0 at -0.0, unlike other powers
        return TABLE["sqrt"](b, [given], kind)
    if exponent not in _POWERS:
        return TABLE["elementwise_pow"](b, [given, (b.like(x, exponent), kind)], kind)
    base = b.div(b.like(x, 1.0), x) if exponent < 0 else x
    made = base
    for _ in range(abs(int(exponent)) - 1):
        made = b.mul(made, base)
    return made


_RULES: Final[dict[str, Callable[[Builder, Op, Typed, bool], Value]]] = {
    "same": _operand,
    "expand": _operand,
    "scale": _scale,
    "pow": _pow,
}
"""Unary ops that are no primitive of loop nests."""
