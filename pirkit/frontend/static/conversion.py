"""Converts the control flow of a function.

The source of the function is found in its file, rewritten by `statements`, and compiled to code
that has the same globals, closure and lines. The code is cached, so that a function that is defined
again, such as a closure in a loop, is converted once.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from threading import RLock
from types import CellType, CodeType, FunctionType
from typing import Any, Final, cast

from msgspec import Struct

from pirkit.diag.errors import TraceError
from pirkit.diag.forks import renewed
from pirkit.diag.span import Span
from pirkit.frontend.static.expressions import HELPERS
from pirkit.frontend.static.jumps import PREFIX, at
from pirkit.frontend.static.sites import Site
from pirkit.frontend.static.statements import Statements

Make = Callable[[list[Site]], Any]
"""Makes what converted code calls, given the branches and loops of the code."""

_LOCK: Final = renewed(RLock())
_TREES: Final[dict[str, tuple[tuple[str, ...], ast.Module]]] = {}
"""By file: its lines, which tell whether it has changed, and their syntax tree."""
_TEMPLATES: Final[dict[tuple[str, CodeType], Template | TraceError]] = {}
"""By file and code: equal functions of two files are equal code."""
_CONVERTED: Final[set[CodeType]] = set()
"""The code that conversions have made."""


class Template(Struct, frozen=True):
    """Converted code, and its branches and loops."""

    code: CodeType
    sites: list[Site]


def is_converted(function: FunctionType) -> bool:
    """Whether a function is what a conversion made."""
    return function.__code__ in _CONVERTED


def converted(function: FunctionType, make: Make) -> FunctionType:
    """A function that does the same, but whose branches and loops tensors may decide.

    It shares globals, closure and defaults with the function. Raises TraceError (PK0709) for a
    function without source, and for what cannot be converted, with the line and the remedy.
    """
    if is_converted(function):
        return function
    with _LOCK:
        key = (function.__code__.co_filename, function.__code__)
        found = _TEMPLATES.get(key)
        if found is None:
            try:
                found = _template(function)
            except TraceError as error:
                found = error
            _TEMPLATES[key] = found
    if isinstance(found, TraceError):
        raise found.with_traceback(None)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HELPERS] = CellType(make(found.sites))
    made = FunctionType(
        found.code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple([cells[n] for n in found.code.co_freevars]),
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__doc__ = function.__doc__
    made.__dict__.update(function.__dict__)
    cast(Any, made).__wrapped__ = function
    return made


def refusal(function: FunctionType, problem: str, help: str) -> TraceError:
    """The error (PK0709) for a function that cannot be converted."""
    code = function.__code__
    span = Span(code.co_filename, code.co_firstlineno)
    return TraceError(problem, code="PK0709", span=span, help=help)


def _template(function: FunctionType) -> Template:
    """The converted code of a function, made anew. Raises TraceError (PK0709)."""
    code, name = function.__code__, function.__qualname__
    kinds = {
        inspect.CO_GENERATOR: "a generator",
        inspect.CO_COROUTINE: "a coroutine",
        inspect.CO_ASYNC_GENERATOR: "an asynchronous generator",
    }
    kind = next((text for flag, text in kinds.items() if code.co_flags & flag), None)
    if kind is not None:
        raise refusal(
            function,
            f"`{name}` is {kind}, which cannot be converted",
            "return a list or a tuple, and convert the function that uses it",
        )
    node = _node_of(function)
    if node is None:
        raise refusal(
            function,
            f"the source of `{name}` is not to be found",
            "define it in a file, not by `exec` or at a prompt; or use `pirkit.cond` and"
            " `pirkit.while_loop`",
        )
    if isinstance(node, ast.Lambda):
        returned = at(ast.Return(node.body), node.body)
        node = at(ast.FunctionDef("_lambda", node.args, [returned], []), node)
    sites: list[Site] = []
    node = _Mangled(_class_of(function)).visit(node)
    node.decorator_list, node.returns = [], None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    # The made function gets the defaults of the function; these keep parameters optional.
    node.args.defaults = [at(ast.Constant(None), node) for _ in node.args.defaults]
    node.args.kw_defaults = [d and at(ast.Constant(None), node) for d in node.args.kw_defaults]
    node = Statements(code.co_filename, sites).function(node)
    node.name = f"{PREFIX}converted"  # not its own, which may be a variable of a function around
    made = _compiled(node, (*code.co_freevars, HELPERS), code.co_filename)
    made = made.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    _CONVERTED.update(_all_codes(made))
    return Template(made, sites)


def _compiled(node: ast.FunctionDef, free: tuple[str, ...], file: str) -> CodeType:
    """The code of a function whose ``free`` names are variables of a function around it."""
    listed = ast.arguments([], [ast.arg(n) for n in free], None, [], [], None, [])
    around = at(ast.FunctionDef("around", listed, [node], []), node)
    module = ast.Module([around], [])
    code = compile(ast.fix_missing_locations(module), file, "exec", dont_inherit=True)
    return _inside(_inside(code))


def _inside(code: CodeType) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType))


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


# --- finding the source --------------------------------------------------------------------------


def _parsed(file: str) -> ast.Module | None:
    linecache.checkcache(file)
    lines = tuple(linecache.getlines(file))
    known = _TREES.get(file)
    if known is None or known[0] != lines:
        try:
            known = lines, ast.parse("".join(lines), file)
        except SyntaxError:
            return None
        _TREES[file] = known
    return known[1]


def _node_of(function: FunctionType) -> Any:
    """A copy of the definition of a function in its file; None if it is not there."""
    code = function.__code__
    tree = _parsed(code.co_filename)
    if tree is None:
        return None
    if code.co_name == "<lambda>":
        return _lambda_of(code, tree)
    for node in ast.walk(tree):
        is_named = isinstance(node, ast.FunctionDef) and node.name == code.co_name
        if is_named and _first_line(cast(ast.FunctionDef, node)) == code.co_firstlineno:
            return _copied(node)
    return None


def _lambda_of(code: CodeType, tree: ast.Module) -> Any:
    """A copy of the smallest lambda whose body holds all instructions."""
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    places = cast("list[tuple[int, int, int, int]]", places)
    first = min([(line, column) for line, _, column, _ in places], default=(0, 0))
    last = max([(line, column) for _, line, _, column in places], default=(0, 0))
    best: tuple[tuple[int, int], ast.Lambda] | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        body = node.body
        start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
        is_inside = places and start <= first and last <= cast("tuple[int, int]", end)
        if is_inside and (best is None or start >= best[0]):
            best = start, node
    return best and _copied(best[1])


def _copied(node: Any) -> Any:
    if isinstance(node, ast.AST):
        fields = {name: _copied(value) for name, value in ast.iter_fields(node)}
        return ast.copy_location(type(node)(**fields), node)
    return [_copied(each) for each in cast("list[Any]", node)] if isinstance(node, list) else node


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *[d.lineno for d in node.decorator_list]])


def _class_of(function: FunctionType) -> str | None:
    """The class in which a function is defined, for its private names; None for others."""
    parts = function.__qualname__.split(".")
    return parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None


class _Mangled(ast.NodeTransformer):
    """Private names (``self.__w``) as Python spells them inside a class."""

    def __init__(self, owner: str | None) -> None:
        self.owner = (owner or "").lstrip("_")

    def _mangled(self, name: str) -> str:
        is_private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{self.owner}{name}" if is_private and self.owner else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._mangled(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = self._mangled(node.attr)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._mangled(node.arg)
        return node
