"""Which names statements bind, read and write in place, in the scope of one function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final

MUTATORS: Final = frozenset(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update"
    .split()
)  # fmt: skip
"""Methods that write Python's containers; only calls whose results are dropped are considered."""

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Names(ast.NodeVisitor):
    """Names of statements; those inside of functions, classes and comprehensions stay there.

    ``bound`` and ``mutated`` give the line of the first place, ``captured`` what functions read
    from around them, ``remote`` what they bind there by ``nonlocal``.
    """

    def __init__(self, nodes: Iterable[ast.AST] = ()) -> None:
        self.bound: dict[str, int] = {}
        self.read: set[str] = set()
        self.mutated: dict[str, int] = {}
        self.captured: set[str] = set()
        self.remote: set[str] = set()
        self.outer: dict[str, type[ast.stmt]] = {}
        """Names that are declared as `global` or `nonlocal`."""
        for node in nodes:
            self.visit(node)

    def _bind(self, name: str, line: int) -> None:
        self.bound.setdefault(name, line)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)
        else:
            self._bind(node.id, node.lineno)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.read.add(node.target.id)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        root = None if has_attribute(node) else root_of(node)
        if not isinstance(node.ctx, ast.Load) and root is not None:
            self.mutated.setdefault(root, node.lineno)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        root = mutated_by_call(node)
        if root is not None and not has_attribute(mutated_of(node)):
            self.mutated.setdefault(root, node.lineno)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        self._bind((node.asname or node.name).partition(".")[0], node.lineno)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self._bind(node.name, node.lineno)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self._bind(node.name, node.lineno)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name, node.lineno)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self._bind(node.rest, node.lineno)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.outer |= dict.fromkeys(node.names, ast.Global)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.outer |= dict.fromkeys(node.names, ast.Nonlocal)

    # --- scopes inside ---

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        for each in (*arguments.defaults, *[d for d in arguments.kw_defaults if d is not None]):
            self.visit(each)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        inner = Names(body)
        own = (inner.bound.keys() | parameters(arguments)) - inner.outer.keys()
        free = (inner.read | inner.captured | inner.mutated.keys()) - own
        writes = {n for n, kind in inner.outer.items() if kind is ast.Nonlocal} | inner.remote
        self.read |= free
        self.captured |= free | writes
        self.remote |= writes - own

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bind(node.name, node.lineno)
        self._function(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(each)
        self._bind(node.name, node.lineno)
        inner = Names(node.body)
        self.read |= inner.read
        self.captured |= inner.captured

    def _comprehension(self, node: ast.AST) -> None:
        inner = Names(ast.iter_child_nodes(node))
        walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        self.read |= inner.read - (inner.bound.keys() - walrus)
        self.captured |= inner.captured - inner.bound.keys()
        for name in walrus:
            self._bind(name, inner.bound.get(name, 0))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def parameters(arguments: ast.arguments) -> set[str]:
    """The names of all parameters."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {a.arg for a in [*every, *[a for a in (arguments.vararg, arguments.kwarg) if a]]}


def root_of(node: ast.AST) -> str | None:
    """The variable that ``v``, ``v.a`` or ``v[i].b`` begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def has_attribute(node: ast.AST | None) -> bool:
    """Whether a target is an attribute or an element of one, whose container no variable holds."""
    while isinstance(node, ast.Subscript | ast.Starred):
        node = node.value
    return isinstance(node, ast.Attribute)


def mutated_of(node: ast.stmt) -> ast.expr | None:
    """The container that ``v.append(x)`` and the like write; None for other statements."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    called = node.value.func
    return called.value if isinstance(called, ast.Attribute) and called.attr in MUTATORS else None


def mutated_by_call(node: ast.stmt) -> str | None:
    """The variable whose container a statement writes by a method; None for others."""
    container = mutated_of(node)
    return None if container is None else root_of(container)


def reads(nodes: Sequence[ast.AST | None]) -> set[str]:
    """Names that expressions or statements read."""
    return Names([n for n in nodes if n is not None]).read


def is_generator(node: ast.AST) -> bool:
    """Whether a function has a `yield` or `await` of its own."""
    stack = list(ast.iter_child_nodes(node))
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom | ast.Await):
            return True
        if not isinstance(each, FUNCTIONS):
            stack += ast.iter_child_nodes(each)
    return False
