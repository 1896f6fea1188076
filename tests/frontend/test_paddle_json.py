"""Paddle's JSON: reading and writing reproduces a file byte for byte."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Final

import pytest
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import InputError, UnsupportedError
from pirkit.dialect.attrs import ComplexAttr, JsonAttr, encode
from pirkit.dialect.operation import PirOp, ProgramOp, create, span_of
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.types import OPAQUE, tensor_type
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.runtime import dtype as dt
from tests.frontend.json_documents import (
    Json,
    attr,
    data,
    dense,
    document,
    dumped,
    op,
    parameter,
    region,
    tanh,
)

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p.parent for p in CORPUS.glob("*/model.json"))
DUMPS: Final = sorted(CORPUS.glob("*/*ward.txt"))


def case_name(path: Path) -> str:
    return path.name if path.is_dir() else f"{path.parent.name}-{path.stem}"


def operations(tree: Json) -> list[PirOp]:
    module = read_paddle_json(dumped(tree))
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    return list(program.operations)


def rewritten(tree: Json) -> Json:
    return json.loads(write_paddle_json(read_paddle_json(dumped(tree))))


# --- captured programs ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_captured_program_is_written_as_paddle_wrote_it(case: Path) -> None:
    text = (case / "model.json").read_text(encoding="utf-8")
    module = read_paddle_json(text, "model.json")
    verify_module(module)
    assert write_paddle_json(module) == text


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_captured_program_passes_through_our_text_unharmed(case: Path) -> None:
    text = (case / "model.json").read_text(encoding="utf-8")
    printed = print_mlir(read_paddle_json(text))
    assert json.loads(write_paddle_json(parse_mlir(printed))) == json.loads(text)


@pytest.mark.parametrize("dump", DUMPS, ids=case_name)
def test_program_from_a_dump_survives_json(dump: Path) -> None:
    written = write_paddle_json(read_paddle_text(dump.read_text(encoding="utf-8")))
    again = read_paddle_json(written)
    verify_module(again)
    assert write_paddle_json(again) == written


def test_output_of_a_dump_is_written_as_shadow_output() -> None:
    text = (CORPUS / "mlp" / "forward.txt").read_text(encoding="utf-8")
    tree = json.loads(write_paddle_json(read_paddle_text(text)))
    ops = tree["program"]["regions"][0]["blocks"][0]["ops"]
    outputs = [o for o in ops if o["#"] == "0.shadow_output"]
    assert outputs
    assert all([a["N"] for a in o["A"]] == ["output_name"] for o in outputs)


# --- structure -----------------------------------------------------------------------------------


def test_values_are_numbered_in_program_order_and_blocks_by_appearance() -> None:
    def loop(number: int, first: int, argument: int, inner: list[Json]) -> Json:
        body = [*inner, op("2.yield", [1, argument])]
        args = {argument: dense(2)}
        return op("1.while", [1, 2], {first: dense(2)}, None, [region(number, body, args)])

    tree = document(
        data(1, "c", element="bool"),
        data(2, "x", 2),
        loop(1, 3, -1, [loop(2, 4, -2, [tanh(-1, 5, 2)])]),
        op(
            "1.if",
            [1],
            {6: dense(2)},
            None,
            [
                region(3, [tanh(3, 7, 2), op("2.yield", [7])]),
                region(4, [tanh(2, 8, 2), op("2.yield", [8])]),
            ],
        ),
    )
    verify_module(read_paddle_json(dumped(tree)))
    assert rewritten(tree) == tree


def test_sparse_numbers_are_accepted_and_made_dense() -> None:
    tree = document(data(70, "x", 2), tanh(70, 12, 2))
    assert rewritten(tree) == document(data(1, "x", 2), tanh(1, 2, 2))


def test_null_operand_and_null_result_survive() -> None:
    null = {"#": "NULL"}
    norm = [
        attr("epsilon", "0.a_f32", 9.999999747378752e-06),
        attr("begin_norm_axis", "0.a_i32", 1),
    ]
    rows, tensor = dense(2), dense(2, 3)
    tree = document(
        data(1, "x", 2, 3),
        op("1.layer_norm", [1, 0, 0], {2: tensor, 3: rows, 4: rows}, norm),
        op(
            "1.layer_norm_grad",
            [1, 0, 0, 3, 4, 2],
            {5: tensor, 6: null, 7: null},
            norm,
        ),
    )
    assert rewritten(tree) == tree


def test_keyword_arguments_and_attributes_of_arguments_survive() -> None:
    tree = document(tanh(-1, 1, 2))
    block = tree["program"]["regions"][0]["blocks"][0]
    block.update(
        {
            "kwargs": [
                {
                    "#": -1,
                    "A": [attr("stop_gradient", "0.a_bool", False)],
                    "TT": dense(2),
                    "key": "middle_0",
                }
            ]
        }
    )
    module = read_paddle_json(dumped(tree))
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    assert program.keywords == ("middle_0",)
    assert rewritten(tree) == tree


def test_attributes_of_loop_arguments_survive() -> None:
    args = {-1: dense(2)}
    body = region(1, [op("2.yield", [1, -1])], args)
    body["blocks"][0]["args"][0]["A"] = [attr("stop_gradient", "0.a_bool", True)]
    tree = document(
        data(1, "c", element="bool"),
        data(2, "x", 2),
        op("1.while", [1, 2], {3: dense(2)}, None, [body]),
    )
    loop = operations(tree)[2]
    assert [dict(d.data) for d in loop.arg_attrs] == [{"stop_gradient": encode("bool", True)}]
    assert rewritten(tree) == tree


def test_parameter_keeps_flags_and_attributes() -> None:
    node = parameter(1, "w", 2, 3, stored=0)
    node["A"][:3] = [1, 0, 0]
    node["DA"] = [attr("op_role", "0.a_i32", 1)]
    node["QA"] = [attr("struct_name", "0.a_str", "/net/")]
    tree = document(node)
    (made,) = operations(tree)
    assert made.attribute("persistable") == (False,)
    assert made.attribute("is_distributed") == (True,)
    assert rewritten(tree) == tree


def test_program_saved_without_training_flags_gets_paddles_defaults() -> None:
    tree = document(parameter(1, "w", 2), data(2, "x", 2))
    lacking = copy.deepcopy(tree)
    lacking["base_code"]["trainable"] = False
    for node in lacking["program"]["regions"][0]["blocks"][0]["ops"]:
        del node["OA"]
    assert rewritten(lacking)["program"]["regions"][0]["blocks"][0]["ops"][0] == parameter(
        1, "w", 2
    )


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_older_versions_are_read_and_written_as_version_4(version: int) -> None:
    def leaky(kind: str) -> Json:
        return op("1.leaky_relu", [1], {2: dense(2)}, [attr("negative_slope", kind, 0.25)])

    older = document(data(1, "x", 2), leaky("0.a_f32"), version=version)
    assert rewritten(older) == document(data(1, "x", 2), leaky("0.a_f64"))


def test_operation_knows_its_place() -> None:
    made = operations(document(data(1, "x", 2), tanh(1, 2, 2)))[1]
    assert str(span_of(made)) == "<json>#program.regions[0].blocks[0].ops[1]"


def test_callstack_is_not_written() -> None:
    module = read_paddle_json(dumped(document(data(1, "x", 2))))
    first = next(o for o in module.walk() if o.name == "pd_op.data")
    first.attributes["op_callstack"] = encode("str[]", ("file.py:1",))
    assert "op_callstack" not in write_paddle_json(module)


def test_defaults_that_no_property_states_are_written() -> None:
    module = read_paddle_json(dumped(document(data(1, "x", 2))))
    first = next(o for o in module.walk() if o.name == "pd_op.data")
    del first.properties["place"]
    assert json.loads(write_paddle_json(module)) == document(data(1, "x", 2))


# --- what is not written -------------------------------------------------------------------------


def test_what_paddle_cannot_hold_is_refused() -> None:
    module = read_paddle_json(dumped(document(data(1, "x", 2), tanh(1, 2, 2))))
    last = next(o for o in module.walk() if o.name == "pd_op.tanh")
    for foreign in (
        ComplexAttr(complex(math.inf, 0)),
        JsonAttr("{}"),
        JsonAttr("[1"),
        JsonAttr('{"#":"0.a_i32","D":1}'),
        mlir.UnitAttr(),
        mlir.FloatAttr(1.0, mlir.f16),
    ):
        last.attributes["extra"] = foreign
        with pytest.raises(InputError) as caught:
            write_paddle_json(module)
        assert caught.value.code in ("PK0403", "PK0501", "PK0502")


def test_argument_of_unknown_type_survives_as_null() -> None:
    program = ProgramOp.build("main", [OPAQUE], [{"keyword": mlir.StringAttr("k")}])
    written = write_paddle_json(mlir.ModuleOp([program]))
    assert '"TT":{"#":"NULL"},"key":"k"' in written
    assert write_paddle_json(read_paddle_json(written)) == written


def test_result_of_unknown_type_is_not_written() -> None:
    program = ProgramOp.build("main")
    program.block.add_op(create("pd_op.feed", [], [OPAQUE], {"name": encode("str", "x")}))
    program.block.last_op.properties["col"] = encode("i32", 0)
    with pytest.raises(UnsupportedError, match="no spelling of type"):
        write_paddle_json(mlir.ModuleOp([program]))


def test_module_of_two_programs_is_not_written() -> None:
    programs = [ProgramOp.build(name) for name in ("forward", "backward")]
    with pytest.raises(UnsupportedError, match="2 programs"):
        write_paddle_json(mlir.ModuleOp(programs))


def test_absorbed_attribute_is_written_as_an_operand() -> None:
    module = read_paddle_json(dumped(document(data(1, "x", 2))))
    program = module.body.block.first_op
    assert isinstance(program, ProgramOp)
    (first,) = program.operations
    properties = {"scale": encode("scalar", 2.0)}
    type_ = tensor_type((2,), dt.float32)
    program.block.add_op(create("pd_op.scale", [first.results[0], None], [type_], properties))
    tree = json.loads(write_paddle_json(module))
    words = [o["#"] for o in tree["program"]["regions"][0]["blocks"][0]["ops"]]
    assert words == ["1.data", "1.full", "1.scale"]
    verify_module(read_paddle_json(dumped(tree)))
