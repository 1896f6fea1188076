"""Appends the gradients of all outputs to a program that has none, before it is split."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile, islice
from typing import cast

from xdsl.dialects import builtin as mlir
from xdsl.ir import Block, SSAValue

from pirkit.analysis.differentiation import is_differentiable, paths_between, stops_gradient
from pirkit.analysis.effects import is_pure
from pirkit.analysis.execution_order import operations
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder
from pirkit.dialect.opdef import decompose, vjp
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.dialect.ops.control.derivatives import CHECKPOINT, CUSTOM
from pirkit.dialect.types import meta_of
from pirkit.passes.autodiff import append_backward
from pirkit.passes.autodiff_custom import Custom, remove_marked
from pirkit.passes.base import PassContext
from pirkit.passes.dce import DcePass
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.functionalize import functionalize, write_backs
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.place import UNDEFINED
from pirkit.split.joint import Roles, at, name_fetched, source_of, sources_of


def differentiated(
    program: ProgramOp, *, paddle_residuals: bool = True, keep_rules: bool = False
) -> tuple[Roles, list[str]]:
    """Append the gradients of all outputs with respect to all inputs and parameters.

    In-place operations become pure ones first. Names are Paddle's: ``output_grad_0``,
    ``input_grad_0``, ``param_grad_0``, numbered by the positions of the outputs, inputs and sorted
    parameters. Returns the roles of these names, and notes about ops that stop gradients.

    With ``paddle_residuals`` derivatives read no more forward values than Paddle's gradient ops,
    where those can be decomposed. Without it, operations that have no derivative of their own are
    decomposed first. With ``keep_rules`` the program keeps derivative rules that the user wrote
    (`custom_vjp`), because it will be differentiated again.

    No gradient flows through an op that has neither a gradient op nor a rule to derive one; the
    notes name these ops. Raises UnsupportedError (PK0402) for an op whose derivative is unknown.
    """
    ctx = PassContext("split", sum(1 for _ in operations(program.block)))
    name_fetched(program)
    storage = _storage(program)
    functionalize(program, ctx)
    notes = _cut(program)
    inputs, params = sources_of(program)
    outputs = outputs_of(program)
    requested = {
        name: value
        for name, value in {**inputs, **params}.items()
        if is_differentiable(value) and not stops_gradient(value)
    }
    paths = paths_between(program.block, outputs.values(), requested.values())
    b = Builder(program.block, next(iter(write_backs(program)), None))
    positions = _positions(outputs, storage)
    targets: dict[int, tuple[SSAValue, SSAValue]] = {}
    seeds: dict[str, str] = {}
    for name, value in outputs.items():
        if value not in paths.active:
            continue
        position = positions[name]
        seeds[name] = _fresh(f"output_grad_{position}", inputs)
        if position not in targets:
            targets[position] = (value, _seed(b, seeds[name], value))
    found = append_backward(
        program,
        [value for value, _ in targets.values()],
        list(requested.values()),
        [seed for _, seed in targets.values()],
        paddle_residuals=paddle_residuals,
    )
    for op in list(operations(program.block)):
        if op.name == CHECKPOINT or (op.name == CUSTOM and not keep_rules):
            remove_marked(op)
        elif op.name == CUSTOM:
            _read_results(op)
    gradients: dict[str, str] = {}
    for (name, _), gradient in zip(requested.items(), found, strict=True):
        if gradient is None:
            continue
        kind, names = ("input", list(inputs)) if name in inputs else ("param", sorted(params))
        gradients[name] = _fresh(f"{kind}_grad_{names.index(name)}", outputs)
        b("pir.shadow_output", b.wrap(gradient), output_name=gradients[name])
    module = program.parent_op()
    DcePass().run(ctx, cast(mlir.ModuleOp, module))
    return Roles(seeds, gradients, storage), notes


def _read_results(op: PirOp) -> None:
    """Replace later uses of the outputs of a function that has its own rule by results of the rule.

    So a second derivative, too, follows the rule of the user.
    """
    custom = Custom.of(op)
    ops = cast(Block, op.parent).ops
    after = set(map(id, islice(dropwhile(lambda o: o is not op, ops), 1, None)))
    for value, result in zip(custom.outputs, op.results, strict=True):
        if value not in custom.inputs:
            value.replace_uses_with_if(result, lambda use: id(use.operation) in after)


def _cut(program: ProgramOp) -> list[str]:
    """Stop gradients at pure ops that have no vjp rule and no decomposition.

    Returns one note for each such op.
    """
    notes: list[str] = []
    for op in operations(program.block):
        definition = op.definition
        if definition.dialect != "pd_op" or not is_pure(op):
            continue
        has_rule = any(table.get(definition) is not None for table in (vjp, decompose))
        is_given = any(map(is_differentiable, op.operands))
        is_made = any(map(is_differentiable, op.results))
        if has_rule or not (is_given and is_made):
            continue
        notes.append(f"no gradient flows through `{op.name}`{at(op)}: it has none")
        op.attributes["stop_gradient"] = encode("bool[]", (True,) * len(op.result_slots))
    return notes


def _storage(program: ProgramOp) -> dict[str, str]:
    """Output -> the input or parameter in whose storage it is, before in-place ops become pure."""
    names = {value: name for name, value in inputs_of(program).items()}
    found: dict[str, str] = {}
    for name, value in outputs_of(program).items():
        source = source_of(value)
        if source is not None:
            found[name] = names[source]
    return found


def _positions(outputs: Mapping[str, SSAValue], storage: Mapping[str, str]) -> dict[str, int]:
    """The position of each output in ``fo``, where each storage occurs once."""
    first: dict[SSAValue | str, int] = {}
    return {n: first.setdefault(storage.get(n, v), len(first)) for n, v in outputs.items()}


def _seed(b: Builder, name: str, value: SSAValue) -> SSAValue:
    """A new input for the gradient of an output (a seed of reverse mode)."""
    meta = cast(TensorMeta, meta_of(value.type))
    made = b("pd_op.data", name=name, shape=meta.shape, dtype=meta.dtype, place=UNDEFINED)
    return made.ssa


def _fresh(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name
