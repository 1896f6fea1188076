"""Types and attributes in Paddle's JSON: both directions, every kind."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Final, cast

import pytest
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.attrs import ComplexAttr, encode
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.frontend.paddle.json_attrs import read_attribute, write_attribute
from pirkit.frontend.paddle.json_reader import read_paddle_json
from pirkit.frontend.paddle.json_syntax import Malformed
from pirkit.frontend.paddle.json_types import read_type, write_type
from pirkit.frontend.paddle.json_writer import write_paddle_json
from tests.frontend.json_documents import (
    Json,
    data,
    dense,
    document,
    dumped,
)

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


@pytest.mark.parametrize("node", ATTRIBUTES, ids=json.dumps)
def test_attribute_survives_our_text(node: Json) -> None:
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


@pytest.mark.parametrize("left_out", ["layout", "nonzero_dims", "parts"])
def test_a_sparse_tensor_of_which_a_part_is_not_known_is_not_written(left_out: str) -> None:
    """Paddle's text does not state them."""
    node = next(t for t in TYPES if t["#"].endswith("coo_tensor"))
    whole = cast(Any, read_type(node))
    inner = whole.parameters[0]
    held = {k: v for k, v in inner.encoding.data.items() if k != left_out}
    bare = mlir.TensorType(inner.element_type, inner.shape, mlir.DictionaryAttr(held))
    with pytest.raises(UnsupportedError):
        write_type(type(whole)(bare))
