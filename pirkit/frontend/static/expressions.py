"""Expressions as calls whose operands are lambdas, so that a tensor may decide which ones run."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from pirkit.frontend.static.jumps import PREFIX, at

HELPERS: Final = f"{PREFIX}helpers"
_TEST: Final = "pirkit_test"
"""The attribute of a syntax node of which only the truth counts."""

_HARMLESS: Final = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Compare, ast.UnaryOp, ast.BoolOp),
    *(ast.Add, ast.Sub, ast.Mult, ast.BinOp, ast.expr_context, ast.unaryop, ast.boolop),
    *(ast.cmpop,),
)
"""Expressions that cannot fail when they run, so that a program may always compute them."""


def call(name: str, arguments: Sequence[ast.expr], where: ast.AST) -> ast.Call:
    """``helpers.name(*arguments)``."""
    function = ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load())
    return at(ast.Call(function, list(arguments), []), where)


def thunk(value: ast.expr) -> ast.Lambda:
    """``lambda: value``."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return at(ast.Lambda(nothing, value), value)


class Expressions(ast.NodeTransformer):
    """`and`, `or`, `not`, comparisons, conditional expressions and calls."""

    def __init__(self) -> None:
        self.first: str | None = None
        """The first parameter, which `super()` means."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        harmless = [all(isinstance(n, _HARMLESS) for n in ast.walk(v)) for v in node.values]
        values: list[ast.expr] = [self.visit(v) for v in node.values]
        if _binds(*node.values[1:]):
            return at(ast.BoolOp(node.op, [_plain(v, "`:=`", node) for v in values]), node)
        name = "both" if isinstance(node.op, ast.And) else "either"
        is_test, made = ast.Constant(hasattr(node, _TEST)), values[0]
        for value, safe in zip(values[1:], harmless[1:], strict=True):
            made = call(name, [made, thunk(value), ast.Constant(safe), is_test], node)
        return made

    def test(self, node: ast.expr) -> ast.expr:
        """Convert an expression of which only the truth counts."""
        _mark(node)
        return self.visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return call("negated", [self.test(node.operand)], node)
        node.operand = self.visit(node.operand)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, other = self.test(node.test), self.visit(node.body), self.visit(node.orelse)
        if _binds(node.body, node.orelse):
            return at(ast.IfExp(_plain(test, "`:=`", node), body, other), node)
        return call("choice", [test, thunk(body), thunk(other)], node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left, rest = self.visit(node.left), [self.visit(c) for c in node.comparators]
        named = [type(o).__name__ for o in node.ops]
        if (len(rest) == 1 and named[0] not in ("In", "NotIn")) or _binds(*node.comparators):
            return at(ast.Compare(left, node.ops, rest), node)
        names = ast.Tuple([ast.Constant(n) for n in named], ast.Load())
        return call("compared", [left, names, *[thunk(r) for r in rest]], node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [_plain(test, "a comprehension", test) for test in node.ifs]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super"
        # A block that has become a function is not the method in which `super()` finds these.
        if is_super and not node.args and self.first is not None:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
            return at(node, node.func)
        self.generic_visit(node)
        if is_super:
            return node
        node.func = call("callee", [node.func], node.func)
        return node


def _mark(node: ast.expr) -> None:
    """Mark an `and` or `or` that stands as a condition, and those in its operands."""
    if isinstance(node, ast.BoolOp):
        setattr(node, _TEST, True)
        for each in node.values:
            _mark(each)


def _binds(*nodes: ast.AST) -> bool:
    """Whether expressions have `:=`, `yield` or `await`, which mean another thing in a lambda."""
    binding = (ast.NamedExpr, ast.Yield, ast.Await)
    return any(isinstance(n, binding) for node in nodes for n in ast.walk(node))


def _plain(test: ast.expr, place: str, where: ast.AST) -> ast.expr:
    """A condition that Python evaluates, because of where it stands."""
    return call("plain", [test, at(ast.Constant(place), where)], where)
