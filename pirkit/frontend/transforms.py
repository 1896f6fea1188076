"""Derivatives of Python functions; transforms may be nested freely.

A transformed function, called on tensors, is traced into a program (again at each call, so it may
depend on any Python state), differentiated, compiled and run; equal programs share one executable.
Called inside another transformed function, it is recorded into the program of that one, which is
how ``grad(grad(f))`` works.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.differentiation import is_differentiable
from pirkit.diag.errors import ArgumentError, UsageError
from pirkit.diag.forks import renewed
from pirkit.dialect.build import Value
from pirkit.dialect.operation import ProgramOp
from pirkit.dialect.program import Program
from pirkit.frontend import tree
from pirkit.frontend.python_calls import check_call, require, takes_functions
from pirkit.frontend.recording import OuterValueError
from pirkit.frontend.tracing import Recorder, argument, bound_input, fingerprint, trace
from pirkit.frontend.user_line import user_span
from pirkit.lowering.prim import with_prim
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.tensor.dense import DenseTensor

if TYPE_CHECKING:
    from pirkit.runtime.executor import Executable

Function = Callable[..., Any]
Argnums = int | Sequence[int]

PIPELINE: Final = "taylor,expand-gradients,@simplify"
CACHED_PROGRAMS: Final = 256
"""Most executables that are cached; then the least recently used one is dropped."""

_EXECUTABLES: Final[OrderedDict[Hashable, Executable]] = OrderedDict()
_LOCK: Final = renewed(Lock())


@takes_functions("f")
def grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """The derivative of a function whose result is one number.

    The derivative has the structure and the shapes of the argument ``argnums``, which may be a
    tensor or nested lists and dicts of tensors; for several ``argnums`` it is a tuple. With
    ``has_aux`` the function returns a pair, whose second element is passed through. Raises
    ArgumentError (PK0701) if the result is not one floating number.
    """
    both = value_and_grad(f, argnums, has_aux=has_aux)

    @wraps(f, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


@takes_functions("f")
def value_and_grad(f: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """Like :func:`grad`, but gives a pair: the function's result, and the derivative."""

    @wraps(f, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        check_inputs(chosen(args, argnums))
        value = f(*args, **kwargs)
        y = value[0] if has_aux else value
        leaves, _ = tree.flatten(chosen(args, argnums))
        if leaves and isinstance(y, int | float | np.ndarray | DenseTensor):
            like = cast(Value, leaves[0])  # a branch may return a plain number
            y = like.b.value(float(y) if isinstance(y, int) else y, like)
            value = (y, *value[1:]) if has_aux else y
        if not isinstance(y, Value) or y.meta.numel != 1 or not is_differentiable(y.ssa):
            raise ArgumentError(
                f"`grad` needs a function whose result is one floating number, not {y!r}",
                span=user_span(),
                help="sum the result, or use `vjp`, `jacrev` or `jacfwd`",
            )
        return value, picked(pullback(y, None, chosen(args, argnums)), argnums)

    return transformed(both, argnums)


@takes_functions("f")
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The result of a function, and the function from its cotangents to those of the primals.

    With ``has_aux`` the function returns a pair, whose second element comes third. Raises
    ArgumentError (PK0701) for cotangents that have another structure than the result.
    """
    y = transformed(f, ())(*primals)

    def back(cotangents: Any) -> Any:
        def linear(*given: Any) -> Any:
            *args, seeds = given
            result = f(*args)[0] if has_aux else f(*args)
            return tuple(pullback(result, seeds, args))

        return transformed(linear, range(len(primals)))(*primals, cotangents)

    return (y[0], back, y[1]) if has_aux else (y, back)


@takes_functions("f")
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The result of a function at ``primals``, and its derivative along ``tangents``.

    With ``has_aux`` the function returns a pair, whose second element comes third.

    One forward sweep by the Taylor rules at order 1; through an op without such a rule, reverse
    mode twice. A remark of the pass `expand-gradients` says which.

    A number as a tangent fills the whole tensor. Raises ArgumentError (PK0701) for tangents of
    another structure than the primals, ConstraintError for a tensor of another shape or dtype.
    """
    require(all(isinstance(cast(object, g), list | tuple) for g in (primals, tangents)),
            "`jvp` takes tuples of primals and of tangents",
            "`pirkit.jvp(f, (x,), (v,))`")  # fmt: skip
    count = len(primals)
    ways, _ = tree.flatten(tuple(tangents))

    if tree.flatten(tuple(tangents))[1] != tree.flatten(tuple(primals))[1]:
        raise _unlike("the tangents", "primals", tangents, primals)

    def both(*given: Any) -> tuple[Any, ...]:
        args, rest = given[:count], iter(given[count:])
        result, *aux = f(*args) if has_aux else (f(*args),)
        along = [w if _is_number(w) else next(rest) for w in ways]
        return result, pushforward(result, args, along), *aux

    return transformed(both, range(count))(*primals, *[w for w in ways if not _is_number(w)])


@takes_functions("f")
def jet(f: Function, primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """The result of a function and its derivatives of order 1 to K along a curve, in one sweep.

    ``series[i]`` holds the derivatives of order 1 to K of argument ``i`` along the curve, as in
    ``jax.experimental.jet``: ``(1, 0, 0)`` requests the derivatives up to the third along the
    argument itself. The cost grows quadratically with K. Arguments and result are one tensor each.

    Raises PassError, caused by PK0402, for an op without a Taylor series at order 2 and above.
    """
    order = max(map(len, series), default=0)
    count = len(primals)

    def both(*given: Any) -> tuple[Any, Any]:
        args, rest = given[:count], iter(given[count:])
        curves = [[d if _is_number(d) else next(rest) for d in s] for s in series]
        return _curve(_one(f(*args), "jet"), args, curves, order)

    flat = [d for s in series for d in s if not _is_number(d)]
    return transformed(both, range(count))(*primals, *flat)


# --- recording -----------------------------------------------------------------------------------


def transformed(f: Function, argnums: Argnums) -> Function:
    """``f`` as users call it: traced and run on tensors, recorded in place on traced values.

    ``f`` gets fresh values for the arguments to differentiate, so that a derivative with respect to
    an argument is separate from one with respect to the caller's value of the same name.
    """
    which = {argnums} if isinstance(argnums, int) else set(argnums)
    require(all(isinstance(cast(object, i), int) for i in which),
            f"`argnums` are numbers of arguments, not {argnums!r}",
            "give an integer, or a tuple of them")  # fmt: skip

    def recorded(*args: Any, **kwargs: Any) -> Any:
        which_now = {i % len(args) if args else i for i in which}
        fresh = [tree.mapped(_renamed, a) if i in which_now else a for i, a in enumerate(args)]
        return f(*fresh, **kwargs)

    @wraps(f, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        check_call(f, args, kwargs)
        _check_argnums(which, len(args))
        leaves, _ = tree.flatten((args, kwargs))
        traced = next((leaf for leaf in leaves if isinstance(leaf, Value)), None)
        if traced is not None:
            return _recorded_in(cast(Recorder, traced.b), recorded, args, kwargs)
        try:
            return run(recorded, args, kwargs)
        except OuterValueError as error:  # `f` takes a value from around it: record it there
            return _recorded_in(cast(Recorder, error.outer), recorded, args, kwargs)

    return call


def _check_argnums(which: set[int], count: int) -> None:
    wrong = next((i for i in which if not -count <= i < count), None)
    if wrong is not None:
        raise ArgumentError(
            f"argument {wrong} is to be differentiated, but {count} were given by position",
            span=user_span(),
            help="give by position what is to be differentiated, and name it in `argnums`",
        )


def _recorded_in(b: Recorder, f: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A call whose arguments are values of a program that is recorded already."""
    lifted, named = lifted_in(b, (args, dict(kwargs)))
    return f(*lifted, **named)


def lifted_in(b: Recorder, arguments: Any) -> Any:
    """A tree with its arrays and numbers as values of the program that ``b`` records."""
    leaves, _ = tree.flatten(arguments)
    typed = next((leaf for leaf in leaves if isinstance(leaf, Value)), None)
    return tree.mapped(lambda leaf: b.value(leaf, typed), arguments)


def _renamed(value: Any) -> Any:
    return value.b("pd_op.assign", value) if isinstance(value, Value) else value


def run(f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of ``f`` for tensors, arrays or numbers, recorded and compiled."""
    traced = trace(f, args, run_part, keywords=kwargs, weak=True)
    leaves, _ = tree.flatten((tuple(args), dict(kwargs)))
    inputs = {f"x{i}": argument(leaf) for i, leaf in enumerate(leaves)} | traced.captured
    found = _run_program(traced.program, inputs)
    return tree.unflatten(traced.shape, iter([DenseTensor(a) for a in found]))


def run_part(program: ProgramOp, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of a part of a program that is traced, for numbers known while tracing."""
    return _run_program(Program(ModuleOp([program]), {}, "<traced>"), inputs)


def _run_program(program: Program, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs ``y0``, ``y1``... of a program; equal programs are compiled once."""
    key = (PIPELINE, with_prim("", None, None), fingerprint(program.entry(None)))
    exe = _EXECUTABLES.get(key)
    if exe is None:
        from pirkit.frontend.compile import compile  # noqa: PLC0415  not to record a derivative

        exe = compile(program, pipeline=PIPELINE)
    with _LOCK:
        _EXECUTABLES[key] = exe
        _EXECUTABLES.move_to_end(key)
        if len(_EXECUTABLES) > CACHED_PROGRAMS:
            _EXECUTABLES.popitem(last=False)
    found = exe.run({name: bound_input(leaf) for name, leaf in inputs.items()})
    return [found[f"y{i}"] for i in range(len(found))]


# --- differentiating what is recorded ------------------------------------------------------------


def chosen(args: Sequence[Any], argnums: Argnums) -> list[Any]:
    """The arguments to differentiate."""
    return [args[argnums]] if isinstance(argnums, int) else [args[i] for i in argnums]


def check_inputs(args: Sequence[Any]) -> None:
    """Raise ArgumentError (PK0701) for an argument of integers, which has no derivative."""
    for leaf in tree.flatten(tuple(args))[0]:
        if not is_differentiable(leaf.ssa):
            raise ArgumentError(
                f"no derivative with respect to a {leaf.meta}",
                span=user_span(),
                help="pass floating numbers: `x.astype('float32')`, or 3.0 for 3",
            )


def picked(found: list[Any], argnums: Argnums) -> Any:
    """The derivatives as the user gets them: a tuple, or one for an integer ``argnums``."""
    return found[0] if isinstance(argnums, int) else tuple(found)


def pullback(result: Any, cotangents: Any, args: Sequence[Any]) -> list[Any]:
    """Cotangents of the arguments, with zeros where the result does not depend on one."""
    targets, shape = tree.flatten(result)
    seeds, given_shape = tree.flatten(cotangents)
    if cotangents is None:
        seeds = [None] * len(targets)
    elif given_shape != shape:
        raise _unlike("the cotangents", "result", cotangents, result)
    pairs = [
        (t, s)
        for t, s in zip(targets, seeds, strict=True)
        if isinstance(t, Value) and is_differentiable(t.ssa)
    ]
    leaves = [tree.flatten(a) for a in args]
    wrt = [cast(Value, leaf) for found, _ in leaves for leaf in found]
    if not pairs:
        return [tree.mapped(lambda v: v.b.zeros_like(v), a) for a in args]
    b = cast(Recorder, pairs[0][0].b)
    given = [b.ones_like(t) if s is None else b.value(s, t) for t, s in pairs]
    found = b(
        "pir.gradient", *[t for t, _ in pairs], *given, *wrt, targets=len(pairs), wrt=len(wrt)
    )
    dense = iter(_several(found))
    return [tree.rebuilt(shape, dense) for _, shape in leaves]


def _unlike(what: str, other: str, given: Any, wanted: Any) -> UsageError:
    return ArgumentError(
        f"{what} have another structure than the {other}:"
        f" {_spelled(given)}, not {_spelled(wanted)}",
        span=user_span(),
        help=f"give a tree like the {other}, with a tensor for each of its tensors",
    )  # fmt: skip


def _spelled(given: Any) -> str:
    """A tree with a star for each leaf."""
    return repr(tree.mapped(lambda _: ..., given)).replace("Ellipsis", "*")


def pushforward(result: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The derivative of the result along tangents, one for each tensor of the arguments.

    What the function does not compute from traced values has zeros.
    """
    leaves, shape = tree.flatten(result)
    targets = [y for y in leaves if isinstance(y, Value) and is_differentiable(y.ssa)]
    wrt = [cast(Value, leaf) for a in args for leaf in tree.flatten(a)[0]]
    ways = [_direction(d, w) for d, w in zip(tangents, wrt, strict=True)]
    found = iter(_derivatives(targets, wrt, [[d] for d in ways], 1) if targets else ())
    moving = {id(y) for y in targets}
    dense = (next(found) if id(y) in moving else _zeros_like(y) for y in leaves)
    return tree.unflatten(shape, dense)


def _zeros_like(result: Any) -> Any:
    if isinstance(result, Value):
        return cast(Recorder, result.b).zeros_like(result)
    return type(result)() if isinstance(result, int | float | complex) else np.zeros_like(result)


def _derivatives(
    targets: Sequence[Value], wrt: Sequence[Value], curves: Sequence[Sequence[Any]], order: int
) -> tuple[Value, ...]:
    """The derivatives 1 to ``order`` of each target, given those of ``wrt``."""
    b = cast(Recorder, targets[0].b)
    pairs = zip(wrt, curves, strict=True)
    given = [[_direction(d, w) for d in c] for w, c in pairs]
    flat = [d for derivatives in given for d in derivatives]
    counts = tuple(map(len, given))
    return _several(b("pir.jet", *targets, *wrt, *flat, targets=len(targets), given=counts,
                      order=order))  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | np.generic)


def _direction(given: Any, like: Value) -> Value:
    """A derivative of ``like`` along a curve; a number fills the shape of ``like``.

    A tensor whose shape is dynamic is broadcast to the shape of ``like``; `pir.jet` refuses a
    tensor of another static shape.
    """
    b = cast(Recorder, like.b)
    if isinstance(given, complex | np.complexfloating):
        if not like.dtype.is_complex:
            raise ArgumentError(f"{given} is no derivative of a {like.meta}",
                             help="a real value has real derivatives")  # fmt: skip
        return b.expand_like(b.value(np.asarray(given, like.dtype.np), like), like)
    if _is_number(given):
        return b.like(float(cast(float, given)), like)
    value = b.value(given, like)
    pairs = zip(value.shape, like.shape, strict=False)
    is_dynamic = value.meta != like.meta and all(m == n or UNKNOWN in (m, n) for m, n in pairs)
    return b.expand_like(value, like) if is_dynamic and value.rank == like.rank else value


def _several(found: Any) -> tuple[Value, ...]:
    return cast("tuple[Value, ...]", found if isinstance(found, tuple) else (found,))


def _curve(
    y: Value, args: Sequence[Any], curves: Sequence[Sequence[Any]], order: int
) -> tuple[Value, list[Value]]:
    """``y``, and its derivatives 1 to ``order``, given those of the arguments."""
    if order == 0:
        return y, []
    return y, list(_derivatives([y], [_one(a, "jet") for a in args], curves, order))


def _one(value: Any, name: str) -> Value:
    if not isinstance(value, Value):
        raise ArgumentError(
            f"`{name}` takes and gives one tensor, not a {type(value).__name__}",
            span=user_span(),
            help="join the tensors into one, or transform each by itself",
        )
    return value
