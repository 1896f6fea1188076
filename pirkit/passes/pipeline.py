"""Pipeline strings: ``infer-meta{bind=x:4x3},@default,dce``.

::

    pipeline = [item ("," item)*]
    item     = "@" NAME | NAME ["{" [option ("," option)*] "}"]
    option   = NAME "=" value ("," value)*  |  NAME          (a bare name switches a flag on)
    value    = a word without blanks and ``,{}="``, or a quoted string

Names of options may be written with ``-`` or ``_``; blanks between the parts do not matter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import isabstract
from typing import Any, Final, NoReturn, get_type_hints

from msgspec import Struct

from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.diag.source import register_source
from pirkit.diag.span import Span
from pirkit.passes.base import Pass, PipelineItem, Places, require_name
from pirkit.passes.pipelines import ORDER, PIPELINES, OrderRule
from pirkit.passes.registry import pass_named

FILE: Final = "<pipeline>"

_TOKEN: Final = re.compile(r'\s*(?:(?P<word>[^\s,{}="]+)|(?P<quoted>"[^"]*")|(?P<mark>[,{}=]))')


class _Token(Struct, frozen=True):
    text: str
    span: Span
    is_word: bool


class _Option(Struct):
    """An option as written in the string; one without values is a flag."""

    name: _Token
    values: list[_Token]


def parse_pipeline(text: str) -> list[Pass]:
    """The passes of a pipeline string, in order.

    Raises UsageError, with a span into the string: PK0702 for an unknown pass or named pipeline,
    PK0703 for a bad option, PK0704 for an order that cannot work, PK0700 for other mistakes.
    """
    register_source(FILE, text)
    passes = _Parser(text).pipeline()
    check_order(passes)
    return passes


def passes_of(pipeline: str | Sequence[PipelineItem]) -> list[Pass]:
    """The passes of a pipeline string, or of a list of such strings, passes and their classes.

    Raises UsageError as `parse_pipeline`, and PK0701 for an item that is neither.
    """
    if isinstance(pipeline, str):
        return parse_pipeline(pipeline)
    passes: list[Pass] = []
    for item in pipeline:
        held: Any = item
        if isinstance(held, type) and issubclass(held, Pass) and not isabstract(held):
            require_name(held)
            held = held()
        if isinstance(held, Pass):
            passes.append(held)
        elif isinstance(held, str):
            passes += parse_pipeline(held)
        else:
            raise ArgumentError(
                f"a pipeline is made of passes and of strings, not of {item!r}",
                help="for instance `[MyPass(), 'cse,dce']`, where MyPass is a class of passes",
            )
    check_order(passes)
    return passes


def order_remarks(passes: Sequence[Pass], rules: Sequence[OrderRule] = ORDER) -> list[OrderRule]:
    """The ordering rules that the passes violate."""
    names = [p.name for p in passes]
    return [rule for rule in rules if not rule.holds(names)]


def check_order(passes: Sequence[Pass], rules: Sequence[OrderRule] = ORDER) -> None:
    """Raise UsageError (PK0704) if a strict ordering rule is violated."""
    for rule in order_remarks(passes, rules):
        if rule.strict:
            raise UsageError(str(rule), code="PK0704")


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.next = 0
        self.end = _span(text, len(text))

    def pipeline(self) -> list[Pass]:
        passes: list[Pass] = []
        while self.next < len(self.tokens):
            if passes:
                self.expect(",", "between passes")
            passes += self.item()
        return passes

    def item(self) -> list[Pass]:
        name = self.word("the name of a pass")
        if name.text.startswith("@"):
            return _named_pipeline(name)
        mark = re.search(r"[;()|]", name.text)
        if mark is not None:
            place = Span(FILE, name.span.line, name.span.column + mark.start())
            _fail(f"`{mark[0]}` has no place in a pipeline", place)
        cls = pass_named(name.text, name.span)
        options = self.options() if self.peek() == "{" else []
        return [_build(cls, name, options)]

    def options(self) -> list[_Option]:
        self.expect("{", "before options")
        found: list[_Option] = []
        while self.peek() != "}":
            if found and self.next == len(self.tokens):
                self.expect("}", "after options")
            if found:
                self.expect(",", "between options")
            token = self.word("an option or a value")
            if self.peek() == "=":
                self.expect("=", "after an option")
                found.append(_Option(token, [self.word("a value")]))
            elif found and found[-1].values:
                found[-1].values.append(token)
            else:
                found.append(_Option(token, []))
        self.expect("}", "after options")
        return found

    def peek(self) -> str | None:
        if self.next == len(self.tokens):
            return None
        token = self.tokens[self.next]
        return None if token.is_word else token.text

    def word(self, what: str) -> _Token:
        if self.next == len(self.tokens):
            _fail(f"the pipeline ends where {what} is expected", self.end)
        token = self.tokens[self.next]
        if not token.is_word:
            _fail(f"`{token.text}` is where {what} is expected", token.span)
        self.next += 1
        return token

    def expect(self, mark: str, where: str) -> None:
        if self.peek() != mark:
            at_end = self.next == len(self.tokens)
            _fail(
                f"`{mark}` is missing {where}", self.end if at_end else self.tokens[self.next].span
            )
        self.next += 1


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while text[position:].strip():
        m = _TOKEN.match(text, position)
        if m is None:
            _fail("a quoted value does not end", _span(text, text.index('"', position)))
        kind = m.lastgroup or ""
        start = m.start(kind)
        shown = m[kind].strip('"') if kind == "quoted" else m[kind]
        tokens.append(_Token(shown, _span(text, start, m.end() - start), kind != "mark"))
        position = m.end()
    return tokens


def _span(text: str, start: int, length: int = 1) -> Span:
    line = text.count("\n", 0, start) + 1
    return Span(FILE, line, start - text.rfind("\n", 0, start), length)


def _named_pipeline(name: _Token) -> list[Pass]:
    text = PIPELINES.get(name.text[1:])
    if text is None:
        near = difflib.get_close_matches(name.text[1:], PIPELINES, n=1)
        known = ", ".join(f"`@{p}`" for p in PIPELINES)
        raise UsageError(
            f"unknown pipeline `{name.text}`",
            code="PK0702",
            span=name.span,
            help=f"did you mean `@{near[0]}`?" if near else f"named pipelines are {known}",
        )
    passes = _Parser(text).pipeline()
    for each in passes:
        object.__setattr__(each, "places", ((name.text, name.span),))
    return passes


def _build(cls: type[Pass], name: _Token, options: list[_Option]) -> Pass:
    fields = _option_types(cls)
    values: dict[str, Any] = {}
    for option in options:
        key = option.name.text.replace("-", "_")
        if key not in fields:
            _unknown_option(cls, option.name, list(fields))
        if key in values:
            _bad_option(f"option `{option.name.text}` is given twice", option.name.span)
        values[key] = _convert(fields[key], option)
    given = [v for option in options for v in option.values]
    places = tuple([(v.text, v.span) for v in (*given, name)])
    try:
        made = cls(**values)
    except UsageError as error:  # no program can have such a value
        error.span = error.span or place_of(error, places)
        raise
    object.__setattr__(made, "places", places)  # passes are frozen
    return made


def place_of(error: UsageError, places: Places) -> Span | None:
    """Where the pipeline string has the value that an error quotes, or else the name of the pass.

    None for a pass that no pipeline string made.
    """
    quoted = (span for text, span in places if f"`{text}`" in error.message)
    return next(quoted, places[-1][1] if places else None)


@lru_cache(256)
def _option_types(cls: type[Pass]) -> dict[str, Any]:
    # Evaluating annotations took a tenth of compiling a small program.
    options = cls.options()
    try:
        hints = get_type_hints(cls) if options else {}
    except (NameError, TypeError) as error:
        raise ArgumentError(
            f"the types of the options of pass `{cls.name}` cannot be read: {error}",
            help="import at run time what its annotations name",
        ) from error
    return {f.name: hints[f.name] for f in options}


def _unknown_option(cls: type[Pass], name: _Token, known: list[str]) -> NoReturn:
    shown = [k.replace("_", "-") for k in known]
    near = difflib.get_close_matches(name.text, shown, n=1)
    listed = ", ".join(f"`{k}`" for k in shown) or "none"
    help = f"did you mean `{near[0]}`?" if near else f"its options: {listed}"
    _bad_option(f"pass `{cls.name}` has no option `{name.text}`", name.span, help)


def _convert(type_: Any, option: _Option) -> Any:
    """The values of an option, converted to the type of its field."""
    if not option.values and type_ is not bool:
        _bad_option(
            f"option `{option.name.text}` needs a value", option.name.span, _example(option, type_)
        )
    if type_ is bool:
        texts = [v.text.lower() for v in option.values] or ["true"]
        if len(texts) == 1 and texts[0] in ("true", "false"):
            return texts[0] == "true"
    element = _ELEMENTS.get(type_)
    if element is not None:
        return tuple(_one(element, option, v) for v in option.values)
    if len(option.values) == 1 and type_ in _SCALARS:
        return _one(_SCALARS[type_], option, option.values[0])
    wanted = getattr(type_, "__name__", str(type_))
    span = option.values[-1].span if option.values else option.name.span
    _bad_option(f"option `{option.name.text}` takes one {wanted}", span, _example(option, type_))


def _one(make: Callable[[str], Any], option: _Option, value: _Token) -> Any:
    try:
        return make(value.text)
    except ValueError:
        wanted = getattr(make, "__name__", "value")
        _bad_option(
            f"`{value.text}` is no {wanted} for option `{option.name.text}`",
            value.span,
            _example(option, make),
        )


def _example(option: _Option, type_: Any) -> str:
    """How the option is written."""
    values: dict[Any, str] = {bool: "true", int: "4", float: "0.5"}
    return f"for instance `{option.name.text}={values.get(_ELEMENTS.get(type_, type_), 'x')}`"


_SCALARS: Final[dict[Any, Callable[[str], Any]]] = {int: int, float: float, str: str}
_ELEMENTS: Final[dict[Any, Callable[[str], Any]]] = {
    tuple[int, ...]: int,
    tuple[float, ...]: float,
    tuple[str, ...]: str,
}


def _bad_option(message: str, span: Span, help: str | None = None) -> NoReturn:
    raise UsageError(message, code="PK0703", span=span, help=help)


def _fail(message: str, span: Span) -> NoReturn:
    raise UsageError(
        message,
        code="PK0700",
        span=span,
        help="a pipeline reads like `infer-meta{bind=x:4x3},cse,dce`",
    )
