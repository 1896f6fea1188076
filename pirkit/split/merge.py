"""Joins two programs into one: the inverse of a split."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from pirkit.diag.errors import ArgumentError
from pirkit.dialect.kinds import OUTPUT
from pirkit.dialect.op_form import KEYWORD
from pirkit.dialect.operation import PirOp, ProgramOp, create, declares, span_of
from pirkit.passes.differentiate import outputs_of
from pirkit.passes.symbolic_dims import inputs_of
from pirkit.split.joint import Roles
from pirkit.split.split_result import SplitNames


def joined(forward: ProgramOp, backward: ProgramOp, names: SplitNames) -> tuple[ProgramOp, Roles]:
    """Concatenate a forward and a backward program; returns the joint program and its roles.

    Gradients of outputs become arguments of the joint program. The two programs are not changed;
    they may be those that Paddle produces. Raises ArgumentError (PK0701) if the backward takes a
    value that the forward does not return.
    """
    seeds = [name for name in names.bo_g if name is not None and name in inputs_of(backward)]
    seeds = list(dict.fromkeys(seeds))
    taken = inputs_of(backward)
    program = ProgramOp.build(
        "main",
        [*(a.type for a in forward.block.args), *(taken[name].type for name in seeds)],
        [
            *(entry.data for entry in forward.arg_attrs),
            *({KEYWORD: StringAttr(name)} for name in seeds),
        ],
    )
    ModuleOp([program])
    values: dict[SSAValue, SSAValue] = {}
    count = len(forward.block.args)
    for old, new in zip(forward.block.args, program.block.args[:count], strict=True):
        values[old] = new
    for op in forward.operations:
        if not declares(op, OUTPUT):
            program.block.add_op(op.clone(values))
    given = {name: values[v] for name, v in {**outputs_of(forward), **inputs_of(forward)}.items()}
    for name in dict.fromkeys(names.fo):
        _name(program, given[name], name)
    boundary = len(list(program.operations))
    given.update(zip(seeds, program.block.args[count:], strict=True))
    for name, value in taken.items():
        if name not in given:
            raise ArgumentError(
                f"@{backward.symbol} takes `{name}`, which @{forward.symbol} does not give",
                span=span_of(backward),
                help="give the backward program that was split together with this forward one",
            )
        values[value] = given[name]
    sources = {v.owner for v in taken.values() if isinstance(v.owner, PirOp)}
    for op in backward.operations:
        if op not in sources and not declares(op, OUTPUT):
            program.block.add_op(op.clone(values))
    found = outputs_of(backward)
    gradients: dict[str, str] = {}
    pairs = zip((*names.fx, *names.fp), (*names.bx_g, *names.bp_g), strict=True)
    for number, (source, gradient) in enumerate(pairs):
        if gradient is not None:
            gradients[source] = f"{gradient}_{number}" if gradient in given else gradient
            if gradients[source] not in outputs_of(program):
                _name(program, values[found[gradient]], gradients[source])
    positions = zip(names.fo, names.bo_g, strict=True)
    return program, Roles(
        seeds={output: seed for output, seed in positions if seed in seeds},
        gradients=gradients,
        forward_ops=boundary,
    )


def _name(program: ProgramOp, value: SSAValue, name: str) -> None:
    properties = {"output_name": StringAttr(name)}
    program.block.add_op(create("pir.shadow_output", [value], [], properties))
