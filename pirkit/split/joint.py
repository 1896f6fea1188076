"""A joint program (forward and gradients in one), and the roles of its inputs and outputs.

`joint_of` sorts its operations into forward and backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from xdsl.ir import BlockArgument, Operation, SSAValue

from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import ArgumentError
from pirkit.dialect.kinds import OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.operation import PirOp, ProgramOp, bodies, create, declares, span_of
from pirkit.passes.differentiate import GRAD, outputs_of
from pirkit.passes.functionalize import write_backs
from pirkit.passes.symbolic_dims import inputs_of


class Roles(Struct, frozen=True):
    """Which outputs of a joint program are gradients, and which inputs are gradients of outputs.

    Inputs and outputs without a role belong to the forward program.
    """

    seeds: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output -> the input that holds its gradient."""
    gradients: Mapping[str, str] = field(default_factory=dict[str, str])
    """Input or parameter -> the output that holds its gradient."""
    storage: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output -> the input or parameter whose storage it has, where in-place ops that showed it are
    gone."""
    forward_ops: int | None = None
    """Number of leading operations that are the forward program; None: derived from the seeds."""


class Joint(Struct, frozen=True):
    """A joint program with its operations sorted; the program is the split's own copy."""

    program: ProgramOp
    roles: Roles
    inputs: dict[str, SSAValue]
    params: dict[str, SSAValue]
    seeds: dict[str, SSAValue]
    outputs: dict[str, SSAValue]
    gradients: dict[str, SSAValue]
    """Input or parameter -> its gradient."""
    forward: tuple[PirOp, ...]
    """The operations of the forward program, without those that define seeds or name outputs."""
    backward: tuple[PirOp, ...]
    is_exact: bool
    """True if each value has a single version, so that the backward reads what it names: nothing
    writes except the write-backs to inputs and parameters at the end."""
    floating: frozenset[PirOp] = frozenset()
    """Forward operations that may run in either program, because only the backward reads them."""


def roles_by_name(program: ProgramOp) -> Roles:
    """The roles by the names that ``autodiff{seeds=true}`` gives: ``y`` and ``y_grad``."""
    inputs, outputs = inputs_of(program), outputs_of(program)
    return Roles(
        {name: name + GRAD for name in outputs if name + GRAD in inputs},
        {name: name + GRAD for name in inputs if name + GRAD in outputs},
    )


def joint_of(program: ProgramOp, roles: Roles) -> Joint:
    """Sort the operations and names of a joint program into forward and backward.

    The backward starts at the first operation that reads a seed, or that defines a seed after the
    first forward operation. After that point, operations that name outputs, and write-backs that
    read no gradient, still belong to the forward program.

    Raises ArgumentError (PK0701) for a role whose name the program does not have, and for an output
    that the backward computes. The program is changed, and belongs to the result.
    """
    name_fetched(program)
    sources = inputs_of(program)
    outputs = outputs_of(program)
    _check(program, roles, sources, outputs)
    inputs, params = sources_of(program)
    seeds = {name: inputs.pop(name) for name in dict.fromkeys(roles.seeds.values())}
    gradients = {source: outputs[name] for source, name in roles.gradients.items()}
    for name in set(roles.gradients.values()):
        del outputs[name]
    seed_ops = {v.owner for v in seeds.values()}
    ops = [o for o in program.operations if o not in seed_ops and not declares(o, OUTPUT)]
    boundary = _boundary(program, roles, set(seeds.values()))
    forward: list[PirOp] = []
    backward: list[PirOp] = []
    tainted: set[SSAValue] = set(seeds.values())
    positions = {op: index for index, op in enumerate(program.operations)}
    tail = set(write_backs(program))
    for op in ops:
        is_late = positions[op] >= boundary and not declares(op, SOURCE)
        if is_late and not (op in tail and not any(v in tainted for v in op.operands)):
            backward.append(op)
            tainted.update(op.results)
        else:
            forward.append(op)
    for name, value in outputs.items():
        if value in tainted:
            raise ArgumentError(
                f"output `{name}` of @{program.symbol} is computed in the backward",
                span=span_of(program),
                help="it depends on a seed, or on what comes after the first `forward_ops`"
                " operations",
            )
    writers = (op for op in operations(program.block) if op.definition.writes)
    return Joint(
        program=program,
        roles=roles,
        inputs=inputs,
        params=params,
        seeds=seeds,
        outputs=outputs,
        gradients=gradients,
        forward=tuple(forward),
        backward=tuple(backward),
        is_exact=all(op in tail for op in writers),
    )


def sources_of(program: ProgramOp) -> tuple[dict[str, SSAValue], dict[str, SSAValue]]:
    """The inputs of a program in order, and its parameters sorted by name."""
    inputs: dict[str, SSAValue] = {}
    params: dict[str, SSAValue] = {}
    for name, value in inputs_of(program).items():
        owner = value.owner
        is_parameter = declares(owner, PARAMETER)
        (params if is_parameter else inputs)[name] = value
    return inputs, dict(sorted(params.items()))


def source_of(value: SSAValue) -> SSAValue | None:
    """The input or parameter whose tensor a value is, through in-place ops and aliases of its type.

    None for other values, among them views of another type.
    """
    while not _is_source(value):
        owner = value.owner
        if not isinstance(owner, PirOp):
            return None
        definition = owner.definition
        pairs = {**definition.views, **(definition.inplace if definition.writes else {})}
        before = next(
            (
                owner.operand_named(operand)
                for result, operand in pairs.items()
                if owner.result_named(result) is value
            ),
            None,
        )
        if before is None or before.type != value.type:
            return None
        value = before
    return value


def _is_source(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(value, BlockArgument):
        return isinstance(owner.parent_op(), ProgramOp)
    return declares(owner, SOURCE)


def stored_values(joint: Joint) -> dict[SSAValue, SSAValue]:
    """Value that a write-back stores in an input or parameter -> that input or parameter.

    After the forward it holds the value, and the backward reads it there: the end of an in-place
    chain that begins with a parameter is no middle of its own (PaddlePaddle/Paddle#63040).
    """
    pairs = [op.operands for op in write_backs(joint.program) if op in joint.forward]
    return {value: target for value, target in pairs if value.type == target.type}


def at(op: Operation) -> str:
    """The location of an operation as text for messages: `` at file:line``, or nothing."""
    span = span_of(op)
    return f" at {span}" if span is not None else ""


def name_fetched(program: ProgramOp) -> None:
    """Turn the fetches of an inference program into named outputs, in order of their columns."""
    fetches = [op for op in program.operations if op.name == "pd_op.fetch"]
    for op in sorted(fetches, key=lambda op: op.attribute("col")):
        (value,) = op.operands
        name = op.properties["name"]
        op.results[0].replace_all_uses_with(value)
        program.block.add_op(
            create("pir.shadow_output", [value], [], {"output_name": name}, location=op.location)
        )
        op.detach()
        op.erase()


def _boundary(program: ProgramOp, roles: Roles, seeds: set[SSAValue]) -> int:
    """The index of the first operation of the backward."""
    if roles.forward_ops is not None:
        return roles.forward_ops
    has_begun = False
    for index, op in enumerate(program.operations):
        if any(r in seeds for r in op.results):
            if has_begun:
                return index
        elif not declares(op, SOURCE):
            has_begun = True
        if any(v in seeds for v in _read(op)):
            return index
    return len(list(program.operations))


def _read(op: PirOp) -> Iterator[SSAValue]:
    yield from op.operands
    for region in bodies(op):
        for inner in operations(region.block):
            yield from inner.operands


def _check(
    program: ProgramOp,
    roles: Roles,
    sources: Mapping[str, SSAValue],
    outputs: Mapping[str, SSAValue],
) -> None:
    """Raise ArgumentError (PK0701) for a role with a name that the program does not have."""
    for what, names, known in (
        ("output", [*roles.seeds, *roles.gradients.values()], outputs),
        ("input", [*roles.seeds.values(), *roles.gradients], sources),
    ):
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"@{program.symbol} has no {what} `{name}`",
                    span=span_of(program),
                    help=f"it has {', '.join(known) or 'none'}",
                )
