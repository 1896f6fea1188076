"""A lexer of Pygments for programs, known to it as ``pir``: ``pygmentize -l pir program.mlir``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class PirLexer(RegexLexer):
    """The text form of `pirkit-opt`, MLIR's generic form, and dumps of Paddle."""

    name = "PIR"
    aliases: ClassVar[Sequence[str]] = ["pir"]
    filenames: ClassVar[Sequence[str]] = ["*.mlir", "*.pir"]
    tokens: ClassVar = {
        "root": [
            (r"\s+", Text),
            (r"//.*?$", Comment.Single),
            (r'"(?:pd_op|pir|builtin|cf|map_expr)\.[\w.]+"', Name.Function),  # the generic form
            (r'"(?:\\.|[^"\\])*"', String),
            (r"%[\w.#-]*", Name.Variable),
            (r"\^\w+", Name.Label),
            (r"@[\w.]+", Name.Class),
            (r"[#!]\w+(?:\.\w+)*", Name.Attribute),
            (r"(?:pd_op|pir|builtin|cf|map_expr)\.[\w.]+", Name.Function),
            (r"\b(?:tensor|vector|memref|array|dense|vec)(?=<)", Keyword.Type),
            (r"\b(?:[su]?i|f|bf|index|complex)\d*\b", Keyword.Type),
            (r"\b(?:true|false|unit|loc|attributes|stop_gradient)\b", Keyword),
            (r"-?(?:\d+x)+(?=[\w?])", Number.Integer),  # a shape
            (r"-?\d+\.\d*(?:[eE][+-]?\d+)?", Number.Float),
            (r"-?(?:0x[\da-fA-F]+|\d+)", Number.Integer),
            (r"->|=|:", Operator),
            (r"[(){}\[\]<>,?*+-]", Punctuation),
            (r"[\w.]+", Name),
            (r".", Text),
        ]
    }
