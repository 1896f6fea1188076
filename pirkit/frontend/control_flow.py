"""Branches and loops on traced values: ``cond``, ``while_loop``, ``fori_loop`` and ``scan``.

They are recorded as `pd_op.if` and `pd_op.while`; derivatives of every order and mode go through
them. Values that the functions capture may be traced as well. The interfaces follow ``jax.lax``.

A Python number in a state or a result is weak: it takes the element type of what it meets. So a
loop whose state has numbers is recorded twice, first to infer the types that its body gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pirkit.diag.errors import TraceError
from pirkit.dialect.build import Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.frontend import tree
from pirkit.frontend.batched import reshaped
from pirkit.frontend.bodies import Body, BodyRecorder, Weak
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.python_calls import takes_functions
from pirkit.frontend.recording import OuterValueError
from pirkit.frontend.surroundings import kind_of
from pirkit.frontend.traced_value import WeakValue
from pirkit.frontend.tracing import WEAK, Recorder, argument, leaf_meta
from pirkit.frontend.transforms import run
from pirkit.frontend.user_line import untraceable, user_span
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Function = Callable[..., Any]


class TypesDifferError(TraceError):
    """A value has two types. If it began as a number, recording starts again with the other."""

    name: str = ""
    """The variable, if the value is one."""
    meta: TensorMeta
    """The type with which recording starts again."""


def wider(x: TensorMeta, y: TensorMeta) -> TensorMeta:
    """The wider of two types, which a number takes: floats before integers, then by size."""
    return max(x, y, key=lambda m: (m.dtype.is_float, m.dtype.itemsize))


@takes_functions("true_fun", "false_fun")
def cond(pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """``true_fun(*operands)`` if ``pred`` holds, else ``false_fun(*operands)``.

    ``pred`` is one boolean, or one number that is true unless it is 0. Operands and results are
    trees of tensors; both functions give the same structure, shapes and element types. Only the
    chosen branch runs. Raises TraceError (PK0706) where the branches differ, or for a ``pred`` of
    several elements.
    """
    return chosen("`cond`", pred, true_fun, false_fun, *operands)


def chosen(what: str, pred: Any, true_fun: Function, false_fun: Function, *operands: Any) -> Any:
    """The implementation of `cond`; ``what`` is the name of the construct in messages.

    Raises TypesDifferError for results of different types, as a caller may record again.
    """

    def recorded(b: Recorder, condition: Value, given: Any) -> Any:
        leaves, shape = tree.flatten(given)
        bodies = [Body(b), Body(b)]
        found: list[tuple[list[Any], tree.Shape]] = []
        for body, function in zip(bodies, (true_fun, false_fun), strict=True):
            made = tree.leaves(body.arguments(shape, [v.meta for v in leaves]))
            # Numbers are captured instead of passed as arguments, which would not be weak.
            pairs = zip(leaves, made, strict=True)
            arguments = tree.unflatten(shape, iter([v if v.weak else a for v, a in pairs]))
            found.append(tree.flatten(body.record(function, *arguments)))
        (yes, shape_yes), (no, shape_no) = found
        if shape_yes != shape_no:
            raise untraceable(f"the branches of {what} give trees of different structure", _SAME)
        rows = [
            [typed(body, v, other) for v, other in zip(mine, others, strict=True)]
            for body, mine, others in ((bodies[0], yes, no), (bodies[1], no, yes))
        ]
        for name, x, y in zip(tree.paths(shape_yes, "the result"), *rows, strict=True):
            if x.meta != y.meta:
                error = TypesDifferError(
                    f"{name} of {what} is {x.meta} in one branch, {y.meta} in the other",
                    span=user_span(),
                    help=_SAME,
                )
                error.meta = wider(x.meta, y.meta)
                raise error
        held = [v.ssa for v in leaves]
        regions = [body.region(r, held) for body, r in zip(bodies, rows, strict=True)]
        types = [type_of(v.meta) for v in rows[0]]
        made = b.insert(create("pd_op.if", (truth(b, condition).ssa,), types, regions=regions))
        return tree.unflatten(shape_yes, iter([b.wrap(r) for r in made.results]))

    return entered(recorded, pred, operands)


@takes_functions("cond_fun", "body_fun")
def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    """``body_fun`` applied to the state as long as ``cond_fun`` of it holds.

    The state is a tree of tensors of fixed structure, shapes and element types; a Python number in
    ``init_val`` takes the element type that the body gives it. Forward and reverse derivatives go
    through it, whatever the number of iterations. Raises TraceError (PK0706) for a body that
    changes the state's types, and for a condition that is not one boolean.
    """

    def recorded(b: Recorder, init: Any) -> Any:
        return while_op(b, cond_fun, body_fun, init)

    return entered(recorded, init_val)


@takes_functions("body_fun")
def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """``val = body_fun(i, val)`` for ``i`` from ``lower`` up to ``upper``, which is excluded.

    ``i`` is a 0-D int64; the bounds are integers, and may be traced. State, derivatives and errors
    are those of `while_loop`.
    """

    def before(state: Any) -> Any:
        return state[0] < state[1]

    def iteration(state: Any) -> Any:
        i, last, value = state
        return i + 1, last, body_fun(i, value)

    def recorded(b: Recorder, first: Any, last: Any, init: Any) -> Any:
        for bound in (first, last):
            if not isinstance(bound, Value) or not bound.dtype.is_integer or bound.rank:
                raise TraceError(
                    f"a bound of `fori_loop` is one integer, not a {_kind(bound)}",
                    span=user_span(),
                    help="convert it: `x.astype('int64')`, or take `while_loop`",
                )  # fmt: skip
        # A weak number would be recorded twice, and a nest of loops twice at each level.
        start = (*[b.wrap(narrowed(b, v, dt.int64).ssa) for v in (first, last)], init)
        return while_op(b, before, iteration, start)[2]

    return entered(recorded, lower, upper, init_val)


@takes_functions("f")
def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: bool = False,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` for each row of ``xs``: the last carry, and all ``y`` stacked.

    ``xs`` is a tree of tensors that all have the same number of rows (the first axis), or None with
    a ``length``. ``reverse`` goes from the last row to the first; each row of the result stands
    where its row of ``xs`` does. ``unroll`` records every iteration, which makes short scans
    faster. Raises TraceError (PK0706) for different numbers of rows, and as `while_loop` does.
    """

    def recorded(b: Recorder, carry: Any, rows: Any) -> Any:
        count = _length(tree.leaves(rows), length)
        if unroll:
            return _unrolled(b, f, carry, rows, count, reverse)
        return _scan(b, f, carry, rows, count, reverse)

    return entered(recorded, init, xs)


# --- recording -----------------------------------------------------------------------------------

_SAME = "give the same structure, shapes and element types; `astype` converts"


def entered(recorded: Function, *trees: Any) -> Any:
    """Call ``recorded(recorder, *trees)`` with the leaves of the trees as values.

    It records into the program to which a traced leaf, or else a captured value, belongs. Without
    any, a program is traced for this call and run, and the result is a tree of tensors.
    """
    traced = next((v for v in tree.leaves(trees) if isinstance(v, Value)), None)
    if traced is not None:
        return _in(cast(Recorder, traced.b), recorded, trees)

    def alone(*given: Any) -> Any:
        first = next(iter(tree.leaves(given)), None)
        if first is None:
            raise untraceable("a loop without a state computes nothing", "give it an initial value")
        return recorded(cast(Recorder, first.b), *given)

    try:
        return run(alone, trees, {})
    except OuterValueError as error:
        return _in(cast(Recorder, error.outer), recorded, trees)


def _in(b: Recorder, recorded: Function, trees: Any) -> Any:
    inner = b.innermost
    return recorded(inner, *tree.mapped(lambda leaf: lifted(inner, leaf), trees))


def lifted(b: Recorder, leaf: Any) -> Value:
    """A tensor, array or number as a value of the program that ``b`` records.

    A Python number is weak: it has all of its digits until it meets an element type.
    """
    if type(leaf) in WEAK:
        kinds = [leaf_meta(x).dtype for x in (argument(leaf), leaf)]
        wide, strong = [b.const(leaf, dtype) for dtype in kinds]
        return WeakValue(wide, strong, kind_of(leaf))
    if is_number(leaf):
        return b.const(leaf, leaf_meta(leaf).dtype)
    if isinstance(leaf, WeakValue):
        return leaf
    return cast(Value, b.value(leaf))


def narrowed(b: Recorder, value: Value, dtype: DType) -> Value:
    """A value in an element type; a weak one is converted from all of its digits."""
    if isinstance(value, WeakValue) and dtype is not value.dtype:
        return b.cast(b.own(value.wide), dtype)
    return b.cast(b.own(value), dtype)


def typed(body: Body, value: Any, like: Any = None) -> Value:
    """A result of a body as a value; a number takes the element type of ``like`` if that fits."""
    b = body.recorder
    dtype = None
    if like is not None and not is_number(like):
        dtype = like.dtype if isinstance(like, Value) else leaf_meta(like).dtype
    if is_number(value):
        fitting = dtype if dtype and _fits(value, dtype) else leaf_meta(value).dtype
        return body.record(lambda: b.const(value, fitting))
    if isinstance(value, WeakValue) and value.weak and dtype and _fits(value.weak(), dtype):
        return body.record(lambda: narrowed(b, value, dtype))
    return cast(Value, body.record(lambda: b.value(value)))


def _fits(number: Any, dtype: DType) -> bool:
    """Whether an element type holds a number without loss of kind."""
    if isinstance(number, complex):
        return dtype.is_complex
    if isinstance(number, float):
        return dtype.is_float or dtype.is_complex
    return isinstance(number, bool) or dtype is not dt.bool_


def _kind(value: Any) -> str:
    return str(value.meta) if isinstance(value, Value) else type(value).__name__


def truth(b: Recorder, condition: Any) -> Value:
    """A condition as one boolean. Raises TraceError (PK0706) for anything but one element."""
    if not isinstance(condition, Value) or condition.meta.numel != 1:
        raise untraceable(
            f"a condition is one boolean, not a {_kind(condition)}",
            "use `all()` or `any()`; `pirkit.where` chooses for each element",
        )
    return b.cast(condition, dt.bool_)


def while_op(
    b: Recorder,
    test: Function,
    iteration: Function,
    init: Any,
    differ: Callable[[int, TensorMeta, TensorMeta], Exception] | None = None,
) -> Any:
    """Record a loop over a tree of values; returns the tree after it.

    Numbers in ``init`` take the element type that the body gives them. If a leaf begins as one type
    and becomes another, ``differ`` makes the error, given its number and both types; without it
    TraceError is raised.
    """
    leaves, shape = tree.flatten(init)
    metas, weak = [v.meta for v in leaves], [v.weak for v in leaves]
    body = _iteration(b, test, iteration, shape, metas, weak)
    if any(weak):  # numbers take the type that the body gives them
        body.body.recorder.is_dynamic = False
        metas = _settled(metas, [v.meta for v in body.after], weak)
        if _only_types(b):  # the types are known now: any loop of these will do
            test, iteration = _never, _same
        body = _iteration(b, test, iteration, shape, metas)
    names = tree.paths(shape, "state")
    for i, (name, before, after) in enumerate(zip(names, metas, body.after, strict=True)):
        if before != after.meta:
            if differ is not None:
                raise differ(i, before, after.meta)
            raise untraceable(f"`{name}` of a loop begins as {before}, its body gives {after.meta}",
                         "keep shape and element type of the state; `astype` converts")  # fmt: skip
    starts = [narrowed(b, v, m.dtype) for v, m in zip(leaves, metas, strict=True)]
    first = truth(b, one_condition(test(tree.unflatten(shape, iter(starts))), b))
    region = body.body.region([body.more, *body.after])
    types = [type_of(m) for m in metas]
    operands = (first.ssa, *[b.own(s).ssa for s in starts])
    made = b.insert(create("pd_op.while", operands, types, regions=[region]))
    return tree.unflatten(shape, iter([b.wrap(r) for r in made.results]))


def _only_types(b: Recorder) -> bool:
    """Whether ``b`` records only to infer types.

    Then a loop whose types are known is not recorded a second time. Otherwise the time to record a
    nest of loops would double with each level.
    """
    return isinstance(b, BodyRecorder) and b.only_types


def _never(_: Any) -> bool:
    return False


def _same(state: Any) -> Any:
    return state


class _Iteration(NamedTuple):
    """One recorded iteration of a loop: whether another one follows (``more``), and the state."""

    body: Body
    more: Value
    after: list[Value]


def _iteration(
    b: Recorder,
    test: Function,
    iteration: Function,
    shape: tree.Shape,
    metas: Sequence[TensorMeta],
    weak: Weak = (),
) -> _Iteration:
    body = Body(b, only_types=any(weak))
    found = body.record(iteration, body.arguments(shape, metas, weak))
    after, after_shape = tree.flatten(found)
    if after_shape != shape:
        raise untraceable("the body of a loop gives a state of another structure", _SAME)
    values = [typed(body, v, _Like(m)) for v, m in zip(after, metas, strict=True)]
    again = body.record(test, tree.unflatten(shape, iter(values)))
    more = body.record(lambda: truth(body.recorder, one_condition(again, body.recorder)))
    return _Iteration(body, more, values)


class _Like(Value):
    """Stands for a value of known type in `typed`: a number takes its element type."""

    __slots__ = ("_of",)

    def __init__(self, meta: TensorMeta) -> None:
        self._of = meta

    @property
    def meta(self) -> TensorMeta:
        return self._of


def one_condition(condition: Any, b: Recorder) -> Value:
    """A condition as a value; a Python bool is a constant. Raises TraceError for other objects."""
    if isinstance(condition, Value):
        return condition
    if not isinstance(condition, bool | np.bool_ | int):
        raise untraceable(f"a condition is one boolean, not {condition!r}", "compare")
    return b.const(bool(cast(Any, condition)), dt.bool_)


def _length(rows: Sequence[Value], length: int | None) -> int:
    """The number of iterations of a scan. Raises TraceError (PK0706) if it is not one number."""
    counts: set[int] = {v.shape[0] if v.shape else UNKNOWN for v in rows}
    counts |= {length} if length is not None else set[int]()
    if len(counts) != 1 or UNKNOWN in counts:
        raise untraceable(f"`scan` over {sorted(counts) or 'nothing'} rows",
                     "give tensors with the same number of rows, or a `length`")  # fmt: skip
    return counts.pop()


def _unrolled(
    b: Recorder, f: Function, carry: Any, rows: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    found: list[Any] = []
    order = range(count)
    for i in reversed(order) if reverse else order:
        carry, y = f(carry, tree.mapped(lambda v, i=i: v[i], rows))
        found.append(y)
    if not found:
        raise untraceable("`scan(unroll=True)` over no rows", "leave out `unroll`")

    def stack(*each: Any) -> Value:
        return b.stack([lifted(b, v) for v in each], axis=0)

    stacked = tree.map(stack, *(reversed(found) if reverse else found))
    return carry, stacked


def _scan(
    b: Recorder, f: Function, init: Any, rows: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    """A scan as a loop: its state is the index, the carry, and buffers for the stacked results.

    Each iteration writes one row of every buffer.
    """

    def one(i: Value, carry: Any) -> tuple[Any, Any]:
        place = (count - 1) - i if reverse else i
        at = place.b.reshape(place, (1,))
        return at, f(carry, tree.mapped(lambda v: row_of(v, at), rows))

    leaves, shape = tree.flatten(init)
    metas, weak = [v.meta for v in leaves], [v.weak for v in leaves]
    after, y_shape, kinds = _probed(b, one, shape, metas, weak)
    if any(weak):
        metas = _settled(metas, after, weak)
        pairs = zip(leaves, metas, strict=True)
        init = tree.unflatten(shape, iter([narrowed(b, v, m.dtype) for v, m in pairs]))
        _, y_shape, kinds = _probed(b, one, shape, metas)

    def iteration(state: Any) -> Any:
        i, carry, buffers = state
        at, (carry, y) = one(i, carry)
        written = [_written(held, at, v) for held, v in zip(buffers, tree.leaves(y), strict=True)]
        return i + 1, carry, written

    buffers = [b.const(0, m.dtype, (count, *m.shape)) for m in kinds]
    start = (b.const(0, dt.int64), init, buffers)

    def before(state: Any) -> Any:
        return state[0] < count

    last, step = (_never, _same) if _only_types(b) else (before, iteration)
    _, carry, found = while_op(b, last, step, start)
    return carry, tree.unflatten(y_shape, iter(found))


def _probed(
    b: Recorder, one: Function, shape: tree.Shape, metas: Sequence[TensorMeta], weak: Weak = ()
) -> tuple[list[TensorMeta], tree.Shape, list[TensorMeta]]:
    """Record an iteration to infer types: of the carry, and structure and types of the results.

    Raises TraceError (PK0706) if the function returns no pair.
    """
    probe = Body(b, only_types=True)
    carry = probe.arguments(shape, metas, weak)
    index = probe.recorder.input("index", TensorMeta((), dt.int64))
    _, found = probe.record(one, index, carry)
    if not isinstance(found, tuple) or len(cast("tuple[Any, ...]", found)) != 2:
        raise untraceable(
            "the function of `scan` gives no pair", "return the carry, and a result or None"
        )
    after, y = cast("tuple[Any, Any]", found)
    leaves, y_shape = tree.flatten(y)
    given = [typed(probe, v, _Like(m)) for v, m in zip(tree.leaves(after), metas, strict=False)]
    made = [v.meta for v in given], y_shape, [typed(probe, v).meta for v in leaves]
    probe.recorder.is_dynamic = False
    return made


def _settled(
    before: Sequence[TensorMeta], after: Sequence[TensorMeta], weak: Weak
) -> list[TensorMeta]:
    """The metas of a state, in which numbers take the element type that the body gives them."""
    rows = zip(before, after, weak, strict=False)
    found = [
        new if is_weak and not old.shape and not new.shape else old for old, new, is_weak in rows
    ]
    return [*found, *before[len(found) :]]


def row_of(x: Value, at: Value) -> Value:
    """One row of a tensor, without its first axis, at an index of shape (1,)."""
    b = cast(Recorder, at.b)
    return reshaped(b, b.gather(b.own(x), at, axis=0), x.shape[1:])


def _written(buffer: Value, at: Value, y: Any) -> Value:
    """A buffer with one row replaced, at an index of shape (1,)."""
    b = cast(Recorder, at.b)
    row = b.const(y, buffer.dtype, buffer.shape[1:]) if is_number(y) else b.value(y)
    return b.scatter(buffer, at, b.reshape(row, (1, *buffer.shape[1:])), overwrite=True)
