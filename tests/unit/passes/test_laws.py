"""Every law of `canonicalize`, by evaluation: the program gives the same bits before and after."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from pirkit.diag.errors import PirkitError
from pirkit.dialect.opdef import find
from pirkit.dialect.text import print_mlir
from pirkit.dialect.types import element_type
from pirkit.passes import run_pipeline
from pirkit.passes.rewrite_rules import HELD, RewriteRule, all_rewrite_rules
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.execution import Array, assert_same_bits, effect, parsed
from tests.unit.passes.law_programs import ON_NUMBERS, ON_TENSORS

DTYPES = (
    dt.float32,
    dt.float64,
    dt.float16,
    dt.bfloat16,
    dt.int32,
    dt.int64,
    dt.bool_,
    dt.complex64,
)
NUMBERS = ("0.0", "-0.0", "1.0", "-1.0", "2.0")
SHAPE = (2, 4)
SPECIAL = (-0.0, 0.0, np.nan, np.inf, -np.inf, 1.5, -2.5, 1e-40)


def body_of(rule: RewriteRule) -> str:
    return (ON_NUMBERS | ON_TENSORS).get(rule.name) or ON_TENSORS[rule.equation]


def program(body: str, op: str, dtype: DType, number: str) -> str:
    element = str(element_type(dtype))
    filled = body.format(
        op=op, D=dtype.name, value=number, T=f"tensor<2x4x{element}>", N=f"tensor<1x{element}>",
        B="tensor<2x4xi1>", W="tensor<2x4xf64>", R=f"tensor<4x2x{element}>",
        F=f"tensor<8x{element}>", S=f"tensor<2x2x{element}>",
    )  # fmt: skip
    type_ = re.findall(r"%y = .* -> (.*)$", filled, re.MULTILINE)[0]
    return f"""
        pir.program @main(%x "x" : tensor<2x4x{element}>, %c "c" : tensor<i1>) {{
          {filled}
          %z = pd_op.if(%c) : (tensor<i1>) -> {type_} {{
            pir.yield(%y) : ({type_}) -> ()
          }} else {{
            pir.yield(%y) : ({type_}) -> ()
          }}
          pir.shadow_output(%z) {{output_name = "z"}} : ({type_}) -> ()
        }}"""


def values(dtype: DType) -> Array:
    if dtype.is_complex:
        return np.array(list(map(complex, SPECIAL, SPECIAL[::-1])), dtype.np).reshape(SHAPE)
    if dtype.is_float:
        return np.array(SPECIAL).astype(dtype.np).reshape(SHAPE)
    numbers = np.array([0, 1, 2, -3, 7, 2**31 - 1, -5, 1])
    return numbers.astype(dtype.np).reshape(SHAPE)


def applied(rule: RewriteRule, dtype: DType, number: str) -> bool:
    """True if the law has changed its program; the results are compared in any case."""
    text = program(body_of(rule), rule.op, dtype, number)
    try:
        module = parsed(text)
        before = effect(module, {"x": values(dtype), "c": np.array(True)})
    except PirkitError:
        return False  # the op does not take this dtype
    run_pipeline(module, "canonicalize")
    assert_same_bits(before, effect(module, {"x": values(dtype), "c": np.array(True)}))
    return print_mlir(module) != print_mlir(parsed(text))


@pytest.mark.parametrize("rule", list(all_rewrite_rules()), ids=lambda rule: rule.name)
def test_a_law_keeps_every_bit_and_applies_to_some_program(rule: RewriteRule) -> None:
    assert find(rule.op) is not None
    numbers = NUMBERS if rule.name in ON_NUMBERS else NUMBERS[:1]
    results = [applied(rule, dtype, number) for dtype in DTYPES for number in numbers]
    assert any(results)


def test_every_program_belongs_to_a_law() -> None:
    known = {name for rule in all_rewrite_rules() for name in (rule.name, rule.equation)}
    assert (ON_NUMBERS.keys() | ON_TENSORS.keys()) - known == set()


@pytest.mark.parametrize("name", sorted(ON_NUMBERS))
def test_other_numbers_are_not_neutral(name: str) -> None:
    (rule,) = [rule for rule in all_rewrite_rules() if rule.name == name]
    assert not applied(rule, dt.float32, "2.0")


def test_zero_is_not_neutral_to_add() -> None:
    for rule in all_rewrite_rules():
        if rule.op == "pd_op.add":
            assert not applied(rule, dt.float32, "0.0")
            assert applied(rule, dt.float32, "-0.0")


def test_transposes_that_do_not_commute_are_composed_in_order() -> None:
    module = parsed("""
        pir.program @main(%x "x" : tensor<2x3x4xf32>) {
          %a = pd_op.transpose(%x) {perm = array<i32: 1, 2, 0>}
            : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
          %y = pd_op.transpose(%a) {perm = array<i32: 1, 0, 2>}
            : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
          pir.shadow_output(%y) {output_name = "y"} : (tensor<4x3x2xf32>) -> ()
        }""")
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    before = effect(module, {"x": x})
    run_pipeline(module, "canonicalize,dce")
    assert print_mlir(module).count("pd_op.transpose") == 1
    assert_same_bits(effect(module, {"x": x}), before)


def extremes(dtype: DType) -> Array:
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.np)
        one = np.array(1, dtype.np)
        numbers = [info.max, info.min, info.smallest_subnormal, one + info.eps, -0.0, np.inf]
        return np.array(numbers, dtype.np)
    if dtype.is_complex:
        return np.array([complex(np.finfo(np.float32).max, -np.finfo(np.float32).tiny)], dtype.np)
    if dtype is dt.bool_:
        return np.array([False, True])
    info = np.iinfo(dtype.np)
    return np.array([info.min, info.max, info.max - 1, 0], dtype.np)


@pytest.mark.parametrize(
    ("wide", "narrow"), [(wide, narrow) for wide, held in HELD.items() for narrow in held]
)
def test_what_an_element_type_holds_survives_it(wide: str, narrow: str) -> None:
    values = extremes(dt.BY_NAME[narrow])
    widened = values.astype(dt.BY_NAME[wide].np)
    if widened.dtype.kind == "c" and values.dtype.kind != "c":
        widened = widened.real  # the cast drops the imaginary part, with a warning of numpy's
    assert_same_bits({"y": widened.astype(values.dtype)}, {"y": values})


def test_float32_does_not_hold_int32() -> None:
    assert "int32" not in HELD["float32"]
    module = parsed("""
        pir.program @main(%x "x" : tensor<2xi32>) {
          %a = pd_op.cast(%x) {dtype = #pir.dtype<float32>} : (tensor<2xi32>) -> tensor<2xf32>
          %y = pd_op.cast(%a) {dtype = #pir.dtype<int32>} : (tensor<2xf32>) -> tensor<2xi32>
          pir.shadow_output(%y) {output_name = "y"} : (tensor<2xi32>) -> ()
        }""")
    run_pipeline(module, "canonicalize,dce")
    assert print_mlir(module).count("pd_op.cast") == 2
