"""Elementwise ops of every element type: native code gives the values of the rules."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.diag.errors import PirkitError
from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import UNDEFINED
from tests.fusion.cases import Case

Array = np.ndarray[Any, Any]

UNARY: Final = (
    "exp tanh abs sin cos floor ceil sigmoid relu sqrt rsqrt log log1p expm1 erf reciprocal sign "
    "round trunc isnan isinf isfinite logical_not bitwise_not silu softplus gelu tan atan asin "
    "acos sinh cosh asinh acosh atanh log2 log10 softsign relu6 leaky_relu elu selu hardswish "
    "hardsigmoid swish mish logsigmoid tanh_shrink celu stanh hardtanh thresholded_relu "
    "hardshrink softshrink i0 i1 angle scale"
).split()
BINARY: Final = (
    "add subtract multiply divide maximum minimum fmax fmin elementwise_pow floor_divide remainder "
    "atan2 less_than less_equal greater_than greater_equal equal not_equal logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor copysign heaviside"
).split()
TYPES: Final = (
    dt.float32, dt.float64, dt.float16, dt.bfloat16,
    dt.int8, dt.uint8, dt.int16, dt.int32, dt.int64, dt.bool_,
)  # fmt: skip
TOLERANCE: Final = {"float32": 3e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}


def special(dtype: dt.DType) -> Array:
    if dtype is dt.bool_:
        return np.array([False, True, True])
    if dtype.is_integer:
        limits = np.iinfo(dtype.np)
        return np.array([limits.min, limits.max, 0, 1, 2, 3, 7], dtype.np)
    numbers = [0.0, 0.1, 0.5, 1.0, 1.5, 6.0, 7.5, 1e-40, 1e10, 3e38, np.inf]
    with np.errstate(over="ignore"):
        return np.array([np.nan, *numbers, *(-n for n in numbers)]).astype(dtype.np)


def values(dtype: dt.DType, ops: list[str], inputs: list[Array], **how: str) -> dict[str, Array]:
    """What each op gives that takes the element type."""
    case = Case()
    args = [
        case.b("pd_op.data", name=f"x{k}", shape=a.shape, dtype=dtype, place=UNDEFINED)
        for k, a in enumerate(inputs)
    ]
    for name in ops:
        with suppress(PirkitError):
            case.b("pir.shadow_output", case.op(name, *args), output_name=name)
    given = {f"x{k}": a for k, a in enumerate(inputs)}
    return compile(Program(ModuleOp([case.program]), {}, "test"), **how)(**given)  # type: ignore[arg-type]


def refused(dtype: dt.DType, name: str, inputs: list[Array]) -> bool:
    """Whether an op takes no numbers of a type, which only its rule tells."""
    try:
        found = values(dtype, [name], inputs, backend="reference", pipeline="")
    except PirkitError:
        return True
    return not found


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("operands", [1, 2])
def test_native_values_are_those_of_the_rules(dtype: dt.DType, operands: int) -> None:
    numbers = special(dtype)
    inputs = [numbers]
    if operands == 2:
        x, y = np.meshgrid(numbers, numbers)
        separate = (y != 0) | dtype.is_float  # integers are not divided by 0
        inputs = [x[separate], y[separate]]
    ops = [n for n in (UNARY, BINARY)[operands - 1] if not refused(dtype, n, inputs)]
    want = values(dtype, ops, inputs, backend="reference", pipeline="")
    found = values(dtype, ops, inputs, pipeline="@fused")
    assert len(found) > 5
    assert found.keys() == want.keys()
    for name, value in want.items():
        assert found[name].dtype == value.dtype, name
        if value.dtype.kind in "biu":
            np.testing.assert_array_equal(found[name], value, err_msg=name)
            continue
        close = TOLERANCE[value.dtype.name]
        ours, theirs = found[name].astype(np.float64), value.astype(np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close / 10, err_msg=name)


def test_quotients_are_rounded_down_as_numpy_does() -> None:
    """Rounding the rounded quotient down would give 60 and 10."""
    x = np.array([6.0, 1.0, -1.0, 5.0, -0.0, np.inf, -1.0], np.float32)
    y = np.array([0.1, 0.1, np.inf, 0.0, 3.0, 2.0, 0.1], np.float32)
    found = values(dt.float32, ["floor_divide"], [x, y], pipeline="@fused")["floor_divide"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, x // y)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(x // y))


def test_the_sign_of_a_zero_is_zero() -> None:
    x = np.array([0.0, -0.0], np.float32)
    found = values(dt.float32, ["sign"], [x], pipeline="@fused")["sign"]
    assert not np.signbit(found).any()


def test_llvm_may_merge_two_conversions_of_a_scalar() -> None:
    """It moves the sign of `asinh` behind them, and no CPU converts a double to half at once."""
    case = Case()
    x = case.b("pd_op.data", name="x", shape=(), dtype=dt.float16, place=UNDEFINED)
    case.b("pir.shadow_output", case.op("erf", case.op("asinh", x)), output_name="y")
    program = Program(ModuleOp([case.program]), {}, "test")
    found = compile(program, pipeline="@fused", require_native=True)(x=np.float16(0.5))
    assert found["y"] == np.float16(0.504)
