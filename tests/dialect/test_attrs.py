"""Kinds of attributes: values survive being held, and kinds do not mix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import VerifyError
from pirkit.dialect.attrs import KINDS, decode, encode
from pirkit.dialect.signature import KINDS as SIGNATURE_KINDS
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import Place

VALUES: dict[str, list[Any]] = {
    "bool": [True, False],
    "i32": [0, -1, 2**31 - 1],
    "i64": [0, -(2**63), 2**63 - 1],
    "f32": [0.5, -0.0, math.inf],
    "f64": [0.1, -0.0, -math.inf],
    "str": ["", 'a"b\\c\n', "größe"],
    "scalar": [1, 0.5, True, 1 + 2j],
    "intarray": [(), (1, -1)],
    "dtype": [dt.float32, None],
    "place": [Place("gpu", 3)],
    "layout": ["NCHW"],
    "bool[]": [(), (True, False)],
    "i32[]": [(1, 2)],
    "i64[]": [(2**62,)],
    "f32[]": [(0.5, math.inf)],
    "f64[]": [(0.1,)],
    "str[]": [("a", "")],
    "scalar[]": [(1, 0.5)],
}


def test_every_kind_of_the_grammar_can_be_held() -> None:
    assert set(KINDS) == SIGNATURE_KINDS == set(VALUES)


@pytest.mark.parametrize(("kind", "value"), [(k, v) for k, vs in VALUES.items() for v in vs])
def test_value_survives(kind: str, value: Any) -> None:
    held = decode(kind, encode(kind, value))
    assert held == value
    assert type(held) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, held) == math.copysign(1, value)


def test_nan_survives() -> None:
    assert math.isnan(decode("f64", encode("f64", math.nan)))
    assert math.isnan(decode("f32[]", encode("f32[]", [math.nan]))[0])


def test_numbers_that_python_takes_for_equal_are_held_apart() -> None:
    zeros = [encode("scalar", v) for v in (0, 0.0, -0.0, False)]
    assert [type(decode("scalar", z)) for z in zeros] == [int, float, float, bool]
    assert math.copysign(1, decode("scalar", zeros[2])) == -1


def test_equal_numbers_of_a_list_are_held_apart() -> None:
    numbers = (0.0, -0.0, 1, True, 1.0, 1j, 1, 0.0)
    held = decode("scalar[]", encode("scalar[]", numbers))
    assert list(map(repr, held)) == list(map(repr, numbers))


def test_numpy_values_are_taken() -> None:
    assert decode("i64[]", encode("i64[]", list(np.array([1, 2])))) == (1, 2)
    assert decode("scalar", encode("scalar", np.float32(0.5))) == 0.5
    assert decode("i32", encode("i32", np.float64(3.0))) == 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i64", "one"),
        ("i64", "1"),
        ("i64", 1.5),
        ("i32", 2**31),
        ("i32", math.nan),
        ("i32[]", ["a"]),
        ("i64[]", 1),
        ("i64[]", (0.5,)),
        ("intarray", (0, 2.5)),
        ("f64", "one"),
        ("f64", "1.0"),
        ("f32", "0.5"),
        ("scalar", "2"),
        ("str", 1),
    ],
)
def test_value_of_another_kind(kind: str, value: Any) -> None:
    with pytest.raises(VerifyError):
        encode(kind, value)


def test_attribute_of_another_kind() -> None:
    for kind in ("bool", "i32", "f64", "str", "i64[]", "dtype", "place", "str[]"):
        with pytest.raises(VerifyError) as caught:
            decode(kind, mlir.UnitAttr())
        assert caught.value.code == "PK0205"


@pytest.mark.parametrize(("kind", "width"), [("i32[]", 32), ("i64[]", 64), ("intarray", 64)])
def test_numbers_that_only_unsigned_types_hold_are_refused(kind: str, width: int) -> None:
    """xDSL takes them, and reads them as negative numbers."""
    with pytest.raises(VerifyError, match=f"does not fit in {width} bits"):
        encode(kind, (1 << (width - 1),))


def test_a_scalar_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(VerifyError, match="does not fit in 64 bits"):
        encode("scalar", 2**64 + 3)
