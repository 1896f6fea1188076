"""Elementwise kernels that are one ufunc: arithmetic, functions, comparisons, logic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Bind, Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.registry import kernel

_FLOATING: Final = (*dt.FLOATS, *dt.COMPLEX)
_EVERY: Final = dt.ANY

BINARY: Final[dict[str, tuple[str, tuple[DType, ...]]]] = {
    "add": ("add", _EVERY),
    "subtract": ("subtract", tuple(d for d in _EVERY if d is not dt.bool_)),
    "multiply": ("multiply", _EVERY),
    "divide": ("divide", _FLOATING),
    "elementwise_pow": ("power", _FLOATING),
    "fmax": ("fmax", dt.REAL),
    "fmin": ("fmin", dt.REAL),
    "atan2": ("arctan2", dt.FLOATS),
    "bitwise_and": ("bitwise_and", (dt.bool_, dt.uint8, dt.int8, dt.int16, *dt.INTS)),
    "bitwise_or": ("bitwise_or", (dt.bool_, dt.uint8, dt.int8, dt.int16, *dt.INTS)),
    "bitwise_xor": ("bitwise_xor", (dt.bool_, dt.uint8, dt.int8, dt.int16, *dt.INTS)),
}
"""Op -> ufunc and element types. Both operands have the same type; others are the reference's."""

UNARY: Final[dict[str, tuple[str, tuple[DType, ...]]]] = {
    "exp": ("exp", _FLOATING),
    "expm1": ("expm1", _FLOATING),
    "log": ("log", _FLOATING),
    "log1p": ("log1p", _FLOATING),
    "log2": ("log2", _FLOATING),
    "log10": ("log10", _FLOATING),
    "sin": ("sin", _FLOATING),
    "cos": ("cos", _FLOATING),
    "tan": ("tan", _FLOATING),
    "asin": ("arcsin", _FLOATING),
    "acos": ("arccos", _FLOATING),
    "atan": ("arctan", _FLOATING),
    "sinh": ("sinh", _FLOATING),
    "cosh": ("cosh", _FLOATING),
    "tanh": ("tanh", _FLOATING),
    "asinh": ("arcsinh", _FLOATING),
    "acosh": ("arccosh", _FLOATING),
    "atanh": ("arctanh", _FLOATING),
    "sqrt": ("sqrt", _FLOATING),
    "square": ("square", dt.NUMBERS),
    "reciprocal": ("reciprocal", _FLOATING),
    "floor": ("floor", dt.FLOATS),
    "ceil": ("ceil", dt.FLOATS),
    "abs": ("abs", dt.REAL),
    "bitwise_not": ("invert", (dt.uint8, dt.int8, dt.int16, *dt.INTS)),
}
"""Op -> ufunc and element types. Numpy computes half precision in float32 and rounds once."""

PREDICATES: Final = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less_than": "less",
    "less_equal": "less_equal",
    "greater_than": "greater",
    "greater_equal": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}
"""Op of two operands of the same type -> ufunc that gives booleans."""

TESTS: Final = {
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "logical_not": "logical_not",
}
"""Op of one operand -> ufunc that gives booleans."""


def _unary(name: str) -> Bind:
    return lambda b: getattr(b.xp, name)


def _binary(name: str) -> Bind:
    def bind(b: Binding) -> Step | None:
        all_equal = b.input(0).dtype is b.input(1).dtype
        return getattr(b.xp, name) if all_equal else None

    return bind


def _register(
    table: Iterable[tuple[str, str, tuple[DType, ...]]], operands: tuple[str, ...], **options: bool
) -> None:
    make = _unary if len(operands) == 1 else _binary
    for op, ufunc, dtypes in table:
        inplace = {"out": operands} if options["inplace"] else None
        kernel(op, dtypes=dtypes, inplace=inplace, portable=True)(make(ufunc))


_register(((k, *v) for k, v in UNARY.items()), ("x",), inplace=True)
_register(((k, *v) for k, v in BINARY.items()), ("x", "y"), inplace=True)
_register(((k, v, _EVERY) for k, v in PREDICATES.items()), ("x", "y"), inplace=False)
_register(((k, v, dt.REAL) for k, v in TESTS.items()), ("x",), inplace=False)


kernel("trunc", dtypes=dt.FLOATS, inplace={"out": "input"}, portable=True)(_unary("trunc"))


@kernel("maximum", "minimum", dtypes=dt.REAL, inplace={"out": ("x", "y")}, portable=True)
def extremum(b: Binding) -> Step | None:
    """Numpy wants the result of these two by name."""
    if b.input(0).dtype is not b.input(1).dtype:
        return None
    ufunc = getattr(b.xp, b.op.removeprefix("pd_op."))

    def step(x: Array, y: Array, out: Array) -> None:
        ufunc(x, y, out=out)

    return step


@kernel("scale", dtypes=dt.NUMBERS, inplace={"out": "x"}, widen=True, portable=True)
def scale(b: Binding) -> Step:
    """``x * scale + bias``, or ``(x + bias) * scale``."""
    factor, offset = b.constant("scale"), b.constant("bias")
    multiply, add = b.xp.multiply, b.xp.add

    def plain(x: Array, out: Array) -> None:
        multiply(x, factor, out)

    def after(x: Array, out: Array) -> None:
        multiply(x, factor, out)
        add(out, offset, out)

    def before(x: Array, out: Array) -> None:
        add(x, offset, out)
        multiply(out, factor, out)

    if not offset:
        return plain
    return after if b.attrs["bias_after_scale"] else before
