"""Moves values that depend on parameters alone into a program of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from pirkit.analysis.frozen_values import PARAMETER, frozen_values
from pirkit.dialect.attrs import encode
from pirkit.dialect.operation import PirOp, ProgramOp, create
from pirkit.dialect.types import meta_of
from pirkit.passes.base import Pass, PassContext, Stats, option
from pirkit.passes.replace_ops import erase
from pirkit.runtime.meta import TensorMeta

SUFFIX: Final = "_constants"
"""The program `@main` gets its constants from `@main_constants`."""
_GROWTH: Final = 6
"""How many times the bytes of its parameters a constant may have. A filter in Winograd's domain has
four times as many, and more where channels are filled up to whole blocks."""


@dataclass(frozen=True)
class HoistConstantsPass(Pass):
    """Move values computed from parameters and constants alone into a program of their own.

    The results of `@main_constants` are parameters of `@main`, by name: whoever runs the program
    many times computes them once, as `pirkit.compile(program, freeze=True)` does. A value that is
    much larger than the parameters that it comes from, as a broadcast is, stays where it is. What
    depends on no parameter is left to `constant-fold`. A program that has such constants already
    is left alone.

    ::

        %w = pir.parameter() {parameter_name = "w"} : () -> tensor<2x3xf32>
        %t = pd_op.transpose(%w) {perm = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
        // becomes, and @main_constants computes %t
        %t = pir.parameter() {parameter_name = "constant_0"} : () -> tensor<3x2xf32>
    """

    name = "hoist-constants"
    stats = Stats(hoisted="operations moved", constants="values that became parameters")

    max_growth: int = option(65536, "bytes by which a value may exceed six times its parameters")

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in list(ctx.programs(module)):
            if program.symbol.endswith(SUFFIX):
                continue
            if f"{program.symbol}{SUFFIX}" in {p.symbol for p in ctx.programs(module)}:
                ctx.remark("missed", f"@{program.symbol} has a program of constants", program)
            else:
                self.hoist(ctx, module, program)

    def hoist(self, ctx: PassContext, module: ModuleOp, program: ProgramOp) -> None:
        frozen = frozen_values(program)
        sources = _sources(program, frozen)
        moved = {v for v in frozen if sources[v] and self.is_small(v, sources[v])
                 and isinstance(meta_of(v.type), TensorMeta)}  # fmt: skip
        wanted: list[SSAValue] = [v for op in program.block.ops for v in op.results if v in moved
                  and op.name != PARAMETER and _is_left(v, moved)]  # fmt: skip
        if not wanted:
            return
        apart = ProgramOp.build(program.symbol + SUFFIX)
        self.copy(apart, program, wanted)
        module.body.block.insert_op_after(apart, program)
        taken = {str(op.attribute("parameter_name")) for op in program.block.ops
                 if isinstance(op, PirOp) and op.name == PARAMETER}  # fmt: skip
        number = 0
        for value, output in zip(wanted, _outputs(apart), strict=True):
            while f"constant_{number}" in taken:
                number += 1
            name = f"constant_{number}"
            number += 1
            output.properties["output_name"] = encode("str", name)
            owner = value.owner
            assert isinstance(owner, PirOp)
            ctx.rewrote("constant", owner)
            ctx.count("constants")
            held = {"parameter_name": encode("str", name)}
            made = create(PARAMETER, (), (value.type,), held, location=owner.location)
            program.block.insert_op_before(made, owner)
            made.results[0].name_hint = value.name_hint
            value.replace_all_uses_with(made.results[0])
        for op in reversed(list(program.block.ops)):
            own = op.results and all(v in frozen for v in op.results)
            if own and not any(r.uses for r in op.results):
                ctx.count("hoisted", int(op.name != PARAMETER))
                erase(op)

    def is_small(self, value: SSAValue, sources: frozenset[SSAValue]) -> bool:
        held = sum(_bytes(s) for s in sources)
        return _bytes(value) <= _GROWTH * held + self.max_growth

    def copy(self, apart: ProgramOp, program: ProgramOp, wanted: list[SSAValue]) -> None:
        """Copy the operations that the wanted values need, in order, and add outputs for them."""
        needed: set[Operation] = set()
        stack = [v.owner for v in wanted]
        while stack:
            op = stack.pop()
            if isinstance(op, Operation) and op not in needed:
                needed.add(op)
                stack += [v.owner for v in op.operands]
        copies: dict[SSAValue, SSAValue] = {}
        for op in program.block.ops:
            if op in needed:
                apart.block.add_op(op.clone(copies))
        for value in wanted:
            held = {"output_name": encode("str", "")}
            apart.block.add_op(create("pir.shadow_output", (copies[value],), (), held))


def _sources(
    program: ProgramOp, frozen: Mapping[SSAValue, bool]
) -> dict[SSAValue, frozenset[SSAValue]]:
    """The parameters that each frozen value is computed from."""
    found: dict[SSAValue, frozenset[SSAValue]] = {}
    for op in program.block.ops:
        for value in op.results:
            if value in frozen:
                own = [found[v] for v in op.operands]
                is_source = op.name == PARAMETER
                found[value] = (
                    frozenset([value]) if is_source else frozenset[SSAValue]().union(*own)
                )
    return found


def _is_left(value: SSAValue, moved: set[SSAValue]) -> bool:
    """True if an operation that stays in the program uses the value."""
    return any(not u.operation.results or u.operation.results[0] not in moved for u in value.uses)


def _outputs(program: ProgramOp) -> list[Operation]:
    return [op for op in program.block.ops if op.name == "pir.shadow_output"]


def _bytes(value: SSAValue) -> int:
    meta = meta_of(value.type)
    known = isinstance(meta, TensorMeta) and meta.is_static
    return meta.numel * meta.dtype.itemsize if known and isinstance(meta, TensorMeta) else 0
