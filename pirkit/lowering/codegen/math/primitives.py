"""The primitives of native code, each a few LLVM instructions.

Names are those of the dialect's ops. A primitive is emitted for a vector or a scalar alike.
Integers wrap around, integer division by 0 gives 0, and floats outside the range of int32 or int64
become its smallest number, as in numpy on x86. Narrower integers are the low bits of an int32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from pirkit.diag.errors import InternalError
from pirkit.dialect.kinds import COSTLY
from pirkit.dialect.opdef import find
from pirkit.lowering.codegen.ir.llvm_text import Builder, Value, constant_value
from pirkit.lowering.codegen.math import (
    division,
    gamma_functions,
    inverse_functions,
    log_bases,
    vecmath,
)
from pirkit.lowering.codegen.math.casts import Typed, cast, truth
from pirkit.lowering.codegen.math.inverse_erf import erfinv
from pirkit.runtime.dtype import DType
from pirkit.runtime.threefry import cipher

Emit = Callable[[Builder, Sequence[Typed], DType], Value]


FLOATS: Final = frozenset(
    "divide elementwise_pow copysign atan2 sqrt rsqrt floor ceil trunc round exp expm1 log log1p "
    "sin cos tanh sigmoid erf tan asin acos atan sinh cosh asinh acosh atanh log2 log10 "
    "lgamma gammaln digamma erfinv".split()
)
"""Primitives that take floats only."""


@cache
def is_costly(name: str) -> bool:
    """Whether a primitive is a long chain of instructions, such as a transcendental function."""
    definition = find(f"pd_op.{_PARTS.get(name, name)}") if name in TABLE else None
    return definition is not None and definition.cost >= COSTLY


_PARTS: Final = {"tanh_of_cubic": "tanh", "tanh_of_softplus": "tanh", "erf_of_root": "erf"}
"""Composites of an op, and that op."""


def has_primitive(name: str) -> bool:
    """Whether there is a primitive of that name."""
    return name in TABLE


def _math(function: Callable[[Builder, Value], Value]) -> Emit:
    return lambda b, args, _: function(b, args[0][0])


def _intrinsic(name: str) -> Emit:
    return lambda b, args, _: b.unary(name, args[0][0])


def _arithmetic(for_floats: str, for_ints: str) -> Emit:
    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        (x, _), (y, _) = args
        # The sum of bools is their disjunction, as in numpy.
        if x.type.elem == "i1" and for_ints == "add":
            return b.op("or", x, y)
        return b.op(for_floats if x.type.is_float else for_ints, x, y)

    return emit


def _compare(ordered: str, integer: str) -> Emit:
    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        (x, kind), (y, _) = args
        if x.type.is_float:
            return b.compare(ordered, x, y)
        # `slt` becomes `ult`; equality has no sign.
        unsigned = kind.kind in ("uint", "bool") and integer not in ("eq", "ne")
        return b.compare(integer.replace("s", "u", 1) if unsigned else integer, x, y)

    return emit


def select_extremum(b: Builder, x: Value, y: Value, kind: str) -> Value:
    """The larger or smaller of two floats, the second one if either is NaN: one x86 instruction."""
    return b.select(b.compare("ogt" if kind == "max" else "olt", x, y), x, y)


def extremum(b: Builder, x: Value, y: Value, kind: str, dtype: DType) -> Value:
    """The larger or smaller of two values (``max``, ``min``); NaN if either is."""
    if x.type.is_float:
        known = constant_value(y)
        if not known or math.isnan(known):
            return b.select(b.compare("uno", x, x), x, select_extremum(b, x, y, kind))
        # With a number first, as in `clip`, the second one is the result where it is NaN. Where
        # both are equal they have the same bits, unless they are zeros.
        return select_extremum(b, y, x, kind)
    if x.type.elem == "i1":
        return b.op("or" if kind == "max" else "and", x, y)
    return b.binary(("u" if dtype.kind == "uint" else "s") + kind, x, y)


def _extremum(kind: str) -> Emit:
    return lambda b, args, dtype: extremum(b, args[0][0], args[1][0], kind, dtype)


def _quiet_extremum(kind: str) -> Emit:
    """The larger or smaller value that is not NaN; NaN only if both are."""

    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        (x, _), (y, _) = args
        result = extremum(b, x, y, kind, dtype)
        if not x.type.is_float:
            return result
        result = b.select(b.compare("uno", x, x), y, result)
        return b.select(b.compare("uno", y, y), x, result)

    return emit


def _divide(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    (x, _), (y, _) = args
    if not x.type.is_float:
        raise InternalError("division of integers is `floor_divide`")
    return b.div(x, y)


def _power(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    x, y = args[0][0], args[1][0]
    if not x.type.is_float:
        raise InternalError("powers of integers have no native code")
    return vecmath.power(b, x, y)


def _negative(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    x = args[0][0]
    return b.neg(x) if x.type.is_float else b.op("sub", b.like(x, 0), x)


def _abs(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    (x, kind), *_ = args
    if x.type.is_float:
        return b.unary("fabs", x)
    if kind.kind != "int":
        return x
    return b.select(b.compare("slt", x, 0), b.op("sub", b.like(x, 0), x), x)


def _sign(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    (x, kind), *_ = args
    if x.type.is_float:
        # x + 0.0 is +0.0 for both zeros and NaN for NaN.
        one = b.binary("copysign", b.like(x, 1.0), x)
        return b.select(b.compare("one", x, 0.0), one, b.add(x, b.like(x, 0.0)))
    positive = b.compare("ugt" if kind.kind == "uint" else "sgt", x, 0)
    zero = b.like(x, 0)
    other = zero if kind.kind == "uint" else b.select(
        b.compare("slt", x, 0), b.like(x, -1), zero
    )  # fmt: skip
    return b.select(positive, b.like(x, 1), other)


def _where(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    return b.select(args[0][0], args[1][0], args[2][0])


def _logical(op: str) -> Emit:
    return lambda b, args, _: b.op(op, truth(b, args[0][0]), truth(b, args[1][0]))


def _logical_not(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    return b.op("xor", truth(b, args[0][0]), True)


def _bitwise(op: str) -> Emit:
    return lambda b, args, _: b.op(op, args[0][0], args[1][0])


def _shift(op: str) -> Emit:
    """Bits moved up or down; by at least the width, or a negative number, all of them are gone."""

    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        (x, kind), (y, _) = args
        width = 8 * kind.itemsize
        inside = b.compare("ult", y, width)
        if op == "ashr":  # copies of the sign come in, so the longest distance does for others
            return b.op(op, x, b.select(inside, y, b.like(y, width - 1)))
        return b.select(inside, b.op(op, x, y), b.like(x, 0))

    return emit


def _threefry(word: int) -> Emit:
    """A word of the cipher; both words for the same operands are one computation to LLVM."""

    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        key0, key1, x, y = [_Word(b, v) for v, _ in args]
        return cipher((key0, key1), (x, y), _Word.rotated)[word].value

    return emit


class _Word(Struct, frozen=True):
    """A value with the operators of the cipher."""

    b: Builder
    value: Value

    def _with(self, op: str, other: _Word | int) -> _Word:
        right = other.value if isinstance(other, _Word) else other
        return _Word(self.b, self.b.op(op, self.value, right))

    def __add__(self, other: _Word | int) -> _Word:
        return self._with("add", other)

    def __xor__(self, other: _Word | int) -> _Word:
        return self._with("xor", other)

    def rotated(self, distance: int) -> _Word:
        """The bits moved up by a distance; those that fall out come in below."""
        return _Word(
            self.b,
            self.b.op(
                "or", self._with("shl", distance).value, self._with("lshr", 32 - distance).value
            ),
        )


def _bitwise_not(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
    x = args[0][0]
    return b.op("xor", x, True if x.type.elem == "i1" else -1)


def _is(predicate: str, against: float) -> Emit:
    """A classification of floats by magnitude; integers are always finite and not NaN."""

    def emit(b: Builder, args: Sequence[Typed], dtype: DType) -> Value:
        x = args[0][0]
        if not x.type.is_float:
            return b.const(x.type.mask, predicate == "one")
        return b.compare(predicate, b.unary("fabs", x), against)

    return emit


TABLE: Final[dict[str, Emit]] = {
    "add": _arithmetic("fadd", "add"),
    "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul"),
    "divide": _divide,
    "floor_divide": division.floor_divide,
    "remainder": division.remainder,
    "quotient": division.quotient,
    "elementwise_pow": _power,
    "maximum": _extremum("max"),
    "minimum": _extremum("min"),
    "fmax": _quiet_extremum("max"),
    "fmin": _quiet_extremum("min"),
    "copysign": lambda b, args, _: b.binary("copysign", args[0][0], args[1][0]),
    "atan2": lambda b, args, _: inverse_functions.atan2(b, args[0][0], args[1][0]),
    "negative": _negative,
    "abs": _abs,
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": _math(vecmath.rsqrt),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("roundeven"),
    "exp": _math(vecmath.exp),
    "expm1": _math(vecmath.expm1),
    "log": _math(vecmath.log),
    "log1p": _math(vecmath.log1p),
    "sin": _math(vecmath.sin),
    "cos": _math(vecmath.cos),
    "tanh": _math(vecmath.tanh),
    "sigmoid": _math(vecmath.sigmoid),
    "erf": _math(vecmath.erf),
    "tanh_of_cubic": _math(vecmath.tanh_of_cubic),
    "tanh_of_softplus": _math(vecmath.tanh_of_softplus),
    "erf_of_root": _math(vecmath.erf_of_root),
    **{
        function.__name__: _math(function)
        for function in (
            inverse_functions.tan,
            inverse_functions.asin,
            inverse_functions.acos,
            inverse_functions.atan,
            inverse_functions.sinh,
            inverse_functions.cosh,
        )
    },
    "asinh": _math(inverse_functions.asinh),
    "acosh": _math(inverse_functions.acosh),
    "atanh": _math(inverse_functions.atanh),
    "log2": _math(log_bases.log2),
    "log10": _math(log_bases.log10),
    "lgamma": _math(gamma_functions.lgamma),
    "gammaln": _math(gamma_functions.lgamma),
    "digamma": _math(gamma_functions.digamma),
    "erfinv": _math(erfinv),
    "equal": _compare("oeq", "eq"),
    "not_equal": _compare("une", "ne"),
    "less_than": _compare("olt", "slt"),
    "less_equal": _compare("ole", "sle"),
    "greater_than": _compare("ogt", "sgt"),
    "greater_equal": _compare("oge", "sge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": _logical_not,
    "bitwise_and": _bitwise("and"),
    "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"),
    "bitwise_not": _bitwise_not,
    "bitwise_left_shift": _shift("shl"),
    "bitwise_right_shift": _shift("ashr"),
    "unsigned_right_shift": _shift("lshr"),
    "threefry": _threefry(0),
    "threefry_second": _threefry(1),
    "isnan": _is("uno", 0.0),
    "isinf": _is("oeq", math.inf),
    "isfinite": _is("one", math.inf),
    "where": _where,
    "cast": lambda b, args, dtype: cast(b, *args[0], dtype),
}
