"""Lowers scalar ops of a MapExpr to statements of a loop nest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf
from typing import Final

from msgspec.structs import replace

from pirkit.dialect.kinds import EXACT, INTEGRAL
from pirkit.dialect.map_expr.guarded_nodes import divides
from pirkit.dialect.map_expr.tree import Apply
from pirkit.dialect.opdef import has_trait
from pirkit.dialect.promotion import numpy_common
from pirkit.lowering.codegen.ir.element_types import compute_type
from pirkit.lowering.codegen.ir.nest_builder import (
    DataAssertion,
    NotLowerableError,
    StatementBuilder,
)
from pirkit.lowering.codegen.math import primitives
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

NON_TRAPPING: Final = frozenset({"axis"})
"""Attributes of scalar ops that do not concern single elements."""


def is_supported(node: Apply) -> bool:
    """Whether there may be native code for an op; `apply` decides for its operands."""
    op = node.op.partition(".")[2]
    return not node.dtype.is_complex and (op in _SPECIAL or primitives.has_primitive(op))


def apply(
    node: Apply,
    args: Sequence[str],
    dtypes: Sequence[DType],
    lines: StatementBuilder,
    needed: str | None,
) -> str:
    """The name of the result of an op for operands with these names and element types.

    With ``needed``, the name of a condition, runtime asserts on the operands apply only where it
    holds. An op in float16 or bfloat16 is computed in float32 and rounded once. Raises
    NotLowerableError for an op without a primitive.
    """
    if any(d.is_complex for d in (node.dtype, *dtypes)):
        raise NotLowerableError("complex numbers have no native code")
    if node.op == "pd_op.cast":
        return lines.cast(args[0], dtypes[0], node.dtype)
    wide = replace(node, dtype=compute_type(node.dtype))
    name = _applied(wide, args, [compute_type(d) for d in dtypes], lines, needed)
    # Exact ops (such as `maximum`) return one of their operands: nothing to round.
    if wide.dtype is node.dtype or (
        has_trait(node.op, EXACT) and {*dtypes} <= {node.dtype, dt.bool_}
    ):
        return name
    return lines.rounded(name, node.dtype)


def _applied(
    node: Apply,
    args: Sequence[str],
    dtypes: Sequence[DType],
    lines: StatementBuilder,
    needed: str | None,
) -> str:
    """The result in the compute type, before it is rounded to fp16 or bf16."""
    op, dtype = node.op.partition(".")[2], node.dtype
    special = _SPECIAL.get(op)
    whole = dtype.is_integer and (op == "scale" or (op == "pow" and _is_small_power(node)))
    if special is not None and (dtype.is_float or op in _OF_ANY_TYPE or whole):
        return special(node, args, dtypes, lines)
    if not primitives.has_primitive(op) or not NON_TRAPPING.issuperset(node.attrs):
        raise NotLowerableError(f"`{node.op}` has no native code")
    # `floor`, `ceil`... of integers is the identity.
    if has_trait(node.op, INTEGRAL) and not dtype.is_float:
        return args[0]
    if op in primitives.FLOATS and not dtype.is_float:
        raise NotLowerableError(f"`{node.op}` of integers has no native code")
    given = _promoted(node, args, dtypes, lines)
    # Integer division by 0 is an error at run time, where the result is needed.
    if divides(node):
        some = lines.compute("not_equal", [given[1], lines.constant(0, dtype)], dt.bool_)
        lines.assert_holds(DataAssertion(), some, needed)
    return lines.compute(op, given, dtype)


def _promoted(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> Sequence[str]:  # fmt: skip
    """The operands (except the condition of `where`) cast to one element type, as in numpy.

    Integer operands of a float result are cast to the type of the result.
    """
    skip = int(node.op == "pd_op.where")
    whole = not any(d.is_float for d in dtypes[skip:])
    if node.dtype.is_float and whole:
        common = node.dtype
    elif len(set(dtypes[skip:])) < 2:
        return args
    else:
        common = reduce(numpy_common, dtypes[skip:])
        if common is not node.dtype and node.dtype is not dt.bool_:
            kinds = " and ".join(map(str, dtypes[skip:]))
            raise NotLowerableError(f"`{node.op}` of {kinds} gives {node.dtype}")
    pairs = zip(args[skip:], dtypes[skip:], strict=True)
    return [*args[:skip], *(lines.cast(a, d, common) for a, d in pairs)]


def _scale(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    """``scale * x + bias``, or ``scale * (x + bias)``."""
    dtype, attrs = node.dtype, node.attrs
    factor, shift = lines.constant(attrs["scale"], dtype), attrs["bias"]
    x = args[0]
    if shift and not attrs["bias_after_scale"]:
        x = lines.compute("add", [x, lines.constant(shift, dtype)], dtype)
    x = lines.compute("multiply", [x, factor], dtype)
    if shift and attrs["bias_after_scale"]:
        x = lines.compute("add", [x, lines.constant(shift, dtype)], dtype)
    return x


def _power(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    """A constant power: multiplications for small integers, roots, else `elementwise_pow`."""
    x, dtype, exponent = args[0], node.dtype, float(node.attrs["y"])
    if dtype.is_integer:
        result = lines.constant(1, dtype) if exponent == 0 else x
        for _ in range(int(exponent) - 1):
            result = lines.compute("multiply", [result, x], dtype)
        return result
    match exponent:
        case 2.0:
            return lines.compute("multiply", [x, x], dtype)
        case 0.5:
            return lines.compute("sqrt", [x], dtype)
        case -0.5:
            # A power has no sign at -0.0 and is 0 at -inf, where a root is -inf and NaN.
            unsigned = lines.compute("add", [x, lines.constant(0.0, dtype)], dtype)
            least = lines.compute("equal", [x, lines.constant(-inf, dtype)], dt.bool_)
            root = lines.compute("rsqrt", [unsigned], dtype)
            return lines.compute("where", [least, lines.constant(0.0, dtype), root], dtype)
        case _:
            return lines.compute("elementwise_pow", [x, lines.constant(exponent, dtype)], dtype)


def _is_small_power(node: Apply) -> bool:
    """Whether an integer power is a few multiplications, which wrap around in the same way."""
    return float(node.attrs["y"]) in range(_MAX_MULTIPLICATIONS + 1)


def _round(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    if node.attrs["decimals"]:
        raise NotLowerableError("rounding to decimal places has no native code")
    return lines.compute("round", args, node.dtype) if node.dtype.is_float else args[0]


def _shift(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    if node.dtype not in (dt.int32, dt.int64):
        raise NotLowerableError(f"shifts of {node.dtype} have no native code")
    op = node.op.partition(".")[2]
    is_logical = op == "bitwise_right_shift" and not node.attrs["is_arithmetic"]
    return lines.compute("unsigned_right_shift" if is_logical else op, args, node.dtype)


def _threefry(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    return lines.compute("threefry_second" if node.attrs["word"] else "threefry", args, node.dtype)


def _assign(
    node: Apply, args: Sequence[str], dtypes: Sequence[DType], lines: StatementBuilder
) -> str:
    return args[0]


_OF_ANY_TYPE: Final = frozenset(
    {"assign", "round", "bitwise_left_shift", "bitwise_right_shift", "threefry"}
)
_MAX_MULTIPLICATIONS: Final = 4
_SPECIAL: Final[
    dict[str, Callable[[Apply, Sequence[str], Sequence[DType], StatementBuilder], str]]
] = {
    "scale": _scale,
    "pow": _power,
    "round": _round,
    "assign": _assign,
    "bitwise_left_shift": _shift,
    "bitwise_right_shift": _shift,
    "threefry": _threefry,
}
