"""Which variables are read later, at each branch and loop of a function.

A backward analysis of variables, as in the dragon book (Aho et al., section 9.2.5), over statements
whose jumps are flags (`jumps`): after a jump is what its target reads.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pirkit.frontend.static.jumps import PREFIX, TRIES, jump_of, stops_of
from pirkit.frontend.static.scopes import Names, reads

Live = frozenset[str]
NOTHING: Final[Live] = frozenset()
Targets = Mapping[str, Live]


def annotate(body: Sequence[ast.stmt]) -> None:
    """Note the live variables on each branch (`branch_ends`) and loop (`loop_head`)."""
    _block(body, NOTHING, {"return": NOTHING})


def branch_ends(node: ast.If) -> tuple[Live, Live]:
    """The variables read after each branch; they differ if one branch jumps."""
    return cast(Any, node).pirkit_ends


def loop_head(node: ast.While | ast.For) -> tuple[Live, Live]:
    """The variables read from the start of an iteration on, and those read after the loop."""
    return cast(Any, node).pirkit_head


def _block(body: Sequence[ast.stmt], live: Live, targets: Targets) -> Live:
    for node in reversed(body):
        live = _before(node, live, targets)
    return live


def _internal(live: Live) -> Live:
    """Variables that converted code has added, such as flags."""
    return frozenset(n for n in live if n.startswith(PREFIX))


def _behind(node: ast.stmt, live: Live, targets: Targets) -> Live:
    """The variables read after a flag is set."""
    jump = jump_of(node)
    return live if jump is None else targets[jump] | _internal(live)


def _end(body: Sequence[ast.stmt], live: Live, targets: Targets) -> Live:
    """The variables read after a block: by the next statements, or at the targets of jumps."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _end(last.body, live, targets) | _end(last.orelse, live, targets)
    if isinstance(last, ast.With):
        return _end(last.body, live, targets)
    return live if last is None else _behind(last, live, targets)


def _before(node: ast.stmt, live: Live, targets: Targets) -> Live:
    """The variables read from a statement on, given those read after it."""
    if isinstance(node, ast.If):
        ends = _end(node.body, live, targets), _end(node.orelse, live, targets)
        cast(Any, node).pirkit_ends = ends
        either = _block(node.body, live, targets) | _block(node.orelse, live, targets)
        return _evaluated([node.test], either)
    if isinstance(node, ast.While | ast.For):
        return _loop(node, live, targets)
    if isinstance(node, ast.With):
        names = Names(node.items)
        return _block(node.body, live, targets) - names.bound.keys() | names.read
    if isinstance(node, TRIES):
        after = _block(node.finalbody, live, targets)
        handlers = [_block(h.body, after, targets) for h in node.handlers]
        # An exception may leave the body anywhere: what handlers read is live in all of it.
        caught = after.union(*handlers, reads([h.type for h in node.handlers]))
        return _block(node.body, _block(node.orelse, after, targets) | caught, targets) | caught
    if isinstance(node, ast.Match):
        found = live.union(*[_block(c.body, live, targets) for c in node.cases])
        return found | reads([node.subject, *[c.guard for c in node.cases], *node.cases])
    if isinstance(node, ast.Return | ast.Raise):
        return frozenset(reads([node]))
    names = Names([node])
    return _behind(node, live, targets) - names.bound.keys() | names.read


def _evaluated(expressions: Sequence[ast.expr], live: Live) -> Live:
    names = Names(expressions)
    return live - names.bound.keys() | names.read


def _loop(node: ast.While | ast.For, after: Live, targets: Targets) -> Live:
    head = after | frozenset(stops_of(node))
    # Up to the fixed point: what one iteration reads is read after the one before it.
    while True:
        inside = {**targets, "break": after, "continue": head}
        body = _block(node.body, head, inside)
        if isinstance(node, ast.For):
            found = head | (body - Names([node.target]).bound.keys())
        else:
            found = head | _evaluated([node.test], body)
        if found == head:
            break
        head = found
    cast(Any, node).pirkit_head = (head, after)
    return head | (reads([node.iter]) if isinstance(node, ast.For) else NOTHING)
