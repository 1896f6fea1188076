"""Parses StableHLO text into nodes: the generic form of MLIR, and pretty forms by a table."""

from __future__ import annotations

import re
from typing import Any, Final

from pirkit.diag.errors import ParseError
from pirkit.diag.limits import check
from pirkit.diag.span import Span
from pirkit.stablehlo.assembly_forms import FORMS, Form
from pirkit.stablehlo.locations import places_in
from pirkit.stablehlo.nodes import Block, Function, Module, Node, Tensor
from pirkit.stablehlo.tokens import Reader

_FORM: Final = Form()
_RANGES: Final = re.compile(r"\[\s*(?:\d+:\d+(?::\d+)?\s*,?\s*)*\]")
_EQUALS: Final = re.compile(r"\s*=")
_FILLERS: Final = ("applies", "across")
"""Words of the pretty form that say nothing: ``applies stablehlo.add across dimensions = [0]``."""


class ModuleReader(Reader):
    """A parser of one module, over the tokens of `Reader`."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.nodes = 0
        self.nested = 0

    def read(self) -> Module:
        """The module. Raises ParseError with the location in the text."""
        functions: dict[str, Function] = {}
        while self.token.kind == "hash":  # aliases of locations; `places_in` has them
            self._alias()
        is_generic = self.token.text in ('"builtin.module"', '"func.func"')
        has_module = self.accept("module") or self.accept("builtin.module")
        if is_generic:
            self._generic_module(functions)
        elif has_module:
            if self.token.kind == "symbol":
                self.advance()
            if self.accept("attributes"):
                self.expect("{")
                self.dictionary("}")
            self.expect("{")
            while not self.accept("}"):
                self._function(functions)
        else:
            while self.token.kind == "word":
                self._function(functions)
        if self.token.text == "loc":
            self.location()
        while self.token.kind == "hash":
            self._alias()
        if self.token.kind != "end":
            self.fail("expected the end of the text")
        return Module(functions, places_in(self.text), self.file)

    def _alias(self) -> None:
        self.advance()
        self.expect("=")
        self.value()

    # --- functions ---

    def _generic_module(self, functions: dict[str, Function]) -> None:
        """``"builtin.module"() ({ "func.func"() ... })``."""
        holder = self._operation()
        tops = holder.regions[0].nodes if holder.name == "builtin.module" else [holder]
        for node in tops:
            if node.name != "func.func":
                self._refuse(node.name, node.line)
            held = node.attributes
            results: list[dict[str, Any]] = held.get("res_attrs") or [{}] * len(
                held["function_type"][1]
            )
            name = str(held.get("sym_name"))
            labels = [r.get("jax.result_info") for r in results]
            types = held["function_type"][1]
            functions[name] = Function(name, node.regions[0], types, labels, node.line)

    def _refuse(self, name: str, line: int) -> None:
        raise ParseError(f"`{name}` stands where a function must", span=Span(self.file, line),
                         help="a module holds `func.func` ops, and nothing else")  # fmt: skip

    def _function(self, functions: dict[str, Function]) -> None:
        line = self.line_of(self.token.start)
        if not self.accept("func.func") and not self.accept("func"):
            self.fail("expected `func.func`")
        if self.token.kind == "word":  # public or private
            self.advance()
        name = self.take("symbol")[1:].strip('"')
        body = Block()
        self.expect("(")
        self.listed(")", lambda: self._argument(body))
        types: list[Tensor] = []
        labels: list[str | None] = []
        if self.accept("->"):
            if self.accept("("):
                for type_, held in self.listed(")", self._declared):
                    types.append(type_)
                    labels.append(held)
            else:
                types, labels = [self.type()], [None]
        if self.accept("attributes"):
            self.expect("{")
            self.dictionary("}")
        self.expect("{")
        self._operations(body)
        if self.token.text == "loc":
            self.location()
        functions[name] = Function(name, body, types, labels, line)

    def _declared(self) -> tuple[Tensor, str | None]:
        type_ = self.type()
        held = self.dictionary("}") if self.accept("{") else {}
        return type_, held.get("jax.result_info")

    def _argument(self, block: Block) -> None:
        block.names.append(self.take("value"))
        self.expect(":")
        block.types.append(self.type())
        if self.accept("{"):
            self.dictionary("}")
        block.labels.append(self.location() if self.token.text == "loc" else None)

    # --- regions ---

    def _region(self) -> Block:
        """A region in braces: one block, with or without a label."""
        block = Block()
        self.expect("{")
        if self.token.kind == "label":
            self.advance()
            if self.accept("("):
                self.listed(")", lambda: self._argument(block))
            self.expect(":")
        self._operations(block)
        return block

    def _operations(self, block: Block) -> None:
        self.nested += 1
        check("nesting", self.nested, self.span())
        while not self.accept("}"):
            if self.token.kind == "label":
                self.fail("a region of several blocks is not read")
            block.nodes.append(self._operation())
        self.nested -= 1

    # --- operations ---

    def _operation(self) -> Node:
        self.nodes += 1
        check("ops", self.nodes, self.span())
        line = self.line_of(self.token.start)
        results: list[str] = []
        if self.token.kind == "value":
            name, _, count = self.advance().text.partition(":")
            check("ops", int(count or 0), self.span())
            results = [name] if not count else [f"{name}#{i}" for i in range(int(count))]
            while self.accept(","):  # `%a, %b = ...`
                results.append(self.take("value"))
            self.expect("=")
        node = Node("", line, results=results)
        if self.token.kind == "string":
            self._generic(node)
        else:
            self._pretty(node)
        if self.token.text == "loc":
            node.location = self.location()
        if results and not node.types:
            self.fail("expected the types of the operation")
        if len(results) != len(node.types) and not (node.types and not results):
            raise ParseError(f"`{node.name}` has {len(node.types)} results, not {len(results)}",
                             span=Span(self.file, line),
                             help="name as many results as the op has types")  # fmt: skip
        return node

    def _generic(self, node: Node) -> None:
        node.name = self.advance().text[1:-1]
        self.expect("(")
        node.operands = self.listed(")", lambda: self.take("value"))
        if self.accept("<"):
            self.expect("{")
            node.attributes = self.dictionary("}")
            self.expect(">")
        if self.accept("("):
            node.regions = self.listed(")", self._region)
        if self.accept("{"):
            node.attributes.update(self.dictionary("}"))
        self.expect(":")
        self.expect("(")
        node.given = self.listed(")", self.type)
        self.expect("->")
        node.types = self.result_types()

    def _pretty(self, node: Node) -> None:
        if self.token.kind != "word":
            self.fail("expected an operation")
        name = self.advance().text
        node.name = {"call": "func.call", "return": "func.return"}.get(name, name)
        short = node.name.partition(".")[2]
        form = FORMS.get(short, _FORM)
        inner: list[str] = []  # the names of a loop's state inside, or a reduction's initial values
        self._items(node, short, form, inner)
        if self.accept(":"):
            self._types(node, short)
        if self.accept("attributes"):
            self.expect("{")
            node.attributes.update(self.dictionary("}"))
        if short == "while":
            for keyword in ("cond", "do"):
                self.expect(keyword)
                region = self._region()
                region.names, region.types = list(inner), list(node.types)
                node.regions.append(region)
        elif short == "reduce":
            node.operands += inner
            if self.accept("reducer"):
                self._reducer(node)

    def _items(self, node: Node, short: str, form: Form, inner: list[str]) -> None:
        """The tokens between the name and the types."""
        words = iter(form.words)
        while True:
            kind, text, _ = self.token
            if kind == "value":
                self._operand(node, inner)
            elif text in ("(", ",", ")"):
                self.advance()
            elif text == "{":
                self.advance()
                node.attributes.update(self.dictionary("}"))
            elif text == "[" and short == "slice":
                self._ranges(node)
            elif kind == "symbol" or kind == "string" or text == "dense":
                node.attributes[next(words, text)] = self.value()
                if text == "dense":  # its type is that of the operation
                    node.types = [node.attributes["value"].type]
                    return
            elif kind == "word" and text not in ("cond", "reducer", "loc", "attributes"):
                if not self._keyword(node, form, words):
                    return
            else:
                return

    def _operand(self, node: Node, inner: list[str]) -> None:
        name = self.advance().text
        if self.accept("="):  # the state of a loop: its name inside, and its first value
            inner.append(name)
            node.operands.append(self.take("value"))
            return
        node.operands.append(name)
        if self.accept("init"):
            self.expect(":")
            inner.append(self.take("value"))

    def _keyword(self, node: Node, form: Form, words: Any) -> bool:
        """``name = value``, or a word alone; False where the next operation begins."""
        name = self.token.text
        if _EQUALS.match(self.text, self.next_at):
            self.advance()
            self.advance()
            node.attributes[form.names.get(name, name)] = self._assigned(name)
            return True
        word = "" if name in _FILLERS else next(words, None)
        if word is None:
            return False
        self.advance()
        if word:
            node.attributes[word] = name
        return True

    def _assigned(self, name: str) -> Any:
        if name == "dim_numbers":
            return self.dimension_numbers()
        found = self.value()
        return (found, self.value()) if self.accept("x") else found

    def _ranges(self, node: Node) -> None:
        m = _RANGES.match(self.text, self.token.start)
        if m is None:
            self.fail("expected ranges as in `[0:4, 0:8:2]`", "PK0106")
        self.resume(m.end())
        rows = [[int(n) for n in part.split(":")] for part in re.findall(r"[\d:]+", m[0])]
        node.attributes["start_indices"] = [r[0] for r in rows]
        node.attributes["limit_indices"] = [r[1] for r in rows]
        node.attributes["strides"] = [r[2] if len(r) > 2 else 1 for r in rows]

    def _types(self, node: Node, short: str) -> None:
        """The types after the colon: a function type, a list of operand types, or one for all."""
        if self.token.text == "(":
            node.given = self.types_of()
            if self.accept("->"):
                node.types = self.result_types()
            return
        found = self.types_of()
        if self.accept("->"):
            node.given = found
            node.types = self.result_types()
        elif short in ("return", "optimization_barrier", "while"):
            node.given, node.types = found, [] if short == "return" else found
        elif short == "select":
            node.types = found[-1:]
        else:
            node.types = found * max(len(node.results), 1)

    def _reducer(self, node: Node) -> None:
        """``reducer(%a: t, %b: t) (%c: t, %d: t) { ... }``: a pair of arguments for each operand.

        The generic form lists first all accumulators (``%a``, ``%c``), then all elements.
        """
        pairs = Block()
        while self.accept("("):
            self.listed(")", lambda: self._argument(pairs))
        body = self._region()
        body.names = pairs.names[::2] + pairs.names[1::2]
        body.types = pairs.types[::2] + pairs.types[1::2]
        body.labels = [None] * len(body.names)
        node.regions.append(body)


def read_module(text: str, file: str = "<text>") -> Module:
    """The functions of a StableHLO module. Raises ParseError with the location in the text."""
    reader = ModuleReader(text, file)
    try:
        return reader.read()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ParseError(
            f"malformed text: {error}",
            span=reader.span(),
            help="print the module again, in StableHLO's pretty or generic form",
        ) from error
