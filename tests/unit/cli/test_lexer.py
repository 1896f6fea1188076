from __future__ import annotations

from pathlib import Path

import pytest

pygments = pytest.importorskip("pygments")

from pygments.token import Error, Name, Number  # noqa: E402

from pirkit.cli.lexer import PirLexer  # noqa: E402

CORPUS = Path(__file__).parents[2] / "corpus" / "paddle"
LINE = '  %y.1 = pd_op.scale(%x) {scale = -2.5 : f64, name = "a"} : tensor<4x?xf32> // doubled\n'


def test_tokens_of_an_operation() -> None:
    found = [(str(kind).removeprefix("Token."), text) for kind, text in PirLexer().get_tokens(LINE)]
    for pair in (
        ("Name.Variable", "%y.1"),
        ("Name.Function", "pd_op.scale"),
        ("Literal.Number.Float", "-2.5"),
        ("Keyword.Type", "f64"),
        ("Literal.String", '"a"'),
        ("Keyword.Type", "tensor"),
        ("Comment.Single", "// doubled"),
    ):
        assert pair in found
    assert "".join(text for _, text in found).strip() == LINE.strip()


def test_recorded_programs_have_no_errors() -> None:
    text = (CORPUS / "while_tanh" / "program.txt").read_text()
    tokens = list(PirLexer().get_tokens(text))
    assert not [text for kind, text in tokens if kind is Error]
    assert {Name.Function, Name.Variable, Number.Integer} <= {kind for kind, _ in tokens}


def test_pygments_finds_it() -> None:
    from pygments.lexers import get_lexer_by_name

    assert get_lexer_by_name("pir").__class__ is PirLexer


def test_the_grammar_of_editors_is_written_from_the_table() -> None:
    from tools import textmate

    assert textmate.TARGET.read_text() == textmate.text(), "run `python tools/textmate.py`"
