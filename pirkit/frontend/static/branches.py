"""An `if` of converted code: Python's, or a `pd_op.if` where a tensor decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from msgspec import Struct

from pirkit.dialect.build import Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.frontend import tree
from pirkit.frontend.bodies import Body
from pirkit.frontend.control_flow import truth, typed, wider
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.static.decided import Deciding
from pirkit.frontend.static.jumps import PREFIX
from pirkit.frontend.static.sites import Site
from pirkit.frontend.static.variables import UNSET, State, Variables, is_tensor, private
from pirkit.frontend.tracing import Recorder
from pirkit.runtime.meta import UNKNOWN

Block = Callable[[], Any]
WORDS = ("holds", "does not hold")


def branch(site: Site, test: Any, then: Block, otherwise: Block, tell: Callable[[], Any]) -> None:
    """``if test: then() else: otherwise()``; ``tell`` closes over the variables (`Variables`).

    Where a tensor decides, raises TraceError (PK0708) if the variables that are read afterwards
    differ in kind, structure, shape or element type, and (PK0709) if no tensor may decide there.
    """
    if isinstance(test, Value):
        _recorded(site, test, (then, otherwise), Variables(site, tell))
    elif test:
        then()
    else:
        otherwise()


class _Merge(Struct):
    """The bodies of both branches, and the results of the op: what each of them yields."""

    site: Site
    bodies: list[Body]
    rows: tuple[list[Value], list[Value]]

    def number(self, yes: Any, no: Any) -> int:
        """Add a result of the op; returns its number."""
        self.rows[0].append(yes)
        self.rows[1].append(no)
        return len(self.rows[0]) - 1


class _Result(Struct, frozen=True):
    """A leaf that is a result of the op."""

    number: int


def check_allowed(site: Site) -> None:
    """Raise TraceError (PK0709) for a branch or loop that no tensor may decide."""
    if site.refused is not None:
        raise site.refusal(
            f"a tensor cannot decide this {site.what}: {site.refused}",
            "move the branch or loop out of it: what runs later raises nothing while it is traced",
        )


def _recorded(site: Site, test: Value, blocks: tuple[Block, Block], variables: Variables) -> None:
    check_allowed(site)
    b = cast(Recorder, test.b).innermost
    condition = truth(b, test)
    before = variables.read()
    bodies = [Body(b), Body(b)]
    states: list[State] = []
    try:
        for body, block in zip(bodies, blocks, strict=True):
            with Deciding():
                states.append(body.record(_run, block, variables, before, site, body.recorder))
    finally:
        variables.write(before)
    merge = _Merge(site, bodies, ([], []))
    merged = {n: _merged(merge, n, before[n], states) for n in site.names}
    regions = [body.region(row, []) for body, row in zip(bodies, merge.rows, strict=True)]
    types = [type_of(v.meta) for v in merge.rows[0]]
    made = b.insert(create("pd_op.if", (condition.ssa,), types, regions=regions))
    results = [b.wrap(r) for r in made.results]

    def final(leaf: Any) -> Any:
        return results[leaf.number] if isinstance(leaf, _Result) else leaf

    variables.write({n: v if v is UNSET else tree.mapped(final, v) for n, v in merged.items()})


def _run(
    block: Block, variables: Variables, before: State, site: Site, recorder: Recorder
) -> State:
    variables.write(private(before, site, recorder.value))
    block()
    return variables.read()


def _merged(merge: _Merge, name: str, before: Any, states: list[State]) -> Any:
    """The value of a variable after both branches: a tree with results of the op as leaves."""
    site, (yes, no) = merge.site, (states[0][name], states[1][name])
    is_ours = name.startswith(PREFIX)
    # By branch: whether the user's code reads the variable after it.
    wanted = [name in live and not is_ours for live in site.needed]
    is_live = any(name in live for live in site.needed)
    if (yes is UNSET and no is UNSET) or not (is_live or name in site.captured):
        return UNSET
    if yes is UNSET or no is UNSET:
        missing = 0 if yes is UNSET else 1
        if wanted[missing]:
            raise site.wrong(
                f"`{name}` has a value only where the condition {WORDS[1 - missing]}",
                f"give `{name}` a value before the `if`, or in both branches",
                name,
            )
        if not is_live:
            return UNSET
        return _filled(merge, name, no if yes is UNSET else yes, missing)
    (ours, shape), (theirs, other) = tree.flatten(yes), tree.flatten(no)
    # Equal leaves need no result. An unchanged container stays the user's object, no copy.
    if shape == other and all(x is y for x, y in zip(ours, theirs, strict=True)):
        was, shape_before = ([], ()) if before is UNSET else tree.flatten(before)
        unchanged = shape == shape_before and all(x is y for x, y in zip(ours, was, strict=True))
        return before if unchanged else yes
    # Values that differ are no error where nothing reads one of them: zeros stand for it.
    unread = [i for i, is_wanted in enumerate(wanted) if not is_wanted]
    problem = _difference(merge, name, ours, theirs, shape, other)
    if problem is not None and unread and not is_ours:
        return _filled(merge, name, states[1 - unread[0]][name], unread[0])
    if problem is not None:
        raise problem
    leaves = [_leaf(merge, x, y) for x, y in zip(ours, theirs, strict=True)]
    return tree.unflatten(shape, iter(leaves))


def _difference(
    merge: _Merge, name: str, ours: list[Any], theirs: list[Any], shape: Any, other: Any
) -> Exception | None:
    """The error for values that differ so that one variable cannot have both; None if it can."""
    site = merge.site
    if shape != other:
        kinds = _kind(ours, shape), _kind(theirs, other)
        return site.wrong(_sentence(name, *kinds), _remedy(name), *_shown(name))
    for label, x, y in zip(tree.paths(shape, name), ours, theirs, strict=True):
        if _equal(x, y):
            continue
        if not (is_tensor(x) and is_tensor(y)):
            return site.wrong(_sentence(label, shown(x), shown(y)), _remedy(name), *_shown(name))
        left, right = _pair(merge, x, y)
        if left.meta != right.meta:
            meta = wider(left.meta, right.meta)
            sentence = _sentence(label, f"{left.meta}", f"{right.meta}")
            return site.differ(name, meta, sentence, _remedy(name))
    return None


def shown(value: Any) -> str:
    """How messages show a Python value."""
    is_short = value is None or isinstance(value, str | bytes | int | float)
    return repr(value)[:60] if is_short else f"a {type(value).__name__}"


def _sentence(label: str, one: str, other: str) -> str:
    shown = "what the function returns" if label.startswith(PREFIX) else f"`{label}`"
    return f"{shown} is {one} in one branch, {other} in the other"


def _remedy(name: str) -> str:
    remedy = "return a value in each of them, " if name.startswith(PREFIX) else ""
    return f"{remedy}keep structure, shape and element type the same: `astype`, `zeros_like`"


def _shown(name: str) -> tuple[str, ...]:
    return () if name.startswith(PREFIX) else (name,)


def _kind(leaves: list[Any], shape: Any) -> str:
    if shape is None:
        return "None"
    if shape != tree.LEAF:
        return f"a {shape.kind.__name__} of {len(leaves)} values"
    leaf = leaves[0]
    return f"a {leaf.meta}" if isinstance(leaf, Value) else f"a {type(leaf).__name__}"


def _equal(x: Any, y: Any) -> bool:
    """Whether two leaves are one Python value, which needs no tensor."""
    if x is y:
        return True
    if isinstance(x, Value | np.ndarray | np.generic) or not is_tensor(x):
        return _kind_of(x) is _kind_of(y) and not is_tensor(x) and bool(x == y)
    return _kind_of(x) is _kind_of(y) and is_number(x) and x == y


def _kind_of(value: Any) -> Any:
    return cast("type[Any]", type(value))


def _leaf(merge: _Merge, x: Any, y: Any) -> Any:
    return x if _equal(x, y) else _Result(merge.number(*_pair(merge, x, y)))


def _pair(merge: _Merge, x: Any, y: Any) -> tuple[Value, Value]:
    ours, theirs = merge.bodies
    if is_number(x) and is_number(y):  # Python's own promotion
        kind = _kind_of(x if type(x) is type(y) else x + y)
        return typed(ours, kind(x)), typed(theirs, kind(y))
    if is_number(x):
        value = typed(theirs, y)
        return typed(ours, x, value), value
    value = typed(ours, x)
    return value, typed(theirs, y, value)


def _filled(merge: _Merge, name: str, value: Any, missing: int) -> Any:
    """A value that branch ``missing`` lacks: zeros stand for it, as nothing reads it from there."""

    def leaf(x: Any) -> Any:
        if not isinstance(x, Value):
            return x
        if UNKNOWN in x.shape:
            raise merge.site.wrong(
                f"a {x.meta} is set in one branch only, and its size is not known",
                "give it a value before the `if`",
                name,
            )
        zeros = merge.bodies[missing].recorder.const(0, x.dtype, x.shape)
        own = typed(merge.bodies[1 - missing], x)
        return _Result(merge.number(*((zeros, own) if missing == 0 else (own, zeros))))

    return tree.mapped(leaf, value)
