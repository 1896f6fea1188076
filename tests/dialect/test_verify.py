"""The verifier refuses what breaks a rule, and nothing else."""

from __future__ import annotations

from typing import Final

import pytest
from xdsl.dialects import builtin as mlir
from xdsl.parser.core import ForwardDeclaredValue

from pirkit.diag.errors import PirkitError, VerifyError
from pirkit.diag.limits import STRICT, use_limits
from pirkit.dialect.attrs import KINDS, NullAttr, encode
from pirkit.dialect.opdef import OpDef, all_ops
from pirkit.dialect.operation import ProgramOp, create
from pirkit.dialect.text import parse_mlir
from pirkit.dialect.types import OPAQUE, tensor_type, vec_type
from pirkit.dialect.verify import verify_module, verify_op
from pirkit.runtime import dtype as dt

X: Final = 'pir.program @main(%x "x" : tensor<2x3xf32>, %c "c" : tensor<i1>) {\n'


def refused(body: str) -> PirkitError:
    with pytest.raises(PirkitError) as caught:
        verify_module(parse_mlir(X + body + "\n}", "main.mlir"))
    return caught.value


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("%1 = pd_op.relu(%2) : (tensor<2xf32>) -> tensor<2xf32>\n"
         "%2 = pd_op.exp(%1) : (tensor<2xf32>) -> tensor<2xf32>",
         "PK0201", "uses result 0 of `pd_op.exp` where it is not defined"),
        ("%1 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<2x4xf32>",
         "PK0202", "is declared `tensor<2x4xf32>` but is `tensor<2x3xf32>`"),
        ("%1 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf64>",
         "PK0202", "but is `tensor<2x3xf32>`"),
        ("%1 = pd_op.matmul(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
         "PK0203", "`pd_op.matmul`: "),
        ("%1 = pd_op.concat(%x, none) : (tensor<2x3xf32>, none) -> tensor<2x3xf32>",
         "PK0202", "must be a list"),
        ("%1 = pd_op.relu() : () -> tensor<2x3xf32>", "PK0204", "has 0 operands, expected 1"),
        ("%1, %2 = pd_op.relu(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)",
         "PK0204", "has 2 results, expected 1"),
        ("%1 = pd_op.layer_norm_grad(none, none, none, none, none, none)"
         " : (none, none, none, none, none, none) -> tensor<2xf32>", "PK0204", ""),
        ('%1 = "pd_op.relu"(%x) <{up = true}> : (tensor<2x3xf32>) -> tensor<2x3xf32>',
         "PK0205", "has no attribute `up`"),
        ("%1 = pd_op.full() {shape = array<i32: 2>} : () -> tensor<2xf32>",
         "PK0205", "attribute `shape` of `pd_op.full` is `array<i32: 2>`, expected"),
        ("%1 = pd_op.relu(%x) {stop_gradient = [true]} : (tensor<2x3xf32>) -> tensor<2x3xf32>",
         "PK0205", "attribute `stop_gradient` of `pd_op.relu` is `[true]`, expected bool[]"),
        ("%1 = pir.parameter() : () -> tensor<2xf32>",
         "PK0205", "lacks its attribute `parameter_name`"),
        ("pd_op.if(%c) : (tensor<i1>) -> () { pir.yield() : () -> () } else {\n"
         "%1 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n}",
         "PK0206", "does not end in `pir.yield`"),
        ('%1 = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>\n'
         '%2 = pir.parameter() {parameter_name = "w"} : () -> tensor<2xf32>',
         "PK0207", "two parameters called 'w'"),
        ('pir.shadow_output(%x) {output_name = "y"} : (tensor<2x3xf32>) -> ()\n'
         'pir.shadow_output(%x) {output_name = "y"} : (tensor<2x3xf32>) -> ()',
         "PK0207", "two outputs called 'y'"),
        ("%k = pir.constant() {value = \"k\"} : () -> tensor<2x3xf32>\n"
         "%1 = pd_op.relu_(%k) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
         "PK0208", "writes a constant through `x`"),
        ("%l = pir.combine(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>)"
         " -> !pir.vec<tensor<2x3xf32>, tensor<2x3xf32>>\n"
         '%s = pir.parameter() {parameter_name = "s"} : () -> tensor<1xf32>\n'
         "%o, %f = pd_op.check_finite_and_unscale_(%l, %s)"
         " : (!pir.vec<tensor<2x3xf32>, tensor<2x3xf32>>, tensor<1xf32>)"
         " -> (!pir.vec<tensor<2x3xf32>, tensor<2x3xf32>>, tensor<1xi1>)",
         "PK0208", "writes one value twice through `x`"),
        ("%s, %i, %o = pir.stack_create() : () -> (!pir.stack, !pir.inlet, !pir.outlet)\n"
         "pir.tuple_push(%i, %x) : (!pir.inlet, tensor<2x3xf32>) -> ()\n"
         "pir.tuple_push(%i, %x) : (!pir.inlet, tensor<2x3xf32>) -> ()",
         "PK0208", "a second `pir.tuple_push` on one stack"),
        ("%1 = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
         "pir.yield(%c, %x) : (tensor<i1>, tensor<2x3xf32>) -> ()\n}",
         "PK0209", "has 1 initial values but 0 arguments"),
        ("%1 = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
         "^bb0(%a : tensor<2x3xf32>):\n"
         "pir.yield(%x, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()\n}",
         "PK0203", "not one bool"),
        ("%1 = pd_op.full() {value = 1.0 : f64, shape = array<i64>, dtype = #pir.dtype<Undefined>}"
         " : () -> tensor<f32>", "PK0203", "the element type of a result of `pd_op.full` is"),
        ("%l = pir.combine(%x) : (tensor<2x3xf32>) -> !pir.vec<tensor<2x3xf32>>\n"
         "%1 = pd_op.exp(%l) : (!pir.vec<tensor<2x3xf32>>) -> tensor<2x3xf32>",
         "PK0203", "`x` of `pd_op.exp` is no tensor but "),
        ("%s, %i, %o = pir.stack_create() : () -> (!pir.stack, !pir.inlet, !pir.outlet)\n"
         "%1 = pd_op.exp(%s) : (!pir.stack) -> tensor<2x3xf32>",
         "PK0203", "`x` of `pd_op.exp` is no tensor but "),
        ("%1 = pd_op.arange(%c, %c, %c) {dtype = #pir.dtype<Undefined>}"
         " : (tensor<i1>, tensor<i1>, tensor<i1>) -> tensor<?xi64>",
         "PK0203", "the element type of a result of `pd_op.arange` is"),
        ("pd_op.if(%x) : (tensor<2x3xf32>) -> () { pir.yield() : () -> () } else {"
         " pir.yield() : () -> () }", "PK0203", "not one bool"),
    ],
)  # fmt: skip
def test_broken_rule(body: str, code: str, message: str) -> None:
    error = refused(body)
    assert error.code == code
    assert message in error.message
    assert error.span is not None
    assert error.span.file == "main.mlir"
    assert error.span.line > 1


def test_errors_are_collected_to_the_end() -> None:
    """An output reads what the program leaves; programs after an error are checked as well."""
    first = (
        'pir.shadow_output(%x) {output_name = "y"} : (tensor<2x3xf32>) -> ()\n'
        "%1 = pd_op.cast_(%x) {dtype = #pir.dtype<float64>}"
        " : (tensor<2x3xf32>) -> tensor<2x3xf64>\n}\n"
    )
    second = "%1 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<2x4xf32>\n}\n"
    found: list[PirkitError] = []
    text = X + first + X.replace("@main", "@other") + second
    verify_module(parse_mlir(text, "main.mlir"), found)
    assert [e.code for e in found] == ["PK0208", "PK0202"]


def test_constraint_is_quoted() -> None:
    error = refused(
        "%1 = pd_op.matmul(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>"
    )
    assert error.notes[0].startswith("constraint C")
    assert error.notes[1].startswith("C")


@pytest.mark.parametrize(
    "body",
    [
        "%1 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>",
        "%1 = pd_op.relu_(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "%1 = pd_op.if(%c) : (tensor<i1>) -> tensor<?x3xf32> {\n"
        "pir.yield(%x) : (tensor<2x3xf32>) -> ()\n} else {\n"
        "%2 = pd_op.relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n"
        "pir.yield(%2) : (tensor<2x3xf32>) -> ()\n}\n"
        "%3 = pd_op.relu(%1) : (tensor<?x3xf32>) -> tensor<?x3xf32>",
        "%1 = pd_op.while(%c, %x) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "^bb0(%a : tensor<2x3xf32>):\n"
        "pir.yield(%c, %a) : (tensor<i1>, tensor<2x3xf32>) -> ()\n}",
    ],
    ids=["unknown dimension", "in place", "branch", "loop"],
)
def test_legal_program(body: str) -> None:
    verify_module(parse_mlir(X + body + "\n}"))


def test_operation_outside_a_program() -> None:
    module = mlir.ModuleOp([create("pir.yield")])
    with pytest.raises(PirkitError, match="outside a program") as caught:
        verify_module(module)
    assert caught.value.code == "PK0209"


def test_operation_of_another_dialect() -> None:
    program = ProgramOp.build("main")
    program.block.add_op(mlir.UnrealizedConversionCastOp.create())
    with pytest.raises(PirkitError) as caught:
        verify_module(mlir.ModuleOp([program]))
    assert caught.value.code == "PK0404"


def test_argument_without_a_keyword() -> None:
    program = ProgramOp.build("main")
    program.block.insert_arg(tensor_type((2,), dt.float32), 0)
    with pytest.raises(PirkitError, match="needs a keyword"):
        verify_module(mlir.ModuleOp([program]))


def test_nesting_is_bounded_for_programs_that_no_parser_read() -> None:
    branch = "pd_op.if(%c) : (tensor<i1>) -> () {\n"
    rest = "pir.yield() : () -> ()\n} else {\npir.yield() : () -> ()\n}\n"
    module = parse_mlir(X + branch * 21 + rest * 21 + "}")
    verify_module(module)
    with use_limits(STRICT), pytest.raises(PirkitError) as caught:
        verify_module(module)
    assert caught.value.code == "PK0301"


# --- an attribute of the wrong kind, in every slot of every op -----------------------------------

FLOAT: Final = tensor_type((2,), dt.float32)
STRAYS: Final = (
    NullAttr("null"),
    encode("str", "stray"),
    encode("bool", True),
    encode("i32", 1),
    encode("f32", 1.0),
    encode("i32[]", [1]),
    encode("dtype", dt.int8),
    mlir.UnitAttr(),
    mlir.DictionaryAttr({}),
    FLOAT,
)


def bare(definition: OpDef, name: str, value: mlir.Attribute) -> PirkitError | None:
    """What the verifier says of an op whose slots are filled and that has one attribute."""
    block = ProgramOp.build("main").block
    operands = [
        block.insert_arg(vec_type([FLOAT]) if o.is_vec else FLOAT, len(block.args))
        for o in definition.operands
    ]
    results = [vec_type([FLOAT]) if r.is_vec else FLOAT for r in definition.results]
    op = create(definition, operands, results, {name: value})
    try:
        verify_op(op)
    except PirkitError as error:
        return error
    return None


def test_attribute_of_the_wrong_kind_in_every_slot() -> None:
    tried = 0
    for definition in all_ops():
        for name, kind in definition.attr_kinds.items():
            for stray in STRAYS:
                if KINDS[kind].accepts(stray):
                    continue
                error = bare(definition, name, stray)
                assert error is not None, f"{definition.name} takes {stray} for {name}"
                assert error.code == "PK0205"
                assert f"attribute `{name}` of `{definition.name}`" in error.message
                tried += 1
    assert tried > 5_000


def test_opaque_condition_is_accepted() -> None:
    branches = "{ pir.yield() : () -> () } else { pir.yield() : () -> () }"
    text = (
        f'pir.program @main(%c "c" : {OPAQUE}) {{\npd_op.if(%c) : ({OPAQUE}) -> () {branches}\n}}'
    )
    verify_module(parse_mlir(text))


def test_values_that_the_parser_never_met() -> None:
    program = ProgramOp.build("main")
    missing = ForwardDeclaredValue(tensor_type((2,), dt.float32))
    program.block.add_op(create("pd_op.exp", [missing], [missing.type]))
    with pytest.raises(VerifyError, match="without a definition") as caught:
        verify_module(mlir.ModuleOp([program]))
    assert caught.value.code == "PK0201"
