"""Jacobians and Hessians: one sweep computes all rows (or columns), as `vmap` of a sweep would.

The function is recorded once, then its pullback or pushforward along one direction. What depends on
the direction is emitted with an axis of directions in front; the rest is computed once. For few
directions, and for a function with an op that cannot be batched, there is one sweep for each
direction.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import wraps
from itertools import accumulate
from operator import getitem
from typing import Any, Final, cast

from msgspec import Struct
from xdsl.ir import SSAValue

from pirkit.analysis.differentiation import is_differentiable
from pirkit.diag.errors import ArgumentError, UnsupportedError
from pirkit.dialect.build import Value
from pirkit.frontend import tree
from pirkit.frontend.batching import Batched
from pirkit.frontend.bodies import Body
from pirkit.frontend.known_values import KnownValues
from pirkit.frontend.python_calls import takes_functions
from pirkit.frontend.tracing import Recorder, bound_input
from pirkit.frontend.transforms import (
    Argnums,
    Function,
    check_inputs,
    chosen,
    picked,
    pullback,
    pushforward,
    run_part,
    transformed,
)
from pirkit.frontend.user_line import user_span
from pirkit.frontend.vmap import all_rows, over_rows
from pirkit.runtime.meta import UNKNOWN, TensorMeta

FEW: Final = 4
"""Up to this number, each direction has a sweep of its own: on 64 rows in lanes, a step with the
Jacobian of a network 3-20-20-3 took 118 us that way, and 275 us with an axis of 3 directions."""


@takes_functions("f")
def jacrev(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The Jacobian of ``f`` by reverse mode, as a function of the same arguments.

    Its shape is that of the result, followed by that of the argument ``argnums``. If these are
    trees, it is a tree like the result that has at each leaf a tree like the argument (for a tuple
    of ``argnums``, a tuple of such trees). With ``has_aux``, ``f`` returns a pair of the result and
    an auxiliary tree, and its Jacobian a pair with the same second element. Raises ArgumentError
    (PK0701) for results and arguments that are not floating tensors of known shape.
    """
    return _jacobian(f, argnums, has_aux, reverse=True)


@takes_functions("f")
def jacfwd(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The Jacobian of ``f`` by forward mode; parameters and result are those of `jacrev`."""
    return _jacobian(f, argnums, has_aux, reverse=False)


@takes_functions("f")
def hessian(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The second derivatives of ``f``: `jacfwd` of `jacrev`, whose parameters it has.

    The shape is that of the result, followed twice by that of the argument.
    """
    return jacfwd(jacrev(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux)


# --- recording -----------------------------------------------------------------------------------


class _Once(Struct, frozen=True):
    """A function, recorded once into a body: its arguments to differentiate and its results."""

    body: Body
    around: list[Value]
    """The leaves of the arguments, as values of the program around the body."""
    args: list[Any]
    """The trees of the arguments, as values of the body."""
    result: Any
    aux: Any

    def along(self, ways: list[Value], reverse: bool) -> list[Value]:
        """The leaves of the derivative along a direction, which has a part for each leaf.

        It is a direction in the results, and of reverse mode, or else one in the arguments.
        """
        if not reverse:
            return tree.leaves(self.body.record(pushforward, self.result, self.args, ways))
        seeds = tree.unflatten(tree.flatten(self.result)[1], iter(ways))
        return tree.leaves(self.body.record(pullback, self.result, seeds, self.args))


def _jacobian(f: Function, argnums: Argnums, has_aux: bool, reverse: bool) -> Function:
    @wraps(f, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        wanted = tree.flatten(picked(chosen(args, argnums), argnums))[1]
        once = _recorded(f, argnums, has_aux, args, kwargs)
        try:
            rows, aux = _products(once, reverse, FEW)
        except UnsupportedError as error:
            if error.code != "PK0402":
                raise
            # An op cannot be batched: start again, with a sweep for each direction.
            once = _recorded(f, argnums, has_aux, args, kwargs)
            rows, aux = _products(once, reverse, sys.maxsize)
        parts = iter([tree.unflatten(wanted, iter(row)) for row in rows])
        made = tree.mapped(lambda _: next(parts), once.result)
        return (made, aux) if has_aux else made

    return transformed(jacobian, argnums)


def _recorded(
    f: Function, argnums: Argnums, has_aux: bool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _Once:
    check_inputs(chosen(args, argnums))
    around, shape = tree.flatten(chosen(args, argnums))
    body = Body(cast(Recorder, tree.leaves((args, kwargs))[0].b).innermost)
    recorder, known = body.recorder, body.outer.known
    whole, fresh = list(args), body.arguments(shape, [v.meta for v in around])
    for i, value in zip([argnums] if isinstance(argnums, int) else argnums, fresh, strict=True):
        whole[i] = value
    if known is not None:  # the function may ask for the truth of a value
        outside = _Outside(known, around, recorder.links)
        recorder.known = KnownValues(recorder.program, outside, bound_input, run_part)
    found = body.record(lambda: f(*whole, **kwargs))
    recorder.known = None
    result, aux = found if has_aux else (found, None)
    result = tree.mapped(lambda v: body.record(recorder.value, v), result)
    _check([*tree.leaves(result), *around])
    return _Once(body, around, fresh, result, aux)


def _check(values: Sequence[Value]) -> None:
    """Raise ArgumentError (PK0701) for what is no floating tensor of known shape."""
    for value in values:
        if not is_differentiable(value.ssa) or UNKNOWN in value.shape:
            raise ArgumentError(
                f"a Jacobian is of floating tensors of known shape, not of a {value.meta}",
                span=user_span(),
                help="return what has no derivative beside it, by `has_aux=True`",
            )  # fmt: skip


class _Outside(Mapping[str, Any]):
    """The numbers of the inputs of a body by name, computed on demand in the program around it.

    ``given`` are the values for its arguments, ``links`` the other values that it reads.
    """

    def __init__(
        self, known: KnownValues, given: Sequence[Value], links: Mapping[SSAValue, Any]
    ) -> None:
        self._known, self._given, self._links = known, given, links

    def __getitem__(self, name: str) -> Any:
        return self._known.array(self._named()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())

    def __len__(self) -> int:
        return len(self._given) + len(self._links)

    def _named(self) -> dict[str, SSAValue]:
        named = {f"x{i}": v.ssa for i, v in enumerate(self._given)}
        return named | {f"outer{i}": v for i, v in enumerate(self._links)}


def _products(once: _Once, reverse: bool, few: int) -> tuple[list[list[Value]], Any]:
    """For each result a list of its derivatives by the arguments; then the auxiliary results.

    If the directions are at most ``few``, each has a sweep of its own. Otherwise, raises
    UnsupportedError (PK0402) for an op that cannot be batched.
    """
    body, b = once.body, once.body.outer
    results, inputs = tree.leaves(once.result), once.around
    ways, others = (results, inputs) if reverse else (inputs, results)
    passed, passed_shape = tree.flatten(once.aux)
    metas = [v.meta for v in ways]
    count, width = sum(m.numel for m in metas), len(others)
    if count <= few:
        basis = body.record(unit_vectors, body.recorder, metas)
        sweeps = [
            once.along([body.record(getitem, unit, i) for unit in basis], reverse)
            for i in range(count)
        ]
        flat = [v for sweep in sweeps for v in sweep]
        held = body.inlined([*flat, *passed], inputs)
        rows = [b.stack(held[k : len(flat) : width], axis=0) for k in range(width) if count]
        rows = rows or [b.const(0, v.dtype, (0, *v.shape)) for v in others]
        kept = held[len(flat) :]
    else:
        units = body.arguments(tree.flatten(metas)[1], metas)
        found = once.along(units, reverse)
        given = [Batched(v, False) for v in inputs]
        given += [Batched(v, True) for v in unit_vectors(b, metas)]
        several = over_rows(body, [*found, *passed], given, count, alike=True)
        rows = [all_rows(b, v, count) for v in several[:width]]
        kept = [v.value[0] if v.rows else v.value for v in several[width:]]
    ends = accumulate([m.numel for m in metas])
    parts = [[_between(row, end - m.numel, end) for row in rows]
             for m, end in zip(metas, ends, strict=True)]  # fmt: skip
    if not reverse:
        parts = [[_last(b, column[k]) for column in parts] for k in range(width)]
    table = [
        [b.reshape(v, (*y.shape, *x.shape)) for v, x in zip(row, inputs, strict=True)]
        for row, y in zip(parts, results, strict=True)
    ]
    return table, tree.unflatten(passed_shape, iter(kept))


def unit_vectors(b: Recorder, metas: Sequence[TensorMeta]) -> list[Value]:
    """The unit vectors of the space of all elements of some tensors: for each tensor its part.

    With n elements in all, the part of a tensor of shape S has the shape (n, *S), one vector a row.
    """
    count = sum(m.numel for m in metas)
    ends = accumulate([m.numel for m in metas])
    if not count:
        return []
    eyes = {d: b.eye(num_rows=count, num_columns=count, dtype=d) for d in {m.dtype for m in metas}}
    return [
        b.reshape(eyes[m.dtype][:, end - m.numel : end], (count, *m.shape))
        for m, end in zip(metas, ends, strict=True)
    ]


def _between(x: Value, start: int, end: int) -> Value:
    return x if (start, end) == (0, x.shape[0]) else cast(Any, x)[start:end]


def _last(b: Recorder, x: Value) -> Value:
    """``x`` with its first axis moved to the end."""
    return b("pd_op.transpose", x, perm=(*range(1, x.rank), 0)) if x.rank > 1 else x
