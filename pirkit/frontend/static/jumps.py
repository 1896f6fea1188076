"""`return`, `break` and `continue` as flags, after which nothing else of a block runs.

What follows an `if` that jumps moves into its other branch, where it can; else it is guarded by
``if not flag``. A loop ends when its flag is set. The flags begin as false; the value that a
function returns has no initial value.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

from msgspec import Struct, field

PREFIX: Final = "_pirkit_"
"""The beginning of all names that converted code adds."""
VALUE: Final = f"{PREFIX}value"
RETURNED: Final = f"{PREFIX}returned"

TRIES: Final = (ast.Try, ast.TryStar)
JUMPS: Final = (ast.Return, ast.Break, ast.Continue)
N = TypeVar("N", bound=ast.AST)


def at(node: N, where: ast.AST) -> N:
    """A node; it and all nodes below it that have no place get the first line of another one."""
    for each in ast.walk(node):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            made: Any = ast.copy_location(each, where)
            if made.end_lineno != made.lineno:  # Python counts a call to the last line of its name
                made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return node


def assigned(name: str, value: ast.expr, where: ast.AST) -> ast.Assign:
    """``name = value``."""
    return at(ast.Assign([ast.Name(name, ast.Store())], value), where)


def jump_of(node: ast.AST) -> str | None:
    """Which jump an assignment of a flag stands for: `return`, `break` or `continue`."""
    return getattr(node, "pirkit_jump", None)


def stops_of(node: ast.AST) -> list[str]:
    """The flags that end a loop."""
    return getattr(node, "pirkit_stops", [])


def refused_in(node: ast.AST) -> str | None:
    """Why a branch or loop cannot depend on a tensor where it stands."""
    return getattr(node, "pirkit_refused", None)


def not_any(flags: Sequence[str], where: ast.AST) -> ast.expr:
    """``not (flag or flag)``."""
    read: list[ast.expr] = [ast.Name(f, ast.Load()) for f in flags]
    either = read[0] if len(read) == 1 else ast.BoolOp(ast.Or(), read)
    return at(ast.UnaryOp(ast.Not(), either), where)


def jumps(block: Sequence[ast.stmt]) -> bool:
    """Whether no path reaches the end of a block."""
    return any(_jumps(s) for s in block)


def _jumps(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return jumps(node.body) and jumps(node.orelse)
    if isinstance(node, ast.With):
        return jumps(node.body)
    return isinstance(node, (*JUMPS, ast.Raise)) or jump_of(node) is not None


class Lowering(Struct):
    """The jumps of one function."""

    flags: list[str] = field(default_factory=list[str])
    """All flags that are in use."""
    loops: list[int] = field(default_factory=list[int])
    """The numbers of the loops around the present statement."""
    count: int = 0
    """How many loops there were so far."""

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a function with one `return` at its end."""
        returns = [s for s in own_statements(body) if isinstance(s, ast.Return)]
        if not returns or (len(returns) == 1 and body[-1] is returns[0]):
            return self._block(body[:-1]) + body[-1:] if returns else self._block(body)
        last = body[-1]
        if not jumps(body):
            body = [*body, at(ast.Return(ast.Constant(None)), last)]
        made = self._block(body)
        start = [assigned(RETURNED, ast.Constant(False), body[0])] if RETURNED in self.flags else []
        return [*start, *made, at(ast.Return(ast.Name(VALUE, ast.Load())), last)]

    def _flag(self, kind: str, at_loop: int | None = None) -> str:
        name = RETURNED if kind == "return" else f"{PREFIX}{kind}_{at_loop}"
        if name not in self.flags:
            self.flags.append(name)
        return name

    def _possible(self, node: ast.stmt) -> list[str]:
        """The flags that a statement may set and that leave the block it stands in."""
        found: dict[str, None] = {}
        for each in own_statements([node]):
            if isinstance(each, ast.Return):
                found[self._flag("return")] = None
        for each in own_statements([node], into_loops=False):
            if isinstance(each, ast.Break | ast.Continue):
                kind = "break" if isinstance(each, ast.Break) else "continue"
                found[self._flag(kind, self.loops[-1])] = None
        return list(found)

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for i, node in enumerate(body):
            if isinstance(node, JUMPS):
                return made + self._jump(node)
            flags = self._possible(node)
            rest = list(body[i + 1 :])
            if isinstance(node, ast.If) and flags and (jumps(node.body) or jumps(node.orelse)):
                # The code that follows runs only after the other branch: it moves there.
                if jumps(node.body):
                    node.orelse = [*node.orelse, *rest]
                else:
                    node.body = [*node.body, *rest]
                made.append(self._inside(node))
                return made
            made += self._after(self._inside(node), node)
            if flags and rest:
                test = not_any(flags, node)
                following = self._block(rest)
                made.append(at(ast.If(test, following, []), node))
                return made
        return made

    def _jump(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.Return):
            value = node.value or ast.Constant(None)
            made: list[ast.stmt] = [assigned(VALUE, value, node)]
            made.append(assigned(self._flag("return"), ast.Constant(True), node))
            cast(Any, made[-1]).pirkit_jump = "return"
            return made
        kind = "break" if isinstance(node, ast.Break) else "continue"
        flag = assigned(self._flag(kind, self.loops[-1]), ast.Constant(True), node)
        cast(Any, flag).pirkit_jump = kind
        return [flag]

    def _inside(self, node: ast.stmt) -> ast.stmt:
        if isinstance(node, ast.While | ast.For):
            return self._loop(node)
        if isinstance(node, ast.If):
            node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        elif isinstance(node, ast.With):
            node.body = self._block(node.body)
        elif isinstance(node, TRIES):
            self._try(node)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                case.body = self._block(case.body)
        return node

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        # A jump in the body of a `try` skips its `else`.
        left = [f for s in node.body for f in self._possible(s)]
        for each in own_statements([node]):
            if isinstance(each, ast.If | ast.While | ast.For):
                cast(Any, each).pirkit_refused = "it stands inside a `try`"
        node.body = self._block(node.body)
        for handler in node.handlers:
            handler.body = self._block(handler.body)
        node.orelse = self._block(node.orelse)
        if left and node.orelse:
            node.orelse = [at(ast.If(not_any(left, node), node.orelse, []), node)]
        node.finalbody = self._block(node.finalbody)

    def _loop(self, node: ast.While | ast.For) -> ast.stmt:
        if isinstance(node, ast.While) and _binds(node.test):
            _test_inside(node)
        self.count += 1
        continued = f"{PREFIX}continue_{self.count}"
        self.loops.append(self.count)
        inside = [f for s in node.body for f in self._possible(s)]
        node.body = self._block(node.body)
        self.loops.pop()
        if continued in inside:
            node.body.insert(0, assigned(continued, ast.Constant(False), node))
        stops = list(dict.fromkeys(f for f in inside if f != continued))
        cast(Any, node).pirkit_stops = stops
        return node

    def _after(self, node: ast.stmt, original: ast.stmt) -> list[ast.stmt]:
        """A statement with what goes before and after it: flags of a loop, and its `else`."""
        if not isinstance(node, ast.While | ast.For):
            return [node]
        broken = [f for f in stops_of(node) if f != RETURNED]
        before: list[ast.stmt] = [assigned(f, ast.Constant(False), node) for f in broken]
        otherwise, node.orelse = self._block(node.orelse), []
        if not otherwise:
            return [*before, node]
        if not stops_of(node):
            return [*before, node, *otherwise]
        return [*before, node, at(ast.If(not_any(stops_of(node), node), otherwise, []), node)]


def _binds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


def _test_inside(node: ast.While) -> None:
    """``while (x := f()): A`` as ``while True: if not (x := f()): break; A``.

    So the variable is one of the body, with the value that ended the loop after it.
    """
    own = own_statements(node.orelse, into_loops=False)
    if any(isinstance(n, ast.Break | ast.Continue) for n in own):
        cast(Any, node).pirkit_refused = "it has `:=`, and its `else` jumps in a loop around it"
        return
    end = at(ast.If(ast.UnaryOp(ast.Not(), node.test), [*node.orelse, ast.Break()], []), node.test)
    node.test, node.body, node.orelse = at(ast.Constant(True), node), [end, *node.body], []


def own_statements(body: Sequence[ast.stmt], into_loops: bool = True) -> list[ast.stmt]:
    """Statements of a function, without those of functions and classes inside it.

    Without ``into_loops``, bodies of loops are left out as well: their `break` is their own.
    """
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.While | ast.For | ast.AsyncFor) and not into_loops:
            found += own_statements(node.orelse, into_loops)
            continue
        for name in ("body", "orelse", "finalbody"):
            found += own_statements(cast("list[ast.stmt]", getattr(node, name, [])), into_loops)
        if isinstance(node, TRIES):
            found += [s for h in node.handlers for s in own_statements(h.body, into_loops)]
        if isinstance(node, ast.Match):
            found += [s for c in node.cases for s in own_statements(c.body, into_loops)]
    return found
