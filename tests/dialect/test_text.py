"""All texts of a program give the program back, and no text brings the parser down."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import builtin as mlir

from pirkit.diag.errors import PirkitError
from pirkit.dialect.attrs import LayoutAttr
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.text import parse_mlir, print_mlir
from pirkit.dialect.verify import verify_module
from pirkit.frontend.paddle.text_reader import read_paddle_text
from pirkit.frontend.paddle.text_writer import write_paddle_text
from tests.dialect.programs import (
    NAMES,
    PADDLE_STRINGS,
    STRINGS,
    Builder,
    RandomProgram,
    calls_of,
    programs,
    sampled,
)

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
DUMPS: Final = [p.read_text(encoding="utf-8") for p in sorted(CORPUS.glob("*/*.txt"))]
SHORT: Final = [text for text in DUMPS if len(text) < 10_000]


def check_round_trip(module: mlir.ModuleOp) -> None:
    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        again = parse_mlir(text)
        verify_module(again)
        assert again.is_structurally_equivalent(module)
        assert print_mlir(again, generic=generic) == text


@pytest.mark.parametrize("definition", sampled(), ids=lambda d: d.name)
def test_every_op_round_trips(definition: OpDef) -> None:
    builder = Builder()
    for call in calls_of(definition):
        builder.call(call)
    module = builder.module
    verify_module(module)
    check_round_trip(module)
    text = write_paddle_text(module)
    again = read_paddle_text(text)
    verify_module(again)
    assert write_paddle_text(again) == text


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(programs(NAMES | STRINGS, STRINGS))
@settings(max_examples=40, deadline=None)
def test_random_program_round_trips(random: RandomProgram) -> None:
    check_round_trip(random.module)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@given(programs(NAMES, PADDLE_STRINGS))
@settings(max_examples=40, deadline=None)
def test_random_program_round_trips_in_paddles_text(random: RandomProgram) -> None:
    text = write_paddle_text(random.module)
    again = read_paddle_text(text)
    verify_module(again)
    assert write_paddle_text(again) == text
    check_round_trip(again)


# --- damaged text --------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"\w+|\s+|.", re.DOTALL)


@st.composite
def damaged(draw: st.DrawFn, texts: list[str]) -> str:
    """A text with a few of its tokens or lines deleted, doubled, swapped or replaced."""
    text = draw(st.sampled_from(texts))
    pieces = text.splitlines(keepends=True) if draw(st.booleans()) else _TOKEN.findall(text)
    for _ in range(draw(st.integers(1, 3))):
        if not pieces:
            break
        at, other = (draw(st.integers(0, len(pieces) - 1)) for _ in range(2))
        match draw(st.sampled_from(["delete", "double", "swap", "copy", "insert"])):
            case "delete":
                del pieces[at]
            case "double":
                pieces.insert(at, pieces[at])
            case "swap":
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case "copy":
                pieces[at] = pieces[other]
            case _:
                pieces.insert(at, draw(st.text(max_size=3)))
    return "".join(pieces)


@given(damaged(SHORT))
@settings(max_examples=200, deadline=None)
def test_damaged_dump_is_read_or_refused(text: str) -> None:
    try:
        module = read_paddle_text(text)
        verify_module(module)
    except PirkitError:
        return
    written = write_paddle_text(module)
    assert write_paddle_text(read_paddle_text(written)) == written
    assert print_mlir(parse_mlir(print_mlir(module))) == print_mlir(module)


@cache
def printed() -> list[str]:
    """Dumps in both forms of our text."""
    modules = [read_paddle_text(dump) for dump in sorted(SHORT, key=len)[:12]]
    return [print_mlir(m, generic=g, locations=g) for m in modules for g in (False, True)]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_text_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(damaged(printed()))
    try:
        module = parse_mlir(text)
        verify_module(module)
    except PirkitError:
        return
    again = print_mlir(module)
    assert print_mlir(parse_mlir(again)) == again


@pytest.mark.parametrize("word", ["", "NCHW", "größe", "日本", "a b", 'a"b', "1a", "\n"])
def test_a_word_is_read_as_it_is_printed(word: str) -> None:
    module = parse_mlir('builtin.module { pir.program @p(%x "x" : tensor<2xf32>) {} }')
    program = next(iter(module.ops))
    program.attributes["my.layout"] = LayoutAttr(word)
    for generic in (False, True):
        text = print_mlir(module, generic=generic)
        assert next(iter(parse_mlir(text).ops)).attributes["my.layout"] == LayoutAttr(word)
