"""Statements and expressions of a function as calls of helpers, which decide while it is traced.

::

    if test: A            def then(): nonlocal x; A
    else: B        ->     def orelse(): nonlocal x; B
                          helpers.branch(site, test, then, orelse, lambda: (x,))

Every node keeps the place of what it comes from, so operations, errors and tracebacks name the
user's line. ``helpers`` is a variable that the code closes over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from pirkit.diag.errors import TraceError
from pirkit.diag.span import Span
from pirkit.frontend.static.expressions import Expressions, call, thunk
from pirkit.frontend.static.jumps import (
    JUMPS,
    PREFIX,
    TRIES,
    Lowering,
    assigned,
    at,
    not_any,
    own_statements,
    refused_in,
    stops_of,
)
from pirkit.frontend.static.liveness import annotate, branch_ends, loop_head
from pirkit.frontend.static.scopes import (
    Names,
    has_attribute,
    is_generator,
    mutated_by_call,
    parameters,
    root_of,
)
from pirkit.frontend.static.sites import Site

DEPTH: Final = f"{PREFIX}depth"


def _tuple(names: Iterable[str]) -> ast.expr:
    return ast.Tuple([ast.Name(n, ast.Load()) for n in names], ast.Load())


class Statements(Expressions):
    """The body of one function; functions inside it have their own."""

    def __init__(self, file: str, sites: list[Site]) -> None:
        super().__init__()
        self.file = file
        self.sites = sites
        self.names = Names()
        self.parameters: set[str] = set()
        self.blocks: list[set[str]] = []
        """The names that each block around binds; a tensor may decide whether a block runs."""
        self.has_effects = False

    # --- functions ---

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function with its control flow converted."""
        listed = [*node.args.posonlyargs, *node.args.args]
        self.first = listed[0].arg if listed else None
        self.parameters = parameters(node.args)
        self.names = Names(node.body)
        self._check_finally(node.body)
        body = Lowering().function(_without_declarations(node.body))
        annotate(body)
        lowered = Names(body)
        body = self._block(body)
        declared: list[ast.stmt] = []
        for kind in (ast.Global, ast.Nonlocal):
            names = sorted(n for n, k in self.names.outer.items() if k is kind)
            declared += [kind(names)] if names else []
        own = sorted(lowered.bound.keys() - self.names.outer.keys() - self.parameters)
        if own:  # bound in blocks that become functions: their scope is this one
            targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in own]
            never = ast.If(ast.Constant(0), [ast.Assign(targets, ast.Constant(None))], [])
            declared.append(never)
        if self.has_effects:
            declared.append(assigned(DEPTH, call("depth", (), node), node))
        node.body = [at(d, node.body[0] if node.body else node) for d in declared] + body
        return node

    def _check_finally(self, body: Sequence[ast.stmt]) -> None:
        for node in own_statements(body):
            final = own_statements(node.finalbody) if isinstance(node, TRIES) else []
            jump = next((n for n in final if isinstance(n, JUMPS)), None)
            if jump is not None:
                raise TraceError(
                    "a jump out of `finally` cannot be converted", code="PK0709",
                    span=Span(self.file, jump.lineno), help="move it after the `try`",
                )  # fmt: skip

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self._defaults(node.args)
        if is_generator(node):
            return node
        return Statements(self.file, self.sites).function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        if not is_generator(node):
            node.body = self.visit(node.body)
        return node

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and self.visit(d) for d in arguments.kw_defaults]

    # --- blocks ---

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in body:
            found: Any = self.visit(node)
            made += found if isinstance(found, list) else [found]
        return made

    def _inner(
        self, name: str, body: Sequence[ast.stmt], bound: set[str], where: ast.AST, *arguments: str
    ) -> ast.FunctionDef:
        """A block as a function that binds variables of the function around."""
        self.blocks.append(bound)
        inside = self._block(body) or [ast.Pass()]
        self.blocks.pop()
        outer = self.names.outer
        of_module = sorted(n for n in bound if outer.get(n) is ast.Global)
        shared = sorted(n for n in bound if outer.get(n) is not ast.Global)
        head: list[ast.stmt] = [ast.Global(of_module)] if of_module else []
        head += [ast.Nonlocal(shared)] if shared else []
        listed = ast.arguments([], [ast.arg(a) for a in arguments], None, [], [], None, [])
        return at(ast.FunctionDef(name, listed, [*head, *inside], []), where)

    def _site(
        self,
        node: ast.If | ast.While | ast.For,
        blocks: tuple[Names, Names],
        needed: tuple[frozenset[str], frozenset[str]],
        after: frozenset[str] = frozenset(),
    ) -> tuple[ast.Constant, tuple[str, ...]]:
        """Note a branch or loop for the call that replaces it.

        Returns its number, by which the call finds what is noted, and the names of the variables
        that its blocks may set: those of the function, and of the flags of `jumps`.
        """
        mutated = {**blocks[1].mutated, **blocks[0].mutated}
        local = self.names.bound.keys() | self.parameters | self.names.outer.keys()
        written = {**blocks[0].bound, **blocks[1].bound, **mutated}
        remote = self.names.remote & local
        names = sorted(
            n
            for n in {*written, *remote}
            if (n in local or n.startswith(PREFIX)) and self.names.outer.get(n) is not ast.Global
        )
        kinds = {ast.If: "`if`", ast.While: "`while`", ast.For: "`for`"}
        site = Site(
            self.file,
            node.lineno,
            kinds[type(node)],
            tuple(names),
            (blocks[0].bound, blocks[1].bound),
            needed,
            after,
            frozenset(self.names.captured),
            {n: line for n, line in mutated.items() if n in names},
            refused_in(node),
        )
        self.sites.append(site)
        return ast.Constant(len(self.sites) - 1), site.names

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        blocks = Names(node.body), Names(node.orelse)
        number, names = self._site(node, blocks, branch_ends(node))
        test = self.test(node.test)
        labels = [f"{PREFIX}{kind}_{number.value}" for kind in ("then", "else")]
        parts = [
            self._inner(label, body, set(found.bound), node)
            for label, body, found in zip(labels, (node.body, node.orelse), blocks, strict=True)
        ]
        functions = [ast.Name(label, ast.Load()) for label in labels]
        made = call("branch", [number, test, *functions, thunk(at(_tuple(names), node))], node)
        return [*parts, at(ast.Expr(made), node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        bound = Names([*node.body, node.test])
        head, after = loop_head(node)
        number, names = self._site(node, (bound, Names()), (head, head), after)
        if stops_of(node):
            go = not_any(stops_of(node), node)
            node.test = at(ast.BoolOp(ast.And(), [go, node.test]), node)
        label = f"{PREFIX}body_{number.value}"
        test = self._inner(
            f"{PREFIX}test_{number.value}",
            [at(ast.Return(node.test), node)],
            set(Names([node.test]).bound),
            node,
        )
        body = self._inner(label, node.body, set(Names(node.body).bound), node)
        functions: list[ast.expr] = [ast.Name(f.name, ast.Load()) for f in (test, body)]
        made = call("loop", [number, *functions, thunk(at(_tuple(names), node))], node)
        return [test, body, at(ast.Expr(made), node)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        item = f"{PREFIX}item"
        first = at(ast.Assign([node.target], ast.Name(item, ast.Load())), node)
        bound = Names([node.target, *node.body])
        head, after = loop_head(node)
        number, names = self._site(node, (bound, Names()), (head, head), after)
        rows = self.visit(node.iter)
        stops = stops_of(node)
        go = thunk(self.visit(not_any(stops, node))) if stops else ast.Constant(None)
        body = self._inner(
            f"{PREFIX}body_{number.value}", [first, *node.body], set(bound.bound), node, item
        )
        function = ast.Name(body.name, ast.Load())
        made = call("iterate", [number, rows, function, go, thunk(at(_tuple(names), node))], node)
        return [body, at(ast.Expr(made), node)]

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        if any(_compares(case.pattern) for case in node.cases):
            node.subject = call("untraced", [node.subject], node)
        for case in node.cases:
            case.guard = case.guard and call("untraced", [case.guard], case.guard)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = node.msg or ast.Constant(None)
        parts = [thunk(self.test(node.test)), thunk(at(self.visit(message), node))]
        return at(ast.Expr(call("check", parts, node)), node)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        self.generic_visit(node)
        return [self._effect(node, "`raise`", "inside"), node]

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.stmt:
        node.body = self._block(node.body)
        for handler in node.handlers:
            handler.body = self._block(handler.body)
        node.orelse, node.finalbody = self._block(node.orelse), self._block(node.finalbody)
        return node

    visit_TryStar = visit_Try

    # --- what is written in place ---

    def _effect(self, node: ast.AST, what: str, where: str) -> ast.stmt:
        """A check that no tensor decides whether a statement runs (see `decided.effect`)."""
        self.has_effects = True
        depth = ast.Name(DEPTH, ast.Load())
        parts: list[ast.expr] = [ast.Constant(what), depth, ast.Constant(where)]
        return at(ast.Expr(call("effect", parts, node)), node)

    def _checked(self, node: ast.stmt, targets: Sequence[ast.AST]) -> list[ast.stmt]:
        self.generic_visit(node)
        checks: list[ast.stmt] = []
        for target in targets:
            for each in _flat(target):
                found = self._check(node, each)
                checks += [found] if found is not None else []
        return [*checks, node]

    def _check(self, node: ast.stmt, target: ast.AST) -> ast.stmt | None:
        """The check of a write that others may see; None for a variable of the function."""
        root = root_of(target)
        if root is None:
            return None
        shown = f"assignment to `{ast.unparse(target)}`"
        if isinstance(target, ast.Name):
            is_outer = self.names.outer.get(root) is ast.Global
            return self._effect(node, f"{shown}, a global,", "anywhere") if is_outer else None
        if self._is_new(root):
            return None
        is_local = root in self.names.bound or root in self.parameters
        if has_attribute(target) or not is_local:
            return self._effect(node, shown, "anywhere")
        return self._effect(node, shown, "call") if root in self.parameters else None

    def _is_new(self, root: str) -> bool:
        """Whether a variable is made where it is written, in the same block."""
        bound = self.blocks[-1] if self.blocks else self.names.bound
        return root in bound and root not in self.parameters

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        return self._checked(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        return self._checked(node, [node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            return [at(ast.Pass(), node)]
        plain = isinstance(node.target, ast.Name)
        if plain:  # an annotated name may not be nonlocal
            return self._checked(at(ast.Assign([node.target], node.value), node), [node.target])
        return self._checked(node, [node.target])

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        return self._checked(node, [t for t in node.targets if not isinstance(t, ast.Name)])

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        root = mutated_by_call(node)
        if root is None or self._is_new(root):
            self.generic_visit(node)
            return [node]
        function = cast(ast.Attribute, cast(ast.Call, node.value).func)
        what = f"`{ast.unparse(function)}()`"
        is_local = root in self.names.bound or root in self.parameters
        deep = has_attribute(function.value)
        self.generic_visit(node)
        if deep or not is_local:
            return [self._effect(node, what, "anywhere"), node]
        return [self._effect(node, what, "call"), node] if root in self.parameters else [node]


def _compares(pattern: ast.pattern) -> bool:
    """Whether a pattern compares the subject itself with a value."""
    if isinstance(pattern, ast.MatchOr):
        return any(map(_compares, pattern.patterns))
    inner = pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern
    return isinstance(inner, ast.MatchValue)


def _flat(target: ast.AST) -> list[ast.AST]:
    if isinstance(target, ast.Tuple | ast.List):
        return [found for each in target.elts for found in _flat(each)]
    return [target]


def _without_declarations(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements without `global` and `nonlocal`, which move to the start of the function."""
    made: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.Global | ast.Nonlocal):
            made.append(at(ast.Pass(), node))
            continue
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                inner = cast("list[ast.stmt] | None", getattr(node, name, None))
                if inner:
                    setattr(node, name, _without_declarations(inner))
            if isinstance(node, TRIES):
                for handler in node.handlers:
                    handler.body = _without_declarations(handler.body)
            if isinstance(node, ast.Match):
                for case in node.cases:
                    case.body = _without_declarations(case.body)
        made.append(node)
    return made
