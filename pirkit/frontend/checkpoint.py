"""``checkpoint``: functions whose intermediate values are recomputed for derivatives.

The function is recorded as usual; a `pir.checkpoint` op behind it marks its results and what it
read, so that a reverse sweep knows what to recompute (see `passes/autodiff.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial, wraps
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, bodies, with_nested
from pirkit.frontend import tree
from pirkit.frontend.active_trace import ACTIVE
from pirkit.frontend.tracing import Recorder

Function = Callable[..., Any]
Policy = Collection[str] | Callable[[str], bool]
"""Names of ops whose results are kept, or a function that tells whether those of a name are."""


def checkpoint(f: Function | None = None, *, policy: Policy | None = None) -> Any:
    """``f``, whose intermediate values are recomputed for derivatives instead of saved.

    Values and derivatives of all orders are those of ``f``. As for JAX's ``checkpoint``, a reverse
    sweep runs ``f`` once more, from its arguments and the values that it captures. ``policy`` names
    ops whose results are saved nevertheless (``("matmul",)``), or is a function from such a name to
    a bool. Random ops inside do not draw again: their numbers are saved. Outside of traced
    functions, and in forward mode, it is ``f``. It may be used as a decorator.
    """
    if f is None:
        return partial(checkpoint, policy=policy)
    function = f

    @wraps(function, updated=())
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        traced = next((v for v in tree.leaves((args, kwargs)) if isinstance(v, Value)), None)
        outer = cast("Recorder | None", ACTIVE.get() if traced is None else traced.b)
        if outer is None:
            return function(*args, **kwargs)
        b = outer.innermost
        before = b.block.last_op
        leaves, shape = tree.flatten(function(*args, **kwargs))
        made = list(_after(before, b))
        if not made or not any(isinstance(v, Value) for v in leaves):
            return tree.unflatten(shape, iter(leaves))
        outputs = [cast(Value, b.value(v)) for v in leaves]
        saved = sorted({op.name for op in made if policy is not None and _keeps(policy, op)})
        inputs = [b.wrap(v) for v in _read(made)]
        found = b("pir.checkpoint", *outputs, *inputs, outputs=len(outputs), saved=tuple(saved))
        results = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        return tree.unflatten(shape, iter(results))

    return recomputed


def _after(before: Operation | None, b: Recorder) -> Iterable[PirOp]:
    """The operations recorded after one of them; all if that is None."""
    op = b.block.first_op if before is None else before.next_op
    while op is not None:
        yield cast(PirOp, op)
        op = op.next_op


def _keeps(policy: Policy, op: PirOp) -> bool:
    name = op.name.partition(".")[2]
    return policy(name) if callable(policy) else name in policy


def _read(made: Iterable[PirOp]) -> list[SSAValue]:
    """The values that operations read and do not define.

    An input among the operations, which captures an array, counts as read: nothing recomputes it.
    """
    inside: set[Any] = set()
    found: dict[SSAValue, None] = {}
    for op in made:
        if op.name == "pd_op.data":
            found.update(dict.fromkeys(op.results))
            continue
        for inner in with_nested(op):
            inside |= {*inner.results, *[a for r in bodies(inner) for a in r.block.args]}
        read = (v for inner in with_nested(op) for v in inner.operands)
        found.update(dict.fromkeys(v for v in read if v not in inside))
    return list(found)
