"""Sizes of named dimensions, and the types that hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pirkit.diag.errors import ParseError, VerifyError
from pirkit.dialect.sizes import DimsAttr, Size, number, symbol
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.types import (
    meta_of,
    named,
    retyped,
    sizes_of,
    tensor_type,
    type_of,
    vec_type,
)
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.json_writer import write_paddle_json
from pirkit.frontend.paddle.text_writer import write_paddle_text
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta

SYMBOLS = st.from_regex(r"[A-Z][A-Z0-9_]{0,4}", fullmatch=True)
FACTORS = st.integers(-(10**15), 10**15)
SIZES = st.builds(Size.of, st.dictionaries(SYMBOLS, FACTORS, min_size=1, max_size=4), FACTORS)
NAMES = SIZES.filter(lambda s: bool(s.terms))
N = symbol("N")


@given(NAMES)
def test_a_size_survives_its_text(size: Size) -> None:
    assert Size.parse(str(size)) == size


@given(NAMES, FACTORS)
def test_a_size_at_a_number(size: Size, value: int) -> None:
    at = size.at(dict.fromkeys(size.symbols, value))
    assert at.known == size.constant + value * sum(f for _, f in size.terms)


@pytest.mark.parametrize(
    ("text", "shown"), [("1+N+N", "2*N+1"), ("M-N", "M-N"), ("-N+4", "-N+4"), ("007*N", "7*N")]
)
def test_equal_sizes_are_spelled_alike(text: str, shown: str) -> None:
    assert str(Size.parse(text)) == shown


@pytest.mark.parametrize("text", ["", "n", "N+", "N*2", "2N", "N N", "4", "N-N", "N//2", "1" * 19])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no sum|names no"):
        Size.parse(text)


def program(type_: str) -> str:
    return (
        f'pir.program @main(%x "x" : {type_}) {{\n'
        f"  %y = pd_op.relu(%x) : ({type_}) -> tensor<?x8xf32>\n}}"
    )


@given(st.lists(st.none() | NAMES, min_size=1, max_size=4))
def test_a_named_type_round_trips(sizes: list[Size | None]) -> None:
    plain = tensor_type((UNKNOWN,) * len(sizes), dt.float32)
    type_ = named(plain, (tuple(sizes),))
    module = parse_mlir(f'pir.program @main(%x "x" : {type_}) {{ }}')
    verify_module(module)
    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        again = parse_mlir(text)
        assert again.is_structurally_equivalent(module)
        assert print_mlir(again, generic=generic) == text
    assert str(type_) in print_mlir(module)
    assert meta_of(type_) == meta_of(plain)
    assert sizes_of(type_) == (tuple(sizes),)
    assert named(type_, ((None,) * len(sizes),)) == plain


def test_equal_named_types_are_parsed_once() -> None:
    module = parse_mlir(program('tensor<?x8xf32, #pir.dims<["N", ""]>>'))
    verify_module(module)
    assert '"N", ""' in print_mlir(module)


def test_names_of_the_items_of_a_list() -> None:
    item = tensor_type((UNKNOWN, 2), dt.float32)
    plain = vec_type([item, item])
    sizes = ((N, number(2)), (None, number(2)))
    type_ = named(plain, sizes)
    assert sizes_of(type_) == sizes
    assert meta_of(type_) == meta_of(plain)
    assert retyped(type_, meta_of(type_)) == type_


def test_a_dimension_that_becomes_known_loses_its_name() -> None:
    type_ = named(tensor_type((UNKNOWN, UNKNOWN), dt.float32), ((N, symbol("M")),))
    after = retyped(type_, TensorMeta((4, UNKNOWN), dt.float32))
    assert str(after) == 'tensor<4x?xf32, #pir.dims<["", "M"]>>'
    static = TensorMeta((4, 5), dt.float32)
    assert retyped(type_, static) == type_of(static)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ('tensor<?x8xf32, #pir.dims<["N"]>>', "names 1 of 2 dimensions"),
        ('tensor<?x8xf32, #pir.dims<["N", "M"]>>', "dimension 1 .* is known and named"),
    ],
)
def test_names_that_do_not_fit(type_: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message) as caught:
        verify_module(parse_mlir(program(type_)))
    assert caught.value.code == "PK0105"
    assert caught.value.span is not None


def test_names_that_do_not_fit_inside_a_loop() -> None:
    text = """pir.program @main(%c "c" : tensor<i1>, %x "x" : tensor<?xf32>) {
      %y = pd_op.while(%c, %x) : (tensor<i1>, tensor<?xf32>) -> tensor<?xf32> {
      ^bb0(%s : tensor<?xf32, #pir.dims<["N", "M"]>>):
        pir.yield(%c, %s) : (tensor<i1>, tensor<?xf32, #pir.dims<["N", "M"]>>) -> ()
      }
    }"""
    with pytest.raises(VerifyError, match="names 2 of 1"):
        verify_module(parse_mlir(text))


@pytest.mark.parametrize("entry", ['"n"', '"2N"', "N", '"N-N"', "1"])
def test_no_name(entry: str) -> None:
    with pytest.raises(ParseError):
        parse_mlir(program(f'tensor<?x8xf32, #pir.dims<[{entry}, ""]>>'))


def test_paddles_formats_do_not_have_names() -> None:
    plain = parse_mlir(program("tensor<?x8xf32>"))
    module = parse_mlir(program('tensor<?x8xf32, #pir.dims<["N", ""]>>'))
    assert write_paddle_text(module) == write_paddle_text(plain)
    assert write_paddle_json(module) == write_paddle_json(plain)


def test_the_attribute_prints_itself() -> None:
    assert str(DimsAttr((N, None))) == '#pir.dims<["N", ""]>'
