"""Operations: slots, accessors, and the classes behind them."""

from __future__ import annotations

import pytest
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import ConstraintError, UnsupportedError
from pirkit.diag.span import Span
from pirkit.dialect.attrs import encode
from pirkit.dialect.opdef import lookup
from pirkit.dialect.operation import (
    PirOp,
    ProgramOp,
    class_named,
    class_of,
    create,
    describe,
    location_of,
    make,
    span_of,
)
from pirkit.dialect.types import tensor_type
from pirkit.runtime import dtype as dt

SQUARE = tensor_type((4, 4), dt.float32)


def block_with(count: int) -> list[mlir.SSAValue]:
    return list(ProgramOp.build("main", [SQUARE] * count, [{}] * count).block.args)


def test_optional_operand_leaves_its_slot_empty() -> None:
    x, y = block_with(2)
    op = create("pd_op.layer_norm", [x, y, None], [SQUARE, SQUARE, SQUARE])
    assert op.operand_slots == (x, y, None)
    assert op.operand_named("x") is x
    assert op.operand_named("bias") is None
    assert len(op.operands) == 2
    with pytest.raises(KeyError, match="no operand 'z'"):
        op.operand_named("z")


def test_optional_result_leaves_its_slot_empty() -> None:
    x, y, g = block_with(3)
    op = create("pd_op.matmul_grad", [x, y, g], [None, SQUARE])
    assert op.result_slots == (None, op.results[0])
    assert op.result_named("x_grad") is None
    assert op.result_named("y_grad") is op.results[0]
    with pytest.raises(KeyError, match="no result 'out'"):
        op.result_named("out")


def test_variadic_operands_are_spread() -> None:
    values = block_with(3)
    op = make("pir.combine", values)
    assert op.operand_slots == tuple(values)


def test_attribute_is_its_default_unless_set() -> None:
    x, y = block_with(2)
    op = make("pd_op.matmul", [x, y], {"transpose_x": True})
    assert op.attribute("transpose_x") is True
    assert op.attribute("transpose_y") is False
    assert op.attribute_values() == {"transpose_x": True, "transpose_y": False}
    assert "transpose_y" not in op.properties
    with pytest.raises(KeyError):
        op.attribute("transpose_z")


def test_required_attribute_that_is_not_set() -> None:
    op = create("pir.parameter", [], [SQUARE])
    with pytest.raises(KeyError, match="no attribute 'parameter_name'"):
        op.attribute("parameter_name")


def test_attribute_that_may_be_an_operand() -> None:
    (x,) = block_with(1)
    axis = make("pd_op.full_int_array", [], {"value": (1,), "dtype": dt.int64})
    held = make("pd_op.sum", [x], {"axis": (1,)})
    passed = make("pd_op.sum", [x, axis.results[0]])
    assert held.attribute("axis") == (1,)
    assert held.results[0].type == passed.results[0].type == tensor_type((4,), dt.float32)


def test_stop_gradient_is_one_flag_for_each_result() -> None:
    (x,) = block_with(1)
    assert make("pd_op.relu", [x]).stop_gradient == ()
    flags = {"stop_gradient": encode("bool[]", [True])}
    assert make("pd_op.relu", [x], attributes=flags).stop_gradient == (True,)


def test_make_checks_constraints() -> None:
    (x,) = block_with(1)
    with pytest.raises(ConstraintError):
        make("pd_op.sum", [x], {"axis": (7,)})


def test_unknown_op_is_told_from_its_neighbours() -> None:
    with pytest.raises(UnsupportedError, match=r"unknown op `pd_op\.rellu`") as caught:
        make("pd_op.rellu")
    assert caught.value.help is not None
    assert "`pd_op.relu`" in caught.value.help


def test_class_of_an_op_is_made_once() -> None:
    relu = class_of(lookup("pd_op.relu"))
    assert relu is class_named("pd_op.relu")
    assert issubclass(relu, PirOp)
    assert relu.__name__ == "ReluOp"
    assert class_named("pd_op.rellu") is None


def test_location() -> None:
    (x,) = block_with(1)
    assert span_of(make("pd_op.relu", [x])) is None
    located = make("pd_op.relu", [x], location=location_of("net.txt", 3, 5))
    assert span_of(located) == Span("net.txt", 3, 5)


def test_values_are_described_by_their_name_or_their_maker() -> None:
    (x,) = block_with(1)
    y = make("pd_op.relu", [x]).results[0]
    assert describe(x) == "argument 0"
    assert describe(y) == "result 0 of `pd_op.relu`"
    y.name_hint = "hidden"
    assert describe(y) == "%hidden"


def test_program_names_its_arguments() -> None:
    keyword = {"keyword": encode("str", "x")}
    program = ProgramOp.build("backward", [SQUARE], [keyword])
    assert program.symbol == "backward"
    assert program.keywords == ("x",)
    assert list(program.operations) == []
