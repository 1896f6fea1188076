"""User-defined derivatives, and stopped gradients.

A rule is recorded when the function is called, on stand-ins for the cotangents or tangents that are
not known yet. A `pir.custom_derivative` op behind it names results, inputs, stand-ins and
derivatives; a sweep replaces the stand-ins (see `passes/autodiff_custom.py`). The interfaces are
those of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import update_wrapper
from inspect import signature
from typing import Any, Final, cast

from pirkit.analysis.differentiation import is_differentiable
from pirkit.diag.errors import ArgumentError, TraceError, UsageError
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp
from pirkit.frontend import tree
from pirkit.frontend.known_values import STAND_INS
from pirkit.frontend.numpy_ufuncs import is_number
from pirkit.frontend.python_calls import numbers_of, require
from pirkit.frontend.tracing import Recorder
from pirkit.frontend.transforms import lifted_in
from pirkit.frontend.user_line import user_span

Function = Callable[..., Any]

DEEPEST: Final = 3
"""How often a rule is recorded inside itself, if it calls its own function.

Derivatives up to this order use the rule; higher ones differentiate the function instead.
"""


def stop_gradient(x: Any) -> Any:
    """The same tree of tensors, through which no derivative of any order or mode flows."""

    def stopped(value: Any) -> Any:
        if not isinstance(value, Value):
            return value
        made = cast(Value, cast(Recorder, value.b)("pd_op.assign", value))
        cast(PirOp, made.ssa.owner).attributes["stop_gradient"] = encode("bool[]", (True,))
        return made

    return tree.mapped(stopped, x)


class _Custom:
    """A function with a derivative of its own; a call without traced values just computes it."""

    def __init__(self, fun: Function, nondiff_argnums: int | Sequence[int] = ()) -> None:
        update_wrapper(self, fun, updated=())
        require(callable(fun), f"a rule belongs to a function, not to a {type(fun).__name__}",
                "write `@pirkit.custom_vjp` above it")  # fmt: skip
        self.fun = fun
        self.nondiff = numbers_of(fun, nondiff_argnums)
        require(min(self.nondiff, default=0) >= 0,
                "the function has `*args`, so no argument is the last one",
                "give `nondiff_argnums` that are not negative")  # fmt: skip
        self._depth = ContextVar("depth", default=0)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) <= max(self.nondiff, default=-1):  # rules take all by position
            bound = signature(self.fun).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
            require(not bound.kwargs, "a function with a rule takes no keyword-only arguments",
                    "let it take them by position as well")  # fmt: skip
        given = [a for i, a in enumerate(args) if i not in self.nondiff]
        traced = next((v for v in tree.leaves(given) if isinstance(v, Value)), None)
        if traced is None:
            return self.fun(*args)
        b = cast(Recorder, traced.b).innermost
        lifted = lifted_in(b, tuple(given))
        depth = self._depth.get()
        if depth == DEEPEST:
            return self.fun(*self._whole(args, lifted))
        token = self._depth.set(depth + 1)
        try:
            return self._recorded(b, args, lifted)
        finally:
            self._depth.reset(token)

    def _whole(self, args: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """All arguments: ``given`` in place of those that may have derivatives."""
        rest = iter(given)
        return [a if i in self.nondiff else next(rest) for i, a in enumerate(args)]

    def _fixed(self, args: Sequence[Any]) -> list[Any]:
        """The arguments in ``nondiff_argnums``."""
        return [args[i] for i in sorted(self.nondiff)]

    def _recorded(self, b: Recorder, args: Sequence[Any], given: tuple[Any, ...]) -> Any:
        """Record a call with its rule; ``given`` are the other arguments, as values."""
        raise NotImplementedError


class custom_vjp(_Custom):
    """A function whose reverse derivative is ``bwd``; a decorator, as ``jax.custom_vjp``.

    After ``f.defvjp(fwd, bwd)``, ``fwd(*args)`` gives the result and what ``bwd`` needs, and
    ``bwd(that, cotangent)`` a tuple with one cotangent for each argument (None is zero). Arguments
    in ``nondiff_argnums`` may be anything; ``bwd`` gets them before the others.

    A traced call raises ArgumentError (PK0701) if there is no rule, and TraceError (PK0706) if the
    rule gives another structure, shape or element type than its argument has.
    """

    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function) -> None:
        """Set the rule."""
        self.fwd, self.bwd = fwd, bwd

    def _recorded(self, b: Recorder, args: Sequence[Any], given: tuple[Any, ...]) -> Any:
        if self.fwd is None or self.bwd is None:
            raise _no_rule(self.fun, "defvjp(fwd, bwd)")
        y, held = self.fwd(*self._whole(args, given))
        results, shape = tree.flatten(y)
        outputs = [_value(b, v) for v in results]
        at = [i for i, v in enumerate(outputs) if is_differentiable(v.ssa)]
        seeds = [_stand_in(b, v) if i in at else b.zeros_like(v) for i, v in enumerate(outputs)]
        cotangents = self.bwd(*self._fixed(args), held, tree.unflatten(shape, iter(seeds)))
        inputs, found = _paired(b, given, cotangents, self.fun)
        made = _custom(b, [outputs[i] for i in at], inputs, [seeds[i] for i in at], found, False)
        for i, value in zip(at, made, strict=True):
            outputs[i] = value
        return tree.unflatten(shape, iter(outputs))


class custom_jvp(_Custom):
    """A function whose forward derivative is ``jvp``; a decorator, as ``jax.custom_jvp``.

    After ``f.defjvp(jvp)``, ``jvp(primals, tangents)`` gives the result and its tangent, which must
    be linear in the tangents, as reverse mode transposes it. Arguments in ``nondiff_argnums`` may
    be anything; ``jvp`` gets them before the others. Errors are those of `custom_vjp`.
    """

    jvp: Function | None = None

    def defjvp(self, jvp: Function) -> Function:
        """Set the rule and return it, so that this is a decorator."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *rules: Function | None) -> None:
        """Set a rule for each argument: ``rule(tangent, result, *primals)``; None for zero."""

        def jvp(*given: Any) -> tuple[Any, Any]:
            *fixed, primals, tangents = given
            y = self.fun(*self._whole_of(fixed, primals))
            pairs = zip(rules, tangents, strict=True)
            terms = [rule(t, y, *primals) for rule, t in pairs if rule is not None]
            return y, sum(terms[1:], terms[0]) if terms else tree.mapped(_zero_like, y)

        self.jvp = jvp

    def _whole_of(self, fixed: Sequence[Any], primals: Sequence[Any]) -> list[Any]:
        held, rest = iter(fixed), iter(primals)
        count = len(fixed) + len(primals)
        return [next(held) if i in self.nondiff else next(rest) for i in range(count)]

    def _recorded(self, b: Recorder, args: Sequence[Any], given: tuple[Any, ...]) -> Any:
        if self.jvp is None:
            raise _no_rule(self.fun, "defjvp(jvp)")
        leaves, shape = tree.flatten(given)
        inputs = [v for v in leaves if is_differentiable(v.ssa)]
        stands = [_stand_in(b, v) if is_differentiable(v.ssa) else b.zeros_like(v) for v in leaves]
        tangents = tree.unflatten(shape, iter(stands))
        y, dy = self.jvp(*self._fixed(args), given, tangents)
        results, result_shape = tree.flatten(y)
        out_tangents, tangent_shape = tree.flatten(dy)
        if tangent_shape != result_shape:
            raise _unlike(self.fun, "the tangent has another structure than the result")
        outputs = [_value(b, v) for v in results]
        at = [i for i, v in enumerate(outputs) if is_differentiable(v.ssa)]
        found = [_like(b, out_tangents[i], outputs[i], self.fun) for i in at]
        placeholders = [s for s, v in zip(stands, leaves, strict=True) if is_differentiable(v.ssa)]
        made = _custom(b, [outputs[i] for i in at], inputs, placeholders, found, True)
        for i, value in zip(at, made, strict=True):
            outputs[i] = value
        return tree.unflatten(result_shape, iter(outputs))


def _custom(
    b: Recorder,
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    placeholders: Sequence[Value],
    found: Sequence[Value],
    forward: bool,
) -> tuple[Value, ...]:
    made = b(
        "pir.custom_derivative", *outputs, *inputs, *placeholders, *found,
        outputs=len(outputs), inputs=len(inputs), forward=forward,
    )  # fmt: skip
    return cast("tuple[Value, ...]", made if isinstance(made, tuple) else (made,))


def _stand_in(b: Recorder, like: Value) -> Value:
    """A placeholder for a cotangent or tangent, with which a rule is recorded."""
    made = b("pd_op.assign", b.zeros_like(like))
    STAND_INS.add(cast(PirOp, made.ssa.owner))
    return made


def _zero_like(y: Any) -> Any:
    return cast(Recorder, y.b).zeros_like(y) if isinstance(y, Value) else 0.0


def _value(b: Recorder, given: Any) -> Value:
    return b.value(given) if not is_number(given) else b.capture(given)


def _paired(
    b: Recorder, given: Sequence[Any], cotangents: Any, fun: Function
) -> tuple[list[Value], list[Value]]:
    """The inputs that have derivatives, and for each its cotangent by the rule.

    Raises TraceError (PK0706) if the cotangents do not have the structure of the arguments.
    """
    is_several = isinstance(cotangents, tuple | list)
    several = cast("tuple[Any, ...]", cotangents if is_several else (cotangents,))
    if len(several) != len(given):
        raise _unlike(fun, f"`bwd` gives {len(several)} cotangents for {len(given)} arguments")
    inputs: list[Value] = []
    found: list[Value] = []
    for argument, each in zip(given, several, strict=True):
        leaves, shape = tree.flatten(argument)
        if each is None:
            held = [b.zeros_like(v) for v in leaves]
        else:
            held, each_shape = tree.flatten(each)
            if each_shape != shape:
                raise _unlike(fun, "a cotangent has another structure than its argument")
        for value, cotangent in zip(leaves, held, strict=True):
            if is_differentiable(value.ssa):
                inputs.append(value)
                found.append(_like(b, cotangent, value, fun))
    return inputs, found


def _like(b: Recorder, given: Any, like: Value, fun: Function) -> Value:
    """What a rule gives for a value. Raises TraceError (PK0706) for another shape or type."""
    value = b.like(given, like) if is_number(given) else cast(Value, b.value(given))
    if value.meta != like.meta:
        raise _unlike(fun, f"the rule gives {value.meta} for {like.meta}")
    return value


def _unlike(fun: Function, problem: str) -> TraceError:
    name = getattr(fun, "__name__", "the function")
    return TraceError(
        f"custom derivative of `{name}`: {problem}", span=user_span(),
        help="derivatives have structure, shapes and element types of what they belong to",
    )  # fmt: skip


def _no_rule(fun: Function, how: str) -> UsageError:
    name = getattr(fun, "__name__", "f")
    return ArgumentError(
        f"`{name}` has no rule for its derivative", span=user_span(),
        help=f"call `{name}.{how}`",
    )  # fmt: skip
