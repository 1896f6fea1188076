"""Imports a StableHLO module: each node by its rule; called functions are inlined."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from xdsl.dialects.builtin import ModuleOp

import pirkit.stablehlo.ops  # noqa: F401  # pyright: ignore[reportUnusedImport]
from pirkit.diag.errors import ConstraintError, ParseError, UnsupportedError
from pirkit.diag.gc_pause import uncollected
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.parser_limits import guard_characters
from pirkit.dialect.program import Program
from pirkit.dialect.unused_ops import erase_unused
from pirkit.dialect.verify import verify_module
from pirkit.runtime.place import UNDEFINED
from pirkit.stablehlo.hlo_builder import HloBuilder, location_at
from pirkit.stablehlo.nodes import DTYPES, Function, Node, Place, Tensor
from pirkit.stablehlo.read_module import read_module
from pirkit.stablehlo.rules import RULES

FAULTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What rules raise for attributes of a wrong kind."""
_WORD: Final = re.compile(r"\W+")


@uncollected
def program_of_text(text: str, file: str = "<text>") -> Program:
    """The program of a StableHLO module, given as text in the pretty or the generic form.

    Inputs are called as the arguments of the Python function (``params['w']`` is ``params_w``),
    outputs as jax calls the results: ``result``, ``result_0``, ``result_loss``. Constants of more
    than 64 elements are parameters of the program. An op is located at the line of Python that the
    text names, or else at the line of the text. Unsigned integers of 16 bits and more become signed
    integers of the same bits.

    Raises ParseError (PK0101 to PK0106) for a malformed text, and UnsupportedError (PK0411) for an
    operation, a type or a form without a rule, both with the location; LimitError for a text beyond
    the size limits.
    """
    guard_characters(text, file, long_lines=True)  # a constant is one line
    return Importer(text, file).run()


class Importer:
    """The import of one module. Errors are those of `program_of_text`."""

    def __init__(self, text: str, file: str) -> None:
        self.module = read_module(text, file)
        self.file = file
        self.op = ProgramOp.build("main")
        self.b = HloBuilder(self.op, self.module)
        self.b.visit = self.visit
        self.ops = 0

    def run(self) -> Program:
        """The program of `main`, or of the first function if there is none, verified."""
        functions = self.module.functions
        main = functions.get("main") or next(iter(functions.values()), None)
        if main is None:
            raise ParseError("the module holds no function", code="PK0102", span=Span(self.file))
        module = ModuleOp([self.op])
        b = self.b
        b.node = Node("func.func", main.line)
        names = _names([_name_of(n, self.module.places) for n in main.body.labels], "arg")
        inputs = [self.input(n, t) for n, t in zip(names, main.body.types, strict=True)]
        results = b.run(main.body, inputs, {})
        self._check_results(main, results)
        outputs = _names(main.labels, "result")
        seen: set[Any] = set()
        for name, value in zip(outputs, results, strict=True):
            owner = value.ssa.owner
            source = isinstance(owner, PirOp) and not owner.operands  # it would lose its name
            if value.ssa in seen or source:
                value = b("pd_op.assign", value)
            seen.add(value.ssa)
            b("pir.shadow_output", value, output_name=name)
        erase_unused(self.op, self.b.weights)
        verify_module(module)
        return Program(module, b.weights, self.file)

    def input(self, name: str, type_: Tensor) -> Value:
        """An input of the program."""
        self.known(type_)
        return self.b("pd_op.data", name=name, shape=type_.sizes, dtype=type_.dtype,
                      place=UNDEFINED)  # fmt: skip

    def _check_results(self, main: Function, results: list[Value]) -> None:
        found = [(v.shape, v.dtype) for v in results]
        for type_ in main.types:
            self.known(type_)
        if found != [(t.sizes, t.dtype) for t in main.types]:
            raise self.b.malformed(f"@{main.name} returns other types than it declares")

    def known(self, type_: Tensor) -> None:
        """Raise UnsupportedError (PK0411) for an unknown element type or a dynamic shape."""
        b = self.b
        if type_.element not in DTYPES:
            raise b.unsupported(f"has a tensor of `{type_.element}`, which programs do not know",
                                f"the element types are {', '.join(DTYPES)}")  # fmt: skip
        if None in type_.shape:
            raise b.unsupported(f"has the type {type_}, whose size is not known",
                                "export the function for concrete shapes")  # fmt: skip

    def visit(self, node: Node) -> None:
        """Emit what a node computes, and enter its results in the scope.

        Raises ParseError (PK0105) if operands or results have other types than the text states.
        """
        b = self.b
        self.ops += 1
        b.node = node
        check("ops", self.ops, b.span())
        place = b.place_of(node) or Place(self.file, node.line, 0)
        b.location = location_at(place)
        read = [b.read(name) for name in node.operands]
        b.ins, b.outs = [t for _, t in read], node.types
        if node.given is not None and node.given != b.ins:
            told = ", ".join(str(t) for t in b.ins)
            raise b.malformed(f"`{node.name}` names other types than its operands have: {told}")
        for type_ in node.types:
            self.known(type_)
        made = self.emit(node, [v for v, _ in read])
        several: tuple[Any, ...] = tuple(made) if isinstance(made, tuple | list) else (made,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        for i, type_ in enumerate(node.types):
            value: Value | None = several[i] if i < len(several) else None
            fits = value is not None and value.dtype is type_.dtype
            if value is None or not fits or (value.shape != type_.sizes and not b.lanes):
                found = "nothing" if value is None else str(value.meta)
                raise b.malformed(f"`{node.name}` gives {found}, and the text states {type_}")
            if node.results:
                b.scope[node.results[i]] = (value, type_)

    def emit(self, node: Node, operands: list[Value]) -> Any:
        """What the rule of a node returns.

        Raises UnsupportedError (PK0411) without a rule or for attributes that it does not take,
        ParseError (PK0105) for operands or attributes that do not fit.
        """
        b = self.b
        rule = RULES.get(node.name)
        if rule is None:
            raise b.unsupported("has no rule")
        keywords = {k: v for k, v in node.attributes.items() if "." not in k}
        try:
            taken = inspect.signature(rule)
            taken.bind(b, *operands, **keywords)
        except TypeError as error:
            raise b.unsupported(f"has a form without a rule: {error}") from None
        for name, value in keywords.items():
            parameter = taken.parameters.get(name)
            if parameter is not None and not _admits(parameter.annotation, value):
                told = f"has {value!r} as `{name}`, which is of {parameter.annotation}"
                raise b.malformed(f"`{node.name}` {told}")
        try:
            return rule(b, *operands, **keywords)
        except (ConstraintError, *FAULTS) as error:
            raise b.malformed(f"`{node.name}` does not fit: {error}") from error
        except UnsupportedError as error:
            error.span = error.span or b.span()
            raise


_KINDS: Final = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
"""Annotation of a rule's attribute -> the Python types that it takes; others are not checked."""


def _admits(annotation: str, value: Any) -> bool:
    """Whether a rule takes an attribute; in a ``Sequence[int]`` no number may be negative."""
    if annotation.startswith("Sequence[int]"):
        return isinstance(value, list | tuple) and all(
            type(n) is int and n >= 0 for n in cast("list[object]", value)
        )
    return annotation not in _KINDS or type(value) in _KINDS[annotation]


def _name_of(location: str | None, places: Mapping[str, str]) -> str | None:
    """The name of an argument, if its location is a name."""
    held = places.get(location or "", location or "")
    return held[1:-1] if re.fullmatch(r'"[^"]*"', held) else None


def _names(labels: list[str | None], other: str) -> list[str]:
    """Distinct identifiers from labels; ``other`` and a number for a label without letters."""
    found: list[str] = []
    for i, label in enumerate(labels):
        name = _WORD.sub("_", label or "").strip("_") or f"{other}_{i}"
        while name in found:
            name += "_"
        found.append(name)
    return found
