"""Paddle's JSON: what is read is written again byte for byte, and damage is named."""

from __future__ import annotations

import copy
import json
import math
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import ArtifactError, InputError, LimitError, UnsupportedError
from pirkit.diag.limits import STRICT, use_limits
from pirkit.dialect.attrs import ComplexAttr, JsonAttr, encode
from pirkit.dialect.operation import PirOp, ProgramOp, create, span_of
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.types import OPAQUE, tensor_type
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_attrs import read_attribute, write_attribute
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_syntax import Malformed
from pirkit.frontend.paddle.json_types import read_type, write_type
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.params import parameter_metas, read_params, write_params
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.runtime import dtype as dt
from tests.frontend.json_documents import (
    Json,
    attr,
    data,
    dense,
    document,
    dumped,
    flags,
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
    scalar = dense(element="bool")

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
    assert scalar["D"][0] == {"#": "0.t_bool"}
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


# --- types and attributes ------------------------------------------------------------------------

INDICES: Final = dense(2, 3, element="i64")
TYPES: Final[list[Json]] = [
    *({"#": f"0.t_{word}"} for word in "bool ui8 i8 i16 i32 i64 f16 bf16 f32 f64".split()),
    *({"#": f"0.t_{word}"} for word in "c64 c128 f8e4m3fn f8e5m2 index undefined".split()),
    *({"#": f"2.t_{word}"} for word in ("stack", "inlet", "outlet")),
    dense(),
    dense(-1, 0, 3, element="bf16"),
    dense(1, 2, 3, 4, layout="NHWC"),
    dense(2, element="undefined"),
    {"#": "0.t_vec", "D": []},
    {"#": "0.t_vec", "D": [dense(2), {"#": "0.t_vec", "D": [dense()]}]},
    {"#": "1.t_selected_rows", "D": dense(-1, 4)["D"]},
    {"#": "1.t_dense_tensor_array", "D": [{"#": "0.t_f32"}, [-1], "NCHW"]},
    {
        "#": "1.t_sparse_coo_tensor",
        "D": [{"#": "0.t_f32"}, [4, 5], [2, 3], "SPARSE_COO", INDICES, dense(3)],
    },
    {
        "#": "1.t_sparse_csr_tensor",
        "D": [{"#": "0.t_f32"}, [4, 5], "SPARSE_CSR", dense(5), dense(3), dense(3)],
    },
    {"#": "NULL"},
]
BEYOND_ASCII: Final = {"#": "0.a_str", "D": "line\nbreak, é and 中"}
INFINITE_LIST: Final = {
    "#": "0.a_array",
    "D": [{"#": "0.a_f32", "VD": "INF"}, {"#": "0.a_f32", "D": 2.0}],
}
ATTRIBUTES: Final[list[Json]] = [
    {"#": "0.a_bool", "D": True},
    {"#": "0.a_i32", "D": -(2**31)},
    {"#": "0.a_i64", "D": 2**63 - 1},
    {"#": "0.a_index", "D": 7},
    {"#": "0.a_f32", "D": 0.10000000149011612},
    {"#": "0.a_f64", "D": 0.1},
    {"#": "0.a_f64", "D": 5e-324},
    {"#": "0.a_f32", "VD": "NaN"},
    {"#": "0.a_f64", "VD": "INF"},
    {"#": "0.a_f64", "VD": "-INF"},
    {"#": "0.a_str", "D": 'a "quoted" \\'},
    BEYOND_ASCII,
    {"#": "0.a_tensorname", "D": "linear_0.w_0"},
    {"#": "0.a_c64", "D": [1.0, -2.0]},
    {"#": "0.a_c128", "D": [0.1, 2.0]},
    {"#": "0.a_type", "D": dense(2, 3)},
    {"#": "0.a_array", "D": []},
    {"#": "0.a_array", "D": [{"#": "0.a_i32", "D": 1}, {"#": "0.a_i32", "D": 2}]},
    INFINITE_LIST,
    {"#": "0.a_array", "D": [{"#": "0.a_str", "D": "a"}, {"#": "0.a_i64", "D": 1}]},
    {"#": "0.a_array", "D": [{"#": "0.a_array", "D": [{"#": "0.a_bool", "D": False}]}]},
    {"#": "1.a_intarray", "D": [3, -1]},
    {"#": "1.a_dtype", "D": "bfloat16"},
    {"#": "1.a_dtype", "D": "Undefined(ALL_DTYPE)"},
    {"#": "1.a_place", "D": [2, 1, ""]},
    {"#": "1.a_place", "D": [3, 0, ""]},
    {"#": "1.a_layout", "D": "NHWC"},
    {"#": "1.a_scalar", "D": ["float32", 1.5]},
    {"#": "NULL"},
]


@pytest.mark.parametrize("node", TYPES, ids=json.dumps)
def test_type_survives(node: Json) -> None:
    assert write_type(read_type(node)) == node


@pytest.mark.parametrize("node", ATTRIBUTES, ids=json.dumps)
def test_attribute_survives(node: Json) -> None:
    read = read_attribute(node, None)
    assert json.loads(json.dumps(write_attribute(read), allow_nan=False)) == node


XDSL_CANNOT: Final = (
    (BEYOND_ASCII, "xDSL reads a string outside printable ASCII back as bytes"),
    (INFINITE_LIST, "xDSL does not read the hex digits that it prints for infinities in lists"),
)


@pytest.mark.parametrize("node", ATTRIBUTES, ids=json.dumps)
def test_attribute_survives_our_text(node: Json, request: pytest.FixtureRequest) -> None:
    for known, reason in XDSL_CANNOT:
        if node is known:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    value = data(1, "x", 2)
    value["A"].append({"AT": node, "N": "extra"})
    tree = document(value)
    printed = print_mlir(read_paddle_json(dumped(tree)))
    assert json.loads(write_paddle_json(parse_mlir(printed))) == tree


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-1074])
def test_float_attribute_keeps_its_bits(value: float) -> None:
    node = write_attribute(encode("f64", value))
    again = read_attribute(json.loads(json.dumps(node)), "f64")
    assert isinstance(again, mlir.FloatAttr)
    assert struct.pack("<d", again.value.data) == struct.pack("<d", value)


@pytest.mark.parametrize(
    ("node", "declared", "expected"),
    [
        ({"#": "0.a_f32", "D": 0.10000000149011612}, "f64", 0.10000000149011612),
        ({"#": "0.a_f32", "D": 0.1}, "f32", 0.10000000149011612),
        ({"#": "0.a_f64", "D": 0.5}, "f32", 0.5),
        ({"#": "0.a_f64", "D": 2}, "f64", 2.0),
        ({"#": "0.a_i32", "D": 3}, "i64", 3),
        ({"#": "0.a_i64", "D": 3}, "i32", 3),
        ({"#": "0.a_tensorname", "D": "w"}, "str", "w"),
        ({"#": "0.a_array", "D": [{"#": "0.a_i32", "D": 3}]}, "i64[]", (3,)),
        ({"#": "0.a_array", "D": [{"#": "0.a_i64", "D": 3}]}, "intarray", (3,)),
        ({"#": "1.a_intarray", "D": [3]}, "i64[]", (3,)),
        ({"#": "1.a_intarray", "D": [3]}, "i32[]", (3,)),
        ({"#": "0.a_array", "D": []}, "f32[]", ()),
    ],
)
def test_attribute_takes_the_declared_kind_if_nothing_is_lost(
    node: Json, declared: str, expected: Any
) -> None:
    assert read_attribute(node, declared) == encode(declared, expected)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"#": "0.a_f32", "D": 1.5}, encode("f32", 1.5)),
        ({"#": "0.a_bool", "D": True}, encode("bool", True)),
        ({"#": "0.a_c128", "D": [1.0, 2.0]}, ComplexAttr(1 + 2j)),
        ({"#": "1.a_scalar", "D": ["float32", 1.5]}, encode("f64", 1.5)),
        ({"#": "1.a_scalar", "D": ["int32", 3]}, encode("i64", 3)),
        ({"#": "1.a_scalar", "D": ["bool", False]}, encode("bool", False)),
        ({"#": "1.a_scalar", "D": ["complex64", 1.0, 2.0]}, ComplexAttr(1 + 2j)),
    ],
)
def test_scalar_takes_any_number(node: Json, expected: Any) -> None:
    assert read_attribute(node, "scalar") == expected
    listed = {"#": "0.a_array", "D": [node]}
    assert read_attribute(listed, "scalar[]") == mlir.ArrayAttr([expected])


@pytest.mark.parametrize(
    ("node", "declared"),
    [
        ({"#": "0.a_f64", "D": 0.1}, "f32"),
        ({"#": "0.a_f32", "D": 1e300}, "f32"),
        ({"#": "0.a_f64", "D": 1e400}, "f64"),
        ({"#": "0.a_f64", "D": "1"}, "f64"),
        ({"#": "0.a_f64", "D": None}, "f64"),
        ({"#": "0.a_f64", "VD": "nan"}, "f64"),
        ({"#": "0.a_f64", "D": 1.0, "VD": "INF"}, "f64"),
        ({"#": "0.a_f64"}, "f64"),
        ({"#": "0.a_i64", "D": 2**31}, "i32"),
        ({"#": "0.a_i32", "D": 2**31}, "i64"),
        ({"#": "0.a_i64", "D": 2**63}, None),
        ({"#": "0.a_i64", "D": 1.0}, "i64"),
        ({"#": "0.a_bool", "D": 1}, "bool"),
        ({"#": "0.a_bool", "D": True}, "i64"),
        ({"#": "0.a_str", "D": "\ud800"}, "str"),
        ({"#": "1.a_dtype", "D": "float33"}, "dtype"),
        ({"#": "1.a_place", "D": [0, 0]}, "place"),
        ({"#": "0.a_c128", "D": [1.0]}, None),
        ({"#": "0.a_array", "D": [{"#": "0.a_str", "D": "a"}]}, "i64[]"),
        ({"#": "0.a_array", "D": {}}, None),
        ({"#": "0.a_type", "D": {"#": "NULL"}}, None),
        ({"#": "0.a_mystery", "D": 1}, None),
        ({"#": "1.a_scalar", "D": ["float32"]}, "scalar"),
        ({"#": "0.a_str", "D": "a"}, "scalar"),
        ({"D": 1}, None),
        ([], None),
        (None, "i32"),
    ],
)
def test_attribute_that_does_not_fit_is_refused(node: Any, declared: str | None) -> None:
    with pytest.raises(Malformed):
        read_attribute(node, declared)


@pytest.mark.parametrize(
    "node",
    [
        {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [2], "NCHW", [[0, 2]], 0]},
        {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [2], "NCHW", [], 8]},
    ],
    ids=["levels", "offset"],
)
def test_part_of_a_type_that_would_be_lost_is_refused(node: Json) -> None:
    with pytest.raises(UnsupportedError):
        read_type(node)


def test_device_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        read_attribute({"#": "1.a_place", "D": [9, 0, "npu"]}, "place")


# --- damage --------------------------------------------------------------------------------------

GOOD: Final = document(parameter(1, "w", 2), data(2, "x", 2), tanh(2, 3, 2))
OPS: Final = "program.regions[0].blocks[0].ops"


def change(path: str, value: Any) -> Json:
    """The good document with one field set; the path is written as in a message."""
    tree = copy.deepcopy(GOOD)
    *steps, last = path.replace("[", ".[").split(".")
    node: Any = tree
    for step in steps:
        node = node[int(step[1:-1])] if step.startswith("[") else node[step]
    if last.startswith("["):
        node[int(last[1:-1])] = value
    elif value is ...:
        del node[last]
    else:
        node[last] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "code", "place"),
    [
        ("base_code", ..., "PK0502", "base_code"),
        ("base_code.magic", "pirate", "PK0503", "base_code.magic"),
        ("base_code.version", 0, "PK0503", "base_code.version"),
        ("base_code.version", 5, "PK0503", "base_code.version"),
        ("base_code.version", 10**18, "PK0503", "base_code.version"),
        ("base_code.version", "4", "PK0502", "base_code.version"),
        ("program", ..., "PK0502", "program"),
        ("program", [], "PK0502", "program"),
        ("program.regions", [], "PK0502", "program.regions"),
        ("program.regions[0].blocks", ..., "PK0502", "program.regions[0]"),
        ("program.regions[0].#", "block_0", "PK0505", "program.regions[0].blocks[0].#"),
        ("program.regions[0].blocks[0].ops", {}, "PK0502", OPS),
        ("program.regions[0].blocks[0].args", [{"#": 1}], "PK0502", "args[0].#"),
        (f"{OPS}[2]", 7, "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].#", ..., "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].#", "1.a b", "PK0502", f"{OPS}[2].#"),
        (f"{OPS}[2].I", ..., "PK0502", f"{OPS}[2]"),
        (f"{OPS}[2].I[0].%", 99, "PK0505", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", 3, "PK0505", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", 0, "PK0502", f"{OPS}[2].I[0]"),
        (f"{OPS}[2].I[0].%", True, "PK0502", f"{OPS}[2].I[0].%"),
        (f"{OPS}[2].O[0].%", 2, "PK0505", f"{OPS}[2]"),
        (f"{OPS}[2].O[0].%", -2, "PK0502", f"{OPS}[2].O[0].%"),
        (f"{OPS}[2].O[0].TT", {"#": "NULL"}, "PK0502", f"{OPS}[2].O[0]"),
        (f"{OPS}[2].O[0].TT.#", "0.t_f99", "PK0502", f"{OPS}[2].O[0].TT.#"),
        (f"{OPS}[2].O[0].TT.D[1][0]", -2, "PK0502", f"{OPS}[2].O[0].TT.D[1][0]"),
        (f"{OPS}[2].O[0].TT.D[1][0]", 2**63, "PK0502", f"{OPS}[2].O[0].TT.D[1][0]"),
        (f"{OPS}[2].OA[0].AT.D[0].D", 1, "PK0502", f"{OPS}[2].OA[0].AT.D[0].D"),
        (f"{OPS}[2].A", [attr("operandSegmentSizes", "0.a_i32", 1)], "PK0502", f"{OPS}[2].A[0].N"),
        (f"{OPS}[2].A", [attr("a", "0.a_i32", 1)] * 2, "PK0502", f"{OPS}[2].A[1].N"),
        (f"{OPS}[2].A", [flags("stop_gradient", True)], "PK0502", f"{OPS}[2].OA"),
        (f"{OPS}[2].regions", [region(1, [])], "PK0502", f"{OPS}[2].regions"),
        (f"{OPS}[2].surprise", 1, "PK0502", f"{OPS}[2]"),
        (f"{OPS}[1].A[0].AT.D", 5, "PK0502", f"{OPS}[1].A[0].AT.D"),
        (f"{OPS}[0].A", [0, 1, 1], "PK0502", f"{OPS}[0].A"),
        (f"{OPS}[0].A[0]", 2, "PK0502", f"{OPS}[0].A[0]"),
        (f"{OPS}[0].OA[2]", True, "PK0502", f"{OPS}[0].OA[2]"),
        (f"{OPS}[0].O.%", 0, "PK0502", f"{OPS}[0].O.%"),
        (f"{OPS}[0].O.TT", {"#": "NULL"}, "PK0502", f"{OPS}[0].O.TT"),
    ],
)
def test_damage_is_named_with_its_place(path: str, value: Any, code: str, place: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_paddle_json(dumped(change(path, value)), "model.json")
    assert caught.value.code == code
    assert place in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.file == "model.json"


def test_unknown_op_is_named_with_its_place() -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_paddle_json(dumped(change(f"{OPS}[2].#", "1.tanhh")), "model.json")
    assert caught.value.code == "PK0401"
    assert f"at {OPS}[2]" in caught.value.notes


@pytest.mark.parametrize(
    ("text", "line"),
    [("{", 1), ("", 1), ('{"a": 1,\n "b": }', 2), ("[1,]", 1), ("{'a': 1}", 1), ("\ufeff{}", 1)],
)
def test_text_that_is_no_json_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_paddle_json(text)
    assert caught.value.code == "PK0501"
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_rank_is_limited() -> None:
    with pytest.raises(LimitError) as caught, use_limits(STRICT):
        read_paddle_json(dumped(change(f"{OPS}[2].O[0].TT.D[1]", [1] * 10)))
    assert caught.value.code == "PK0305"
    assert f"at {OPS}[2]" in caught.value.notes


def test_what_paddle_cannot_hold_is_refused() -> None:
    module = read_paddle_json(dumped(GOOD))
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


# --- Paddle itself -------------------------------------------------------------------------------


@pytest.mark.paddle
@pytest.mark.slow  # Paddle takes seconds to start
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_paddle_runs_what_was_rewritten(case: Path, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    module = read_paddle_json((case / "model.json").read_text(encoding="utf-8"))
    stored = parameter_metas(module)
    prefix = tmp_path / "model"
    prefix.with_suffix(".json").write_text(write_paddle_json(module), encoding="utf-8")
    if stored:
        arrays = read_params(case / "model.pdiparams", stored)
        write_params(prefix.with_suffix(".pdiparams"), arrays)
    meta = json.loads((case / "meta.json").read_text(encoding="utf-8"))
    inputs = np.load(case / "inputs.npz")
    names = json.loads((case / "names.json").read_text(encoding="utf-8"))["fx"]
    feeds = [inputs[f"step1/{name}"] for name in names]
    expected = np.load(case / "infer_outputs.npz")

    paddle.disable_static()
    layer = paddle.jit.load(str(prefix))
    check(layer(*map(paddle.to_tensor, feeds)), expected, meta["tolerance"])

    paddle.enable_static()
    try:
        executor = paddle.static.Executor(paddle.CPUPlace())
        program, feed_names, targets = paddle.static.load_inference_model(str(prefix), executor)
        feed = dict(zip(feed_names, feeds, strict=True))
        check(executor.run(program, feed=feed, fetch_list=targets), expected, meta["tolerance"])
    finally:
        paddle.disable_static()


@pytest.mark.paddle
@pytest.mark.slow  # Paddle takes seconds to start
@pytest.mark.parametrize("dump", DUMPS, ids=case_name)
def test_paddle_reads_a_program_that_came_from_text(dump: Path, tmp_path: Path) -> None:
    paddle = pytest.importorskip("paddle", reason="paddlepaddle is not installed")
    written = write_paddle_json(read_paddle_text(dump.read_text(encoding="utf-8")))
    path = tmp_path / "program.json"
    path.write_text(written, encoding="utf-8")
    with paddle.pir_utils.IrGuard():
        program = paddle.static.Program()
        paddle.base.core.deserialize_pir_program(str(path), program)
        names = [op.name() for op in program.global_block().ops]
    ops = json.loads(written)["program"]["regions"][0]["blocks"][0]["ops"]
    assert len(names) == len(ops)
    assert all(
        name.partition(".")[2] == ("parameter" if node["#"] == "p" else node["#"].partition(".")[2])
        for name, node in zip(names, ops, strict=True)
    )


def check(results: Any, expected: Any, tolerance: Json) -> None:
    """Compare outputs as the README of the captured programs says."""
    listed = list(results) if isinstance(results, list | tuple) else [results]
    for index, result in enumerate(listed):
        found, wanted = np.asarray(result), expected[f"step1/{index}"]
        assert found.shape == wanted.shape
        scale = np.max(np.abs(wanted), initial=0) + tolerance["floor"]
        error = np.max(np.abs(found.astype(np.float64) - wanted), initial=0)
        assert error <= tolerance["rtol"] * scale
