"""Every primitive against NumPy, in each element type it is defined for."""

from __future__ import annotations

import pytest

from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, LoopPhase, Store
from pirkit.lowering.codegen.ir.piecewise_poly_match import COMPOSITE_FUNCTIONS
from pirkit.lowering.codegen.math.primitives import TABLE
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.codegen.nests import check, operand

COMPARISONS = {"equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"}
BINARY = COMPARISONS | {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum",
    "fmax", "fmin", "copysign", "atan2", "elementwise_pow", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "quotient",
}  # fmt: skip
QUESTIONS = COMPARISONS | {name for name in TABLE if name.startswith(("logical", "is"))}
FOR_INTEGERS = {
    "add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum", "negative",
    "abs", "sign", "quotient",
} | COMPARISONS  # fmt: skip
SHIFTS = {"bitwise_left_shift", "bitwise_right_shift", "unsigned_right_shift"}
BITS = sorted(n for n in TABLE if n.startswith("bitwise") and n not in SHIFTS)
OWN_TESTS = {
    "where",
    "cast",
    "quotient",
    "threefry",
    "threefry_second",
    "tanh_of_softplus",
    *SHIFTS,
    *(curve.primitive for curve in COMPOSITE_FUNCTIONS),
}
"""They are tested here below or, what kernels get from others, in
``test_piecewise_poly_match.py``."""
FLOATS = [dt.float32, dt.float64]
INTEGERS = [dt.int32, dt.int64, dt.uint8]


def nest(primitive: str, dtype: DType, count: int = 1) -> Kernel:
    axes = ((37,), ())
    count = 2 if primitive in BINARY | SHIFTS else count
    result = dt.bool_ if primitive in QUESTIONS else dtype
    loads = tuple(Load(f"x{k}", k) for k in range(count))
    body = (
        *loads,
        Compute("y", primitive, tuple(load.name for load in loads), result),
        Store(count, "y"),
    )
    operands = tuple(operand(dtype, axes) for _ in range(count))
    return Kernel(*axes, (*operands, operand(result, axes)), (LoopPhase(body),))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize(
    "name",
    sorted(set(TABLE) - OWN_TESTS - {*BITS}),
)
def test_of_floats(name: str, dtype: DType) -> None:
    check(nest(name, dtype), rtol=1e-6 if dtype is dt.float32 else 1e-14, atol=1e-12)


@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
@pytest.mark.parametrize("name", sorted(FOR_INTEGERS))
def test_of_integers(name: str, dtype: DType) -> None:
    check(nest(name, dtype))


@pytest.mark.parametrize("dtype", [dt.bool_, dt.int32, dt.int8], ids=repr)
@pytest.mark.parametrize("name", BITS)
def test_of_bits(name: str, dtype: DType) -> None:
    check(nest(name, dtype))


@pytest.mark.parametrize("dtype", [dt.int32, dt.int64], ids=repr)
@pytest.mark.parametrize("name", sorted(SHIFTS))
def test_of_shifts(name: str, dtype: DType) -> None:
    check(nest(name, dtype))


@pytest.mark.parametrize("name", ["threefry", "threefry_second"])
def test_of_ciphers(name: str) -> None:
    check(nest(name, dt.int32, 4))


CASTS = [dt.bool_, dt.int8, dt.int32, dt.int64, dt.float16, dt.bfloat16, dt.float32, dt.float64]


def cast_nest(source: DType, target: DType) -> Kernel:
    axes = ((37,), ())
    body = (Load("x", 0), Compute("y", "cast", ("x",), target), Store(1, "y"))
    return Kernel(*axes, (operand(source, axes), operand(target, axes)), (LoopPhase(body),))


@pytest.mark.parametrize("source", CASTS, ids=repr)
@pytest.mark.parametrize("target", CASTS, ids=repr)
def test_casts(source: DType, target: DType) -> None:
    check(cast_nest(source, target))


def test_where() -> None:
    axes = ((37,), ())
    body = (
        *(Load(f"x{k}", k) for k in range(3)),
        Compute("y", "where", ("x0", "x1", "x2"), dt.float32),
        Store(3, "y"),
    )
    values = tuple(operand(dt.float32, axes) for _ in range(3))
    check(Kernel(*axes, (operand(dt.bool_, axes), *values), (LoopPhase(body),)))
