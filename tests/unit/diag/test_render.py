"""How diagnostics look: in three widths, without colour, and with hostile text in them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pirkit.diag.errors import ConstraintError, ParseError, PirkitError, VerifyError
from pirkit.diag.render import MAX_MESSAGE, escape, print_error, to_json, to_text
from pirkit.diag.source import register_source
from pirkit.diag.span import Span

LINE = '    (%2) = "pd_op.matmul" (%0, %1) {} : (tensor<8x128xf32>, tensor<64x32xf32>) -> out'

ERROR = VerifyError(
    "inner dimensions 128 and 64 of [8, 128] and [64, 32] differ in `pd_op.matmul`",
    code="PK0203",
    span=Span("block.txt", 14, 13, 12),
    notes=("constraint C2: the last dimension of `x` equals the second-last of `y`",),
    help="`transpose_y = true` makes them agree",
)

GOLDEN = {
    40: """
        error[PK0203]: inner dimensions 128 and
          64 of [8, 128] and [64, 32] differ in
          `pd_op.matmul`
           --> block.txt:14:13
           |
        14 | ...(%2) = "pd_op.matmul" (%0, %...
           |            ^^^^^^^^^^^^
           = note: constraint C2: the last
                   dimension of `x` equals the
                   second-last of `y`
           = help: `transpose_y = true` makes
                   them agree
    """,
    80: """
        error[PK0203]: inner dimensions 128 and 64 of [8, 128] and [64, 32] differ in
          `pd_op.matmul`
           --> block.txt:14:13
           |
        14 |     (%2) = "pd_op.matmul" (%0, %1) {} : (tensor<8x128xf32>, tensor<64x3...
           |             ^^^^^^^^^^^^
           = note: constraint C2: the last dimension of `x` equals the second-last of
                   `y`
           = help: `transpose_y = true` makes them agree
    """,
    120: """
        error[PK0203]: inner dimensions 128 and 64 of [8, 128] and [64, 32] differ in `pd_op.matmul`
           --> block.txt:14:13
           |
        14 |     (%2) = "pd_op.matmul" (%0, %1) {} : (tensor<8x128xf32>, tensor<64x32xf32>) -> out
           |             ^^^^^^^^^^^^
           = note: constraint C2: the last dimension of `x` equals the second-last of `y`
           = help: `transpose_y = true` makes them agree
    """,
}


@pytest.fixture(autouse=True)
def _source(monkeypatch: pytest.MonkeyPatch) -> None:
    register_source("block.txt", "\n" * 13 + LINE)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("width", GOLDEN)
def test_rendering_in_a_window(width: int) -> None:
    assert to_text(ERROR, width) == textwrap.dedent(GOLDEN[width]).lstrip("\n")


def test_pipe_gets_every_fact_on_one_line() -> None:
    stream = io.StringIO()
    print_error(ERROR, stream)
    lines = stream.getvalue().splitlines()
    assert lines[0] == f"error[PK0203]: {ERROR.message}"
    assert lines[-2:] == [f"   = note: {ERROR.notes[0]}", f"   = help: {ERROR.help}"]
    assert "\x1b" not in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_colour_and_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    print_error(ERROR, stream)
    assert "\x1b[" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_error(ERROR, plain)
    words = "".join(plain.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", ""))
    assert "\x1b[3" not in plain.getvalue()
    assert max(map(len, words.splitlines())) <= 40


def test_message_alone() -> None:
    assert to_text(ParseError("no program")) == "error[PK0101]: no program\n"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span("none.txt"), " --> none.txt\n"),
        (Span("none.txt", 7), " --> none.txt:7\n"),
        (Span("none.txt", 7, 2), " --> none.txt:7:2\n"),
        (Span("two.txt", 2), " --> two.txt:2\n  |\n2 | b c\n"),
        (Span("two.txt", 2, 3), " --> two.txt:2:3\n  |\n2 | b c\n  |   ^\n"),
        (Span("two.txt", 2, 3, 99), " --> two.txt:2:3\n  |\n2 | b c\n  |   ^\n"),
        (Span("two.txt", 2, 4), " --> two.txt:2:4\n  |\n2 | b c\n  |    ^\n"),
        (Span("two.txt", 2, 99), " --> two.txt:2:99\n  |\n2 | b c\n  |    ^\n"),
        (Span("two.txt", 3), " --> two.txt:3\n"),
        (Span("two.txt", 9), " --> two.txt:9\n"),
    ],
)
def test_place(span: Span, text: str) -> None:
    register_source("two.txt", "a\nb c\n")
    assert to_text(ParseError("m", span=span)) == f"error[PK0101]: m\n {text}"


def test_carets_stand_under_wide_and_escaped_characters() -> None:
    register_source("wide.txt", "\t\N{CJK UNIFIED IDEOGRAPH-5F20}\N{RIGHT-TO-LEFT OVERRIDE}bad")
    text = to_text(ParseError("m", span=Span("wide.txt", 1, 4, 3)))
    excerpt, carets = text.splitlines()[-2:]
    assert excerpt == "1 |     \N{CJK UNIFIED IDEOGRAPH-5F20}\\u202ebad"
    assert cell_len(excerpt.partition("bad")[0]) == carets.index("^")
    assert carets.endswith("^^^")


def test_excerpt_of_a_very_long_line_is_cut_around_the_carets() -> None:
    register_source("long.txt", "x" * 100_000 + "HERE" + "y" * 100_000)
    excerpt = to_text(ParseError("m", span=Span("long.txt", 1, 100_001, 4)), 80).splitlines()[-2]
    assert excerpt.startswith("1 | ...xxx")
    assert "xHEREy" in excerpt
    assert excerpt.endswith("yyy...")
    assert len(excerpt) <= 80


def test_cut_admits_characters_without_a_width_of_their_own() -> None:
    register_source("accents.txt", "\N{COMBINING ACUTE ACCENT}" * 1_000 + "HERE")
    excerpt = to_text(ParseError("m", span=Span("accents.txt", 1, 1_001, 4)), 80).splitlines()[-2]
    assert excerpt.startswith("1 | ...")
    assert excerpt.endswith("HERE")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER ALPHA}"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\0b\r\nc\td", "a\\x00b\\r\\nc\\td"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}", "\\u202e"),
        ("\N{ZERO WIDTH SPACE}\N{LINE SEPARATOR}", "\\u200b\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_escapes_reach_every_part() -> None:
    bad = "\x1b[2J"
    error = ParseError(bad, span=Span(bad, 1), notes=(bad,), help=bad)
    assert "\x1b" not in to_text(error)
    assert to_text(error).count("\\x1b[2J") == 4


def test_overlong_message_is_clipped() -> None:
    text = to_text(ParseError("x" * (MAX_MESSAGE + 5)))
    assert text.endswith("xxx... (5 more characters)\n")


@given(
    message=st.text(max_size=60),
    line=st.text(st.characters(exclude_characters="\n"), max_size=200),
    column=st.integers(0, 220),
    length=st.integers(0, 220),
    width=st.integers(40, 130),
)
def test_nothing_is_wider_than_the_window_or_unprintable(
    message: str, line: str, column: int, length: int, width: int
) -> None:
    register_source("any.txt", line)
    text = to_text(ParseError(message, span=Span("any.txt", 1, column, length)), width)
    for shown in text.split("\n"):
        assert cell_len(shown) <= width
        assert escape(shown) == shown


def test_json_has_every_fact() -> None:
    stream = io.StringIO()
    print_error(ERROR, stream, as_json=True)
    data = json.loads(stream.getvalue())
    assert data == to_json(ERROR)
    assert data["span"] == {"file": "block.txt", "line": 14, "column": 13, "length": 12}
    assert (data["code"], data["kind"], data["exit_code"]) == ("PK0203", "VerifyError", 1)
    assert to_json(ParseError("m"))["span"] is None


def test_text_of_the_exception_itself() -> None:
    assert str(ERROR) == f"error[PK0203]: {ERROR.message} (block.txt:14:13)"
    assert str(PirkitError("m", code="PK0100")) == "error[PK0100]: m"


def test_constraint_error_names_its_constraint() -> None:
    error = ConstraintError("C2", "the dimensions differ", help="transpose one")
    assert (error.constraint, error.code, error.help) == ("C2", "PK0203", "transpose one")


def test_errors_and_limits_do_not_import_rich() -> None:
    script = (
        "import sys, pirkit.diag.entry, pirkit.diag.errors, pirkit.diag.limits;"
        "sys.exit('rich' in sys.modules or 'xdsl' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
