"""Functions whose intermediate values are recomputed for derivatives: ``checkpoint``."""

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


def checkpoint(f: Function | None = None, *, policy: Policy | None = None) -> Any:
    """``f``, whose intermediate values are recomputed for derivatives instead of saved.

    Values and derivatives of all orders are those of ``f``. A reverse sweep takes the arguments of
    ``f`` and what it reads from around it, and runs it once more, as JAX's ``checkpoint`` does.
    ``policy`` names ops whose results are kept nevertheless (``("matmul",)``), or is a function
    from such a name to a bool. Random ops inside are not drawn again: their numbers are kept. Also
    a decorator. Outside of traced functions, and in forward mode, it is ``f``.
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
    op = b.block.first_op if before is None else before.next_op
    while op is not None:
        yield cast(PirOp, op)
        op = op.next_op


def _keeps(policy: Policy, op: PirOp) -> bool:
    name = op.name.partition(".")[2]
    return policy(name) if callable(policy) else name in policy


def _read(made: Iterable[PirOp]) -> list[SSAValue]:
    """The values that operations read and do not define; inputs of the program as well."""
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
