"""Paddle's text: reading and writing reproduces a file byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from xdsl.dialects import builtin as mlir

import pirkit
from pirkit.diag.errors import LimitError, ParseError, PirkitError, UnsupportedError
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.types import OPAQUE
from pirkit.dialect.verify import verify_module
from pirkit.frontend.files import Program
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
DUMPS: Final = sorted(CORPUS.glob("*/*.txt"))


def dump(*lines: str) -> str:
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


X: Final = (
    '(%0) = "pd_op.data" () {dtype:float32,name:"x",place:Place(undefined:0),shape:[2,3],'
    "stop_gradient:[true]} : () -> tensor<2x3xf32>"
)
FULL: Final = (
    '(%0) = "pd_op.full" () {{dtype:{},place:Place(cpu),shape:[{}],stop_gradient:[true],value:{}}}'
    " : () -> tensor<{}>"
)


def read(text: str) -> mlir.ModuleOp:
    module = read_paddle_text(text, "dump.txt")
    verify_module(module)
    return module


def operations(module: mlir.ModuleOp) -> list[PirOp]:
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    return list(program.operations)


def check_round_trip(text: str) -> mlir.ModuleOp:
    """Through the IR, and through both forms of our text, to the same bytes."""
    module = read(text)
    assert write_paddle_text(module) == text
    for generic in (False, True):
        printed = print_mlir(module, generic=generic)
        again = parse_mlir(printed)
        verify_module(again)
        assert print_mlir(again, generic=generic) == printed
        assert write_paddle_text(again) == text
    return module


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_captured_program_is_written_as_paddle_wrote_it(path: Path) -> None:
    check_round_trip(path.read_text(encoding="utf-8"))


# --- forms that the text can take ----------------------------------------------------------------

FORMS: Final = sorted((Path(__file__).parent / "dumps").glob("*.txt"))


@pytest.mark.parametrize("path", FORMS, ids=lambda p: p.stem)
def test_form_is_written_as_it_was(path: Path) -> None:
    check_round_trip(path.read_text(encoding="utf-8"))


TYPES: Final = (
    "tensor<f32>", "tensor<0xi64>", "tensor<-1x8xf32>", "tensor<1x-1xb>", "tensor<2xu8>",
    "tensor<3xbf16>", "tensor<3xf16>", "tensor<c64>", "tensor<c128>", "tensor<f8e4m3fn>",
    "tensor<f8e5m2>", "tensor<2xundefined>", "pd_op.selectedrows<4x2xf32>",
    "pd_op.tensor_array<f32>",
    "pd_op.sparsecootensor<4x2xf32>", "pd_op.sparsecsrtensor<-1x2xf32>", "vec[tensor<2xf32>,vec[]]",
    "undefined", "cf.stack",
)  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
def test_type_is_written_as_it_was(type_: str) -> None:
    check_round_trip(dump(f'(%0) = "pd_op.feed" () {{col:0,name:"x"}} : () -> {type_}'))


STRINGS: Final = (
    r"", r"a\"b", r"\"", "line\nbreak", "two\n\nbreaks", "a}b{c", "} : (", ") -> ", "} ->  {",
    "a,b:c",
    r"\d+\w", "größe", "    indented\n  }", "// -----", "(%0) = ",
)  # fmt: skip


@pytest.mark.parametrize("string", STRINGS)
def test_string_is_written_as_it_was(string: str) -> None:
    module = check_round_trip(dump(X).replace('"x"', f'"{string}"'))
    (data,) = operations(module)
    assert data.attribute("name") == string.replace('\\"', '"')


@pytest.mark.parametrize(
    "value",
    ["0", "-0", "1", "-1", "2.5", "0.333333", "1e+30", "1e-05", "inf", "-inf", "nan", "-nan"],
)
def test_number_is_written_as_it_was(value: str) -> None:
    check_round_trip(dump(FULL.format("float32", 2, value, "2xf32")))


@pytest.mark.parametrize(
    "attribute",
    [
        "true", "[]", "[[],[1]]", "[true,false]", "12345678901", "-7", "[1.5,-inf,nan]",
        '["a","b,]"]',
        "float32", "Undefined", "[float32,int64]", "NHWC", "Undefined(AnyLayout)", "Place(gpu:3)",
        "Place(cpu)", "Place(undefined:0)", "<#AttrNull>", "<#AttrNotImplemented>", '[1,"a",true]',
    ],
)  # fmt: skip
def test_undeclared_attribute_is_written_as_it_was(attribute: str) -> None:
    check_round_trip(dump(X.replace("dtype:", f"a_custom.one:{attribute},dtype:")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dtype:(pd_op.DataType)float32", "dtype:float32"),
        ("shape:(pd_op.IntArray)[2]", "shape:[2]"),
        ("shape:[(Int64)2]", "shape:[2]"),
        ("value:(Float)1", "value:1"),
        ("place:(pd_op.Place)Place(cpu)", "place:Place(cpu)"),
        ("stop_gradient:[(Bool)true]", "stop_gradient:[true]"),
        ("builtin.tensor<2xf32>", "tensor<2xf32>"),
        ("pd_op.tensor<2xf32>", "tensor<2xf32>"),
    ],
)
def test_spelling_of_older_builds(old: str, new: str) -> None:
    text = dump(FULL.format("float32", 2, "1", "2xf32"))
    assert new in text
    assert write_paddle_text(read(text.replace(new, old))) == text


def test_argument_that_nothing_uses_has_no_type() -> None:
    module = read("{\n    ^kw:\n        %kwarg_x {}\n}\n")
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    assert [a.type for a in program.block.args] == [OPAQUE]


def test_programs_behind_each_other_are_numbered() -> None:
    module = read(dump(X) * 3)
    names = [op.symbol for op in module.ops if isinstance(op, ProgramOp)]
    assert names == ["main", "main_1", "main_2"]


def test_operation_knows_its_line() -> None:
    text = dump(X) + "\n" + dump(X.replace("2x3xf32", "2x4xf32"))
    with pytest.raises(PirkitError) as caught:
        read(text)
    assert caught.value.span is not None
    assert (caught.value.span.file, caught.value.span.line) == ("dump.txt", 6)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("(%0)", "(0)"), "PK0101"),
        (("(%0)", "(%0, %0)"), "PK0204"),
        ((" : ()", ""), "PK0101"),
        ((" {dtype", " dtype"), "PK0101"),
        (('"pd_op.data"', "pd_op.data"), "PK0101"),
        (("()", "(%7)"), "PK0103"),
        (("tensor<2x3xf32>", "tensor<2x3xf31>"), "PK0105"),
        (("tensor<2x3xf32>", "tensor<2x?xf32>"), "PK0105"),
        (("tensor<2x3xf32>", "tensr<2x3xf32>"), "PK0105"),
        (("tensor<2x3xf32>", "<<NULL TYPE>>"), "PK0204"),
        (("float32", "float33"), "PK0106"),
        (("[2,3]", "[2,]"), "PK0106"),
        (("[2,3]", "2"), "PK0106"),
        (("[2,3]", f"[{1 << 63}]"), "PK0106"),
        (('"x"', "x"), "PK0106"),
        (('"x"', '"x" "y"'), "PK0106"),
        (("name:", "name="), "PK0106"),
        (("name:", "shape:[1],name:"), "PK0106"),
        (("Place(undefined:0)", "Place(undefined:)"), "PK0106"),
        (("Place(undefined:0)", "cpu"), "PK0106"),
        (("dtype:float32", "a:@"), "PK0106"),
    ],
)
def test_malformed_operation(change: tuple[str, str], code: str) -> None:
    with pytest.raises(PirkitError) as caught:
        read(dump(X.replace(*change, 1)))
    assert caught.value.code == code
    assert caught.value.span is not None
    assert caught.value.span.line == 2


@pytest.mark.parametrize("behind", ["x", "}", "\nx", "{"])
def test_what_stands_behind_the_last_program_is_read(behind: str) -> None:
    code = "PK0102" if behind == "{" else "PK0101"
    with pytest.raises(PirkitError) as caught:
        read(dump(X) + behind)
    assert (caught.value.code, caught.value.span.line if caught.value.span else 0) == (
        code, 5 if "\n" in behind else 4,
    )  # fmt: skip


def test_program_for_kernels_is_not_supported() -> None:
    text = dump(X.replace("pd_op.data", "data(phi_kernel)").replace(" tensor", " cpu_tensor"))
    with pytest.raises(UnsupportedError, match="lowered to kernels"):
        read(text)


def test_number_of_loop_arguments() -> None:
    loop = (Path(__file__).parent / "dumps" / "loop.txt").read_text(encoding="utf-8")
    text = loop.replace("^%arg_0 {stop_gradient:false}", "^%arg_0 {}, %arg_1 {}")
    with pytest.raises(ParseError, match="1 initial values but 2 arguments"):
        read(text)


def test_line_that_is_too_long() -> None:
    with pytest.raises(LimitError):
        read(dump(X.replace('"x"', '"' + "x" * (1 << 20) + '"')))


def test_a_result_that_paddle_declares_empty_has_the_elements_of_all() -> None:
    """Of `coalesce_tensor`: so Paddle 3.3 writes it."""
    operands = '"pd_op.coalesce_tensor" (%1) {align_size:-1,concated_ranks:[],concated_shapes:[],'
    module = read(
        dump(
            X,
            '(%1) = "builtin.combine" (%0) {stop_gradient:[true]} : (tensor<2x3xf32>) -> '
            "vec[tensor<2x3xf32>]",
            f"(%2, %3) = {operands}constant:0,copy_data:true,dtype:float32,persist_output:false,"
            "set_constant:false,size_of_dtype:-1,stop_gradient:[true,true],use_align:false} : "
            "(vec[tensor<2x3xf32>]) -> vec[tensor<2x3xf32>], tensor<0xf32>",
            '() = "builtin.shadow_output" (%3) {output_name:"y"} : (tensor<0xf32>) -> ',
        )
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = pirkit.compile(Program(module, {}, "dump"))(x=x)["y"]
    assert found.tolist() == x.reshape(-1).tolist()
