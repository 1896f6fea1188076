"""pirkit's own text: MLIR's generic form and the readable form of `assembly`, both exact."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from difflib import get_close_matches
from io import StringIO
from typing import Any, Final, NoReturn, cast

from xdsl.context import Context
from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Attribute, Dialect, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils import exceptions as xdsl_errors
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pirkit.diag.errors import ParseError, PirkitError
from pirkit.diag.gc_pause import uncollected
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.attrs import ATTRIBUTES
from pirkit.dialect.map_expr.affine import IndexParser
from pirkit.dialect.map_expr.kernel_ops import OPERATIONS
from pirkit.dialect.opdef import all_ops, dialect_names, lookup
from pirkit.dialect.operation import ProgramOp, class_named, class_of
from pirkit.dialect.parse_advice import explained
from pirkit.dialect.parser_limits import depth_of, guard
from pirkit.dialect.printing import ProgramPrinter
from pirkit.dialect.types import types

_CODES: Final = (
    (re.compile(r"used but not defined|undefined|forward"), "PK0103"),
    (re.compile(r"already (?:been )?(?:defined|declared)|is already"), "PK0104"),
    (re.compile(r"to bind"), "PK0204"),
    (re.compile(r"[Tt]ype.*expected|expected.*type|used with type|shape|dimension"), "PK0105"),
    (re.compile(r"attribute|too large"), "PK0106"),
    (re.compile(r"end of (?:file|input)|EOF"), "PK0102"),
)
"""The subject of xDSL's message -> pirkit's code."""

_REFUSED: Final = {
    **dict.fromkeys(("vector", "memref", "tuple"), "PK0105"),
    **dict.fromkeys(("dense", "dense_resource", "opaque", "strided"), "PK0106"),
    "affine_set": "PK0106",
}
"""Builtin types and attributes of MLIR that programs do not use -> the code of the error."""

_ALIAS_COST: Final = 64
"""Bytes, about, that one character of an alias costs wherever the alias stands: aliases are shared
while parsed, but spelled out when printed, compared or hashed."""

_FRAMES: Final = ("builtin.module", "module", "pir.program")
"""The enclosing operations of programs, which are not ops of the table."""

_OWN_DIALECTS: Final = (
    "programs are written in the dialects `pir` and `pd_op`, and in those of plug-ins that are"
    " installed, or read by `--load FILE.py`"
)

_FOREIGN: Final = {
    **dict.fromkeys(
        ("stablehlo", "mhlo", "chlo", "vhlo", "sdy"),
        "this is StableHLO, which `-f stablehlo` and `pirkit.stablehlo.load` read, in a module of"
        " its own",
    ),
    **{
        dialect: f"this is MLIR in `{dialect}`, a lower level than pirkit reads; a model of another"
        " framework comes in as StableHLO, .onnx, .pt2 or Paddle's .json"
        for dialect in (
            "linalg", "tosa", "torch", "onnx", "tensor", "scf", "affine", "memref", "vector",
            "arith", "func",
        )
    },
}  # fmt: skip
"""Dialect of MLIR that other tools write -> what to do."""

_UNDEFINED: Final = re.compile(r"used but not defined: \[?'?%?([\w$.-]+)")

_POINTLESS: Final = re.compile(r"(?<=\d)[eE][-+]?\d+")

_TENSOR: Final = re.compile(r"tensor<[\w?x]+(?:, #pir\.dims<\[[^\]\n]*\]>)?>")
_ATTR_DICT: Final = re.compile(r'\{(?:[^{}"\n]++|"(?:[^"\\\n]++|\\.)*+")*+\}')

_PARSER_FAULTS: Final = (
    xdsl_errors.DiagnosticException,
    xdsl_errors.UnregisteredConstructException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Exceptions of xDSL's parser on malformed text besides its own ParseError."""


def dialects() -> tuple[Dialect, Dialect, Dialect]:
    """Dialects ``pir``, ``pd_op`` and ``map_expr`` with their operations, for xDSL's own tools."""
    definitions = list(all_ops())
    pir: list[type[Operation]] = [class_of(d) for d in definitions if d.dialect == "pir"]
    pd_op: list[type[Operation]] = [class_of(d) for d in definitions if d.dialect == "pd_op"]
    return (
        Dialect("pir", [ProgramOp, *pir], [*ATTRIBUTES, *types()]),
        Dialect("pd_op", pd_op, []),
        Dialect("map_expr", list(OPERATIONS), []),
    )


def context() -> Context:
    """A context for pirkit's parser; operation classes are created when a name first occurs."""
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Dialect("pir", [ProgramOp], [*ATTRIBUTES, *types()]))
    ctx.load_dialect(Dialect("map_expr", list(OPERATIONS), []))
    return ctx


@uncollected
def parse_mlir(text: str, file: str = "<text>") -> mlir.ModuleOp:
    """Read a module in generic or readable form; operations know their line. Not verified.

    Raises ParseError, UnsupportedError or LimitError with the location in the text.
    """
    guard(text, file)
    try:
        parser = _Parser(context(), text, file)  # reads the first token
    except xdsl_errors.ParseError as error:
        start = error.span.start
        column = start - text.rfind("\n", 0, start)
        raise _parse_error(error, Span(file, 1 + text.count("\n", 0, start), column)) from error
    try:
        module = parser.parse_module()
    except xdsl_errors.ParseError as error:
        undefined = _UNDEFINED.search(error.msg)
        if undefined is not None:
            raise parser.undefined_value(undefined[1]) from error
        if parser.is_cut(error):
            raise ParseError(
                "the text ends in the middle of an operation or a region",
                code="PK0102",
                span=parser.place(len(text.rstrip())),
                help="the file was cut, or a `}` is missing",
            ) from error
        number = _POINTLESS.match(text, error.span.start)
        if number is not None:
            raise ParseError(
                f"`{number[0]}` comes after a number without a point",
                code="PK0106",
                span=replace(parser.place(number.start()), length=len(number[0])),
                help="a number with an exponent has a point, as in `1.0e-05`",
            ) from error
        raise _parse_error(error, parser.place_of(error)) from error
    except PirkitError as error:
        error.span = error.span or parser.here()
        raise
    except _PARSER_FAULTS as error:
        raise _parse_error(error, parser.here()) from error
    return module


def _parse_error(error: Exception, span: Span) -> ParseError:
    message = error.msg if isinstance(error, xdsl_errors.ParseError) else str(error)
    first = (message.strip() or type(error).__name__).splitlines()[0].rstrip(".")
    code = next((code for pattern, code in _CODES if pattern.search(first)), "PK0101")
    if first[1:2].islower():
        first = first[0].lower() + first[1:]
    message, help = explained(first, code)
    return ParseError(message, code=code, span=span, help=help)


class _Parser(Parser):
    """xDSL's parser with operation classes created on demand, and locations set.

    Types and attribute dictionaries repeat, so each spelling is parsed once.
    """

    def __init__(self, ctx: Context, text: str, file: str) -> None:
        super().__init__(ctx, text, file)
        self.file = file
        self.text = text
        self.types: dict[str, TypeAttribute | None] = {}
        self.attr_dicts: dict[str, dict[str, Attribute]] = {}
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self.file_attr = mlir.StringAttr(file)
        self.aliases: dict[str, tuple[int, int]] = {}
        self.expanded = 0
        self.deepest = 0

    def parse_optional_type(self) -> TypeAttribute | None:
        m = _TENSOR.match(self.text, self._current_token.span.start)
        if m is None:
            return super().parse_optional_type()
        known = self.types.get(m[0])
        if known is None:
            self.types[m[0]] = known = super().parse_optional_type()
        else:
            self._resume_from(m.end())
        return known

    def parse_optional_attr_dict(self) -> dict[str, Attribute]:
        m = _ATTR_DICT.match(self.text, self._current_token.span.start)
        if m is None or self.aliases:  # the uses of an alias are counted as they are parsed
            return super().parse_optional_attr_dict()
        known = self.attr_dicts.get(m[0])
        if known is None:
            self.attr_dicts[m[0]] = known = super().parse_optional_attr_dict()
        else:
            self._resume_from(m.end())
        return dict(known)

    def parse_dimension_list(self) -> list[int]:
        dims = super().parse_dimension_list()
        check("rank", len(dims), self.here())
        for dim in dims:
            check("dimension", dim, self.here())
        return dims

    def _parse_optional_builtin_parametrized_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.text in _REFUSED and token.kind is MLIRTokenKind.BARE_IDENT:
            raise ParseError(
                f"`{token.text}` has no place in a program",
                code=_REFUSED[token.text],
                span=self.place(token.span.start),
                help="types are `tensor<...>` and `!pir.*`, lists of numbers `array<i64: ...>`",
            )
        return super()._parse_optional_builtin_parametrized_type()

    def _parse_builtin_affine_map(self) -> mlir.AffineMapAttr:
        """Like xDSL's method, but also for maps with symbolic factors and divisors."""
        self.parse_characters("<", " in affine_map attribute")
        found = IndexParser(self._parser_state).parse_affine_map()
        self.parse_characters(">", " in affine_map attribute")
        return mlir.AffineMapAttr(found)

    def _parse_builtin_densearray_attr(self) -> Any:
        """Like xDSL's method, but reads the bits that its printer writes for NaN and infinities."""
        with self.in_angle_brackets():
            element = self.parse_type()
            if not isinstance(element, mlir.IntegerType | mlir.AnyFloat):
                self.raise_error("expected an integer or floating-point type")
            values: list[Any] = []
            if self.parse_optional_punctuation(":") is not None:
                values = self.parse_comma_separated_list(
                    self.Delimiter.NONE, lambda: self._parse_element(element)
                )
        return mlir.DenseArrayBase.from_list(cast(Any, element), values)

    def _parse_element(self, type_: Any) -> int | float:
        if isinstance(type_, mlir.IntegerType):
            return self._parse_typed_integer(cast(Any, type_))
        if not self._current_token.text.startswith("0x"):
            return self.parse_float()
        bits = self.parse_integer(allow_boolean=False, allow_negative=False)
        return type_.unpack(bits.to_bytes(type_.compile_time_size, "little"), 1)[0]

    def parse_optional_str_literal(self) -> str | None:
        """Like xDSL's method, but also for non-ASCII letters, which its printer writes as bytes."""
        octets = self.parse_optional_bytes_literal()
        return super().parse_optional_str_literal() if octets is None else octets.decode()

    def _parse_file_metadata_dictionary(self) -> None:
        raise ParseError("a program has no metadata section", span=self.here(),
                         help="delete the section from `{-#` to `#-}`")  # fmt: skip

    def _parse_alias_def(self) -> None:
        token = self._current_token
        expanded, deepest = self.expanded, self.deepest
        self.deepest = 0
        super()._parse_alias_def()
        spelled = self.text[token.span.end : self._current_token.span.start]
        depth = self.deepest + depth_of(spelled)
        check("nesting", depth, self.place(token.span.start))
        self.aliases[token.text] = len(spelled) + self.expanded - expanded, depth
        self.deepest = deepest

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        name = f"{'!' if is_type else '#'}{attr_or_dialect_name}"
        find = self.ctx.get_optional_type if is_type else self.ctx.get_optional_attr
        if "." in name and find(name[1:]) is None:
            what, code = ("type", "PK0105") if is_type else ("attribute", "PK0106")
            raise ParseError(f"there is no {what} `{name}`", code=code, span=self.here())
        found = super()._parse_extended_type_or_attribute(attr_or_dialect_name, cast(Any, is_type))
        size, depth = self.aliases.get(name, (0, 0))
        self.expanded += size
        self.deepest = max(self.deepest, depth)
        check("alias_bytes", self.expanded * _ALIAS_COST, self.here())
        return found

    def place(self, position: int) -> Span:
        line = bisect_right(self.starts, position)
        return Span(self.file, line, position - self.starts[line - 1] + 1)

    def is_cut(self, error: xdsl_errors.ParseError) -> bool:
        """True if the text ends where the parser wants more, perhaps in the middle of a word."""
        end = len(self.text.rstrip())
        is_last_word = error.span.end >= end and self.text[end - 1 : end] not in ("}", ")")
        return error.span.start >= end or (is_last_word and "entire input" not in error.msg)

    def place_of(self, error: xdsl_errors.ParseError) -> Span:
        """The place of an error: a token missing at the end of a line is reported on that line."""
        start = error.span.start
        before = len(self.text[:start].rstrip())
        is_missing = "expected" in error.msg.lower() and "\n" in self.text[before:start]
        return self.place(before if is_missing else start)

    def undefined_value(self, name: str) -> ParseError:
        """The error of the first use of a value that nothing defines."""
        use = re.search(rf"%{re.escape(name)}(?![\w$.-])", self.text)
        span = self.here() if use is None else self.place(use.start())
        return ParseError(
            f"value `%{name}` is not defined",
            code="PK0103",
            span=replace(span, length=len(name) + 1),
            help="each value is the result of an operation, or an argument of a block, above it",
        )

    def here(self) -> Span:
        return self.place(self.pos)

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, mlir.UnknownLoc):
            span = self.place(start)
            op.location = mlir.FileLineColLoc(
                self.file_attr, mlir.IntAttr(span.line), mlir.IntAttr(span.column)
            )
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        name = "builtin.module" if name == "module" else name  # mlir-opt prints it so
        known = self.ctx.get_optional_op(name) or class_named(name)
        if known is None:
            self._unknown_op(name)
        return known

    def _unknown_op(self, name: str) -> NoReturn:
        try:
            lookup(name)
        except PirkitError as error:
            column = self.text.rfind(name, 0, self._current_token.span.start)
            error.span = replace(self.place(max(column, 0)), length=len(name))
            near = get_close_matches(name, _FRAMES, n=1, cutoff=0.85)
            if near:
                error.help = f"did you mean `{near[0]}`?"
            elif "." in name and name.partition(".")[0] not in dialect_names():
                error.code = "PK0404"
                dialect = name.partition(".")[0]
                error.message = f"unknown dialect `{dialect}`"
                used = (d for d in _FOREIGN if re.search(rf"\b{d}\.", self.text))
                error.help = _FOREIGN.get(next(used, ""), _OWN_DIALECTS)
            raise
        raise ParseError(
            f"operation `{name}` is not allowed here", span=self.here(),
            help="only the ops that `pirkit-opt --list-ops` lists may stand here",
        )  # fmt: skip


def print_mlir(module: mlir.ModuleOp, *, generic: bool = False, locations: bool = False) -> str:
    """The text of a module; `parse_mlir` of it gives an equal module.

    ``generic`` prints MLIR's form, which any MLIR tool reads; ``locations`` adds ``loc(...)``.
    """
    stream = StringIO()
    options: dict[str, Any] = {"print_generic_format": generic, "print_debuginfo": locations}
    ProgramPrinter(stream, **options).print_op(module)
    stream.write("\n")
    return stream.getvalue()
