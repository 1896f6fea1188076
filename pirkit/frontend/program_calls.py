"""Calls of programs as functions: computed for tensors, recorded for traced values.

So a network from a file is a function of its inputs, of which pirkit takes derivatives::

    net = pirkit.load("net.json")
    gradient = pirkit.grad(lambda x: net(x).sum())(x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from xdsl.ir import SSAValue

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.build import Value
from pirkit.dialect.kinds import OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.operation import ProgramOp, declares, span_of
from pirkit.dialect.program import Program
from pirkit.dialect.types import meta_of
from pirkit.frontend.control_flow import entered
from pirkit.frontend.tracing import Recorder
from pirkit.passes.base import PassContext
from pirkit.passes.dce import DcePass
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.functionalize import without_writes, write_backs
from pirkit.passes.infer_meta import InferMetaPass
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.meta import UNKNOWN, TensorMeta, compatible


def call_program(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The implementation of `Program.__call__`: one output, or a tuple of several.

    Raises ArgumentError (PK0701) for inputs that are missing, unknown, given twice or of another
    type, for a parameter without content, and for a program that writes its parameters.
    """
    main = program.main
    declared = inputs_of(main)
    named = {n: v for n, v in declared.items() if not declares(v.owner, PARAMETER)}
    given = dict(zip(named, args, strict=False))
    twice, missing = given.keys() & kwargs.keys(), named.keys() - given.keys() - kwargs.keys()
    unknown = kwargs.keys() - declared.keys()
    if twice or missing or unknown or len(args) > len(named) or not named:
        raise ArgumentError(
            f"@{main.symbol} takes {', '.join(f'`{n}`' for n in named) or 'no inputs'}, and got "
            f"{len(args)} by position" + (f" and {', '.join(kwargs)}" if kwargs else ""),
            span=span_of(main),
            help="give each input once" if named else "`pirkit.compile(program)()` runs it",
        )
    given |= kwargs

    def recorded(b: Recorder, *values: Value) -> Any:
        found = _inlined(b, program, dict(zip(given, values, strict=True)))
        return found[0] if len(found) == 1 else tuple(found)

    return entered(recorded, *given.values())


def _inlined(b: Recorder, program: Program, given: Mapping[str, Value]) -> list[Value]:
    """The outputs of a program whose operations are put into the program that ``b`` records."""
    module = program.copy().module
    main = Program(module).main
    ctx = PassContext("call", 0)
    without_writes(main, ctx)
    DcePass().run(ctx, module)
    _bind(main, given)
    stored = write_backs(main)
    if stored:  # an update of a parameter would be lost
        raise ArgumentError(
            f"the program writes `{_name_of(main, stored[0].operands[1])}`"
            ", and the call of a function keeps no state",
            span=span_of(stored[0]),
            help="capture the network for evaluation, or use `pirkit.split.RunnableProgram`",
        )
    values: dict[SSAValue, SSAValue] = {}
    for name, value in inputs_of(main).items():
        held = given.get(name)
        values[value] = (b.own(held) if held is not None else _weight(b, program, name)).ssa
    location = b.location
    for op in main.operations:
        if not declares(op, SOURCE) and not declares(op, OUTPUT) and op.name != _FETCH:
            b.location = op.location
            b.insert(op.clone(values))
    b.location = location
    return [b.wrap(values[v]) for v in (outputs_of(main) or _fetched(main)).values()]


_FETCH: Final = "pd_op.fetch"


def _name_of(main: ProgramOp, source: SSAValue) -> str:
    return next(name for name, value in inputs_of(main).items() if value is source)


def _fetched(main: ProgramOp) -> dict[str, SSAValue]:
    """The outputs of an inference program."""
    fetches = [op for op in main.operations if op.name == _FETCH]
    fetches.sort(key=lambda op: op.attribute("col"))
    return {op.attribute("name"): op.operands[0] for op in fetches}


def _weight(b: Recorder, program: Program, name: str) -> Value:
    if name not in program.params:
        raise ArgumentError(
            f"the program has no content of its parameter `{name}`",
            help="`pirkit.load(path, params=...)` reads it, `program.params[name] = array` sets it",
        )
    return b.capture(program.params[name])


def _bind(main: ProgramOp, given: Mapping[str, Value]) -> None:
    """Check shapes and element types, and infer types again if dynamic sizes are now known."""
    declared = {name: meta_of(inputs_of(main)[name].type) for name in given}
    for name, value in given.items():
        if not compatible(declared[name], value.meta):
            raise ArgumentError(
                f"input `{name}` of @{main.symbol} is a {declared[name]}, not a {value.meta}",
                span=span_of(main),
                help="change the argument with `reshape` and `cast`",
            )
    open_ = [n for n, m in declared.items() if isinstance(m, TensorMeta) and UNKNOWN in m.shape]
    if open_:
        sizes = {n: ["?" if d == UNKNOWN else str(d) for d in given[n].shape] for n in open_}
        bind = tuple([f"{name}:{'x'.join(s)}" for name, s in sizes.items()])
        InferMetaPass(bind=bind, symbols=("none",)).run(PassContext("call", 0), _module(main))


def _module(main: ProgramOp) -> Any:
    return main.parent_op()
