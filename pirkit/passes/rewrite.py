"""Passes made of one function, which emits the replacement of an op."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.alias import is_overwritten
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import ArgumentError
from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.operation import PirOp
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.decompose import expand, require_op
from pirkit.passes.replace_ops import stops_gradient


class PatternCall(OpCall):
    """The call at the root of a pattern; rules follow its operands to their definitions."""

    def made_by(self, operand: str, *ops: str) -> PatternCall | None:
        """The call whose result is this operand, if it is one of these ops; else None.

        None too if the operand is no single tensor, if it stops gradients that the operands of that
        call do not stop, or if something in the program writes what that call reads or returns:
        here it may have other contents than there.
        """
        value = self.operand(operand)
        maker = value.ssa.owner if isinstance(value, Value) else None
        if not isinstance(maker, PirOp) or maker.name not in {require_op(op).name for op in ops}:
            return None
        if any(map(is_overwritten, (*maker.operands, *maker.results))):
            return None
        if stops_gradient(value.ssa) and not all(map(stops_gradient, maker.operands)):
            return None
        return PatternCall(self.b, maker)


class RewritePass(Pass):
    """Replaces ops of some names by the ops that ``rule`` emits."""

    stats = Stats(rewritten="operations rewritten")
    ops: ClassVar[frozenset[str]]

    @staticmethod
    @abstractmethod
    def rule(call: Any, /, **options: Any) -> Any:
        """Emit the replacement of a call and return its results; NotImplemented leaves the call."""

    def _found(self, call: OpCall, options: dict[str, Any]) -> Any:
        found: Any = self.rule(PatternCall(call.b, call.op), **options)
        values: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
        if len(values) > len(call.op.result_slots):
            raise TypeError(f"the rule returns {len(values)} values, which are too many")
        for value in values:
            if not (value is NotImplemented or isinstance(value, Value | list)):
                raise TypeError(f"the rule returns {value!r}, which is no value of `call.b`")
        return cast(Any, found)

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        options = {f.name: getattr(self, f.name) for f in self.options()}
        for program in ctx.programs(module):
            for op in ctx.each(list(operations(program.block))):
                if op.name in self.ops and op.parent is not None:
                    ctx.rewrote(self.name, op)  # the rule may still refuse
                    emitted = expand(op, lambda call: self._found(call, options), self.name)
                    ctx.count("rewritten", int(emitted is not None))


def rewrite(*ops: str) -> Callable[[Callable[..., Any]], type[RewritePass]]:
    """Decorator that makes a pass of a function, which emits the replacement of ops of some names.

    ::

        @rewrite("relu")
        def relu_to_silu(call, *, slope: float = 1.0):
            '''Use SiLU in the place of ReLU.'''
            return call.b.silu(call.x * slope)

    The function gets the call as rules of decompositions do (`pirkit.dialect.opcall.OpCall`):
    ``call.x`` is an operand or an attribute by its name, ``call.b`` builds ops. It returns the
    result, a tuple of several, or NotImplemented to leave this call as it is. A pattern of several
    ops is rooted at the last one: ``call.made_by("x", "matmul")`` is the call that defines ``x`` if
    that is a matmul, and None if not. The function's name, with "-" for "_", is that of the pass,
    its docstring the manual page, and its parameters that are given by keyword are the options.

    Raises UsageError (PK0703) for an op that does not exist, and ArgumentError (PK0701) if no op is
    named, if the function does not take one call, or if an option has no default or a name that
    passes use themselves.
    """
    if not ops or not all(isinstance(cast(object, op), str) for op in ops):
        raise ArgumentError(
            "`rewrite` takes the names of ops", help='`@rewrite("relu")` above a function'
        )
    names = frozenset(require_op(name).name for name in ops)

    def enter(rule: Callable[..., Any]) -> type[RewritePass]:
        given = inspect.signature(rule).parameters.values()
        lacking = [p.name for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        if lacking or sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in given) != 1:
            raise ArgumentError(
                f"option `{lacking[0]}` of `{rule.__name__}` has no default"
                if lacking
                else f"`{rule.__name__}` does not take one call",
                help="for instance `def relu_to_silu(call, *, slope: float = 1.0):`",
            )
        own = {"name", "ops", *dir(RewritePass)}
        taken = [p.name for p in given if p.kind is p.KEYWORD_ONLY and p.name in own]
        if taken:
            raise ArgumentError(
                f"option `{taken[0]}` of `{rule.__name__}` has a name that passes use themselves",
                help="call it otherwise",
            )
        options: list[tuple[str, Any, Any]] = [
            (p.name, type(p.default) if p.annotation is p.empty else p.annotation,
             option(p.default, f"a {type(p.default).__name__}"))
            for p in given if p.kind is p.KEYWORD_ONLY
        ]  # fmt: skip
        held = {"name": rule.__name__.replace("_", "-"), "ops": names, "rule": staticmethod(rule)}
        held |= {"__doc__": rule.__doc__ or "", "__module__": rule.__module__}
        held |= {"__qualname__": rule.__qualname__}
        bases = (RewritePass,)
        return make_dataclass(rule.__name__, options, bases=bases, namespace=held, frozen=True)

    return enter
