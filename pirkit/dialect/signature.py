"""The one-line signature in which an op declares its operands, attributes and results.

::

    signature = operands ";" attributes "->" results          (";" may be left out)
    operand   = NAME                    a tensor
              | NAME "?"                an optional tensor, null when absent
              | NAME "[]" ["?"]         a list of tensors (one value of type !pir.vec)
              | NAME ":" KIND ["=" v]   a value that may be an operand or an attribute of this kind
              | "*" NAME                any number of values; only as the last operand
    attribute = NAME ":" KIND ["=" v]
    result    = NAME ["[]"] ["?"] ["~"] "?" may be null, "~" only needed by the gradient
              | "*" NAME                any number of results; only as the last result
    KIND      = bool i32 i64 f32 f64 str intarray scalar dtype place layout
              | bool[] i32[] i64[] f32[] f64[] str[] scalar[]

Operands are in Paddle's order; Paddle turns an attribute that may be computed (``axis``, ``shape``,
``k``) into an operand, so those are among the operands, with their kind. Attributes are in Paddle's
declared order, which is the order in its JSON files.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final, cast

from msgspec import Struct

from pirkit.diag.once import cached_property

KINDS: Final = frozenset(
    "bool i32 i64 f32 f64 str intarray scalar dtype place layout "
    "bool[] i32[] i64[] f32[] f64[] str[] scalar[]".split()
)
INT_KINDS: Final = frozenset({"i32", "i64"})


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()
"""Marks an attribute without a default."""


class Operand(Struct, frozen=True):
    """One operand slot. ``kind`` is set when an attribute of that kind may take its place."""

    name: str
    index: int
    optional: bool = False
    is_vec: bool = False
    kind: str | None = None
    default: Any = REQUIRED
    variadic: bool = False


class Attr(Struct, frozen=True):
    """One attribute, with its kind and its default (``REQUIRED`` when there is none)."""

    name: str
    kind: str
    default: Any = REQUIRED


class Result(Struct, frozen=True):
    """One result slot."""

    name: str
    index: int
    optional: bool = False
    is_vec: bool = False
    intermediate: bool = False
    variadic: bool = False


class Signature(Struct, frozen=True, dict=True):
    """The slots of an op."""

    operands: tuple[Operand, ...]
    attrs: tuple[Attr, ...]
    results: tuple[Result, ...]

    @cached_property
    def has_absent_operands(self) -> bool:
        """True if some operand slot may be empty, so that ops must say which are."""
        return any(o.optional or o.kind is not None for o in self.operands)

    @cached_property
    def has_absent_results(self) -> bool:
        return any(r.optional for r in self.results)

    @cached_property
    def unpacks_results(self) -> bool:
        """True if the last result slot stands for any number of results."""
        return any(r.variadic for r in self.results)


_OPERAND = re.compile(
    r"(?P<star>\*)?(?P<name>\w+)(?P<vec>\[\])?(?P<opt>\?)?(?::\s*(?P<kind>\w+(?:\[\])?)(?:\s*=\s*(?P<default>.+))?)?$"
)
_RESULT = re.compile(r"(?P<star>\*)?(?P<name>\w+)(?P<vec>\[\])?(?P<opt>\?)?(?P<mid>~)?$")


def parse_signature(text: str) -> Signature:
    """Parse a signature.

    Raises ValueError for text outside the grammar above; it is the op author's mistake.
    """
    left, arrow, right = text.partition("->")
    if not arrow:
        raise ValueError(f"signature {text!r} has no '->'")
    operands_text, _, attrs_text = left.partition(";")
    operands: list[Operand] = []
    for index, item in enumerate(_split(operands_text)):
        m = _match(_OPERAND, item, text)
        operands.append(
            Operand(
                m["name"],
                index,
                optional=m["opt"] is not None,
                is_vec=m["vec"] is not None,
                kind=_kind(m["kind"], text) if m["kind"] else None,
                default=_default(m["default"]),
                variadic=m["star"] is not None,
            )
        )
    attrs = [
        Attr(m["name"], _kind(m["kind"], text), _default(m["default"]))
        for m in (_match(_OPERAND, item, text) for item in _split(attrs_text))
    ]
    results = [
        Result(
            m["name"],
            index,
            optional=m["opt"] is not None,
            is_vec=m["vec"] is not None,
            intermediate=m["mid"] is not None,
            variadic=m["star"] is not None,
        )
        for index, m in enumerate(_match(_RESULT, item, text) for item in _split(right))
    ]
    return Signature(tuple(operands), tuple(attrs), tuple(results))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts: list[str] = []
    depth, quoted, start = 0, False, 0
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _match(pattern: re.Pattern[str], item: str, text: str) -> re.Match[str]:
    m = pattern.match(item)
    if m is None:
        raise ValueError(f"cannot read {item!r} in signature {text!r}")
    return m


def _kind(kind: str | None, text: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} in signature {text!r}")
    return kind


def _default(text: str | None) -> Any:
    """Defaults are Python literals; ``float32`` and other bare words are strings."""
    if text is None:
        return REQUIRED
    try:
        value = ast.literal_eval(text)
    except ValueError:
        return text
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
