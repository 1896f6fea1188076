"""Result types, and what the program tells of the values behind them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import pirkit
from pirkit.diag.errors import ConstraintError, UnsupportedError
from pirkit.dialect.infer import constant_array, constant_scalar, infer_result_types
from pirkit.dialect.opdef import lookup
from pirkit.dialect.operation import ProgramOp, make
from pirkit.dialect.promotion import promote
from pirkit.dialect.types import tensor_type
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta


def argument(*shape: int, dtype: dt.DType = dt.float32) -> SSAValue:
    return ProgramOp.build("main", [tensor_type(shape, dtype)], [{}]).block.args[0]


def full(value: Any, dtype: dt.DType = dt.float32, shape: tuple[int, ...] = (1,)) -> SSAValue:
    return make("pd_op.full", [], {"shape": shape, "value": value, "dtype": dtype}).results[0]


def ints(*values: int) -> SSAValue:
    return make("pd_op.full_int_array", [], {"value": values, "dtype": dt.int64}).results[0]


def test_unknown_dimensions_stay_unknown() -> None:
    op = make("pd_op.matmul", [argument(UNKNOWN, 8), argument(8, 4)])
    assert op.results[0].type == tensor_type((UNKNOWN, 4), dt.float32)


def test_shape_from_an_operand_that_is_a_constant() -> None:
    op = make("pd_op.reshape", [argument(2, 6), ints(3, 4)])
    assert op.results[0].type == tensor_type((3, 4), dt.float32)


def test_shape_from_a_list_of_which_one_element_is_known() -> None:
    some = make("pir.combine", [full(3, dt.int64), argument(1, dtype=dt.int64)]).results[0]
    op = make("pd_op.reshape", [argument(2, 6), some])
    assert op.results[0].type == tensor_type((3, UNKNOWN), dt.float32)


def test_results_that_a_rule_refuses() -> None:
    with pytest.raises(ConstraintError):
        make("pd_op.reshape", [argument(2, 6), ints(5)])


def test_op_without_a_rule() -> None:
    with pytest.raises(UnsupportedError) as caught:
        infer_result_types(lookup("pir.tuple_pop"), [argument(1)], {})
    assert caught.value.code == "PK0402"


def test_required_attribute() -> None:
    with pytest.raises(ConstraintError, match="lacks its attribute `name`"):
        infer_result_types(lookup("pd_op.data"), [], {})


def test_constant_array() -> None:
    assert constant_array(ints(1, 2)) == (1, 2)
    assert constant_array(full(7, dt.int64)) == (7,)
    assert constant_array(make("pir.combine", [full(3, dt.int64), argument(1)]).results[0]) == (
        3,
        None,
    )
    assert constant_array(argument(3, dtype=dt.int64)) == (None, None, None)
    assert constant_array(argument(UNKNOWN, dtype=dt.int64)) is None


def test_constant_scalar() -> None:
    assert constant_scalar(full(2.5)) == 2.5
    assert constant_scalar(full(2.0, dt.int64)) == 2
    assert constant_scalar(ints(4)) == 4
    assert constant_scalar(ints(4, 5)) is None
    assert constant_scalar(argument(1)) is None
    assert constant_scalar(make("pd_op.relu", [argument(1)]).results[0]) is None


@pytest.mark.parametrize("pair", [(dt.float16, dt.bfloat16), (dt.bfloat16, dt.float16)], ids=str)
def test_both_kinds_of_half_precision_meet_in_float32(pair: tuple[dt.DType, dt.DType]) -> None:
    x, y = (TensorMeta((2,), dtype) for dtype in pair)
    assert promote(x, y, "test") is dt.float32


@pytest.mark.parametrize(
    ("element", "name", "number"),
    [("f32", "float32", "0x7FF0000000000000"), ("f64", "float64", "0x7FF8000000000000"),
     ("complex<f32>", "complex64", "-2.0")],
    ids=["infinity", "nan", "complex"],
)  # fmt: skip
def test_a_number_that_is_an_operand_may_be_no_integer(
    element: str, name: str, number: str
) -> None:
    text = f"""pir.program @main(%x "x" : tensor<3x{element}>) {{
      %k = pd_op.full() {{shape = array<i64: 1>, value = {number} : f64,
        dtype = #pir.dtype<{name}>, place = #pir.place<cpu:0>}} : () -> tensor<1x{element}>
      %y = pd_op.scale(%x, %k) {{bias = 0.0 : f32, bias_after_scale = true}}
        : (tensor<3x{element}>, tensor<1x{element}>) -> tensor<3x{element}>
      pir.shadow_output(%y) {{output_name = "y"}} : (tensor<3x{element}>) -> ()
    }}"""
    x = np.ones(3, name)
    factor = {"f32": np.inf, "f64": np.nan}.get(element, -2.0)
    for pipeline in ("", "@default"):
        found = pirkit.compile(pirkit.loads(text), pipeline=pipeline)(x=x)["y"]
        np.testing.assert_array_equal(found, x * factor)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize(("name", "slot"), [("topk", "k"), ("argmax", "axis"), ("cumsum", "axis")])
def test_an_integer_that_is_an_operand_is_finite(name: str, slot: str, number: float) -> None:
    at = next(o.index for o in lookup(f"pd_op.{name}").operands if o.name == slot)
    operands = [argument(2, 3)] + [None] * (at - 1) + [full(number, dt.float64)]
    with pytest.raises(ConstraintError, match=f"`{slot}` is -?(inf|nan), no integer"):
        make(f"pd_op.{name}", operands)
