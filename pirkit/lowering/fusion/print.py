"""Prints the kernels of a module, and explains why two ops are not in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from pirkit.analysis.declared_types import mismatched_values
from pirkit.analysis.execution_order import operations
from pirkit.diag.errors import UsageError
from pirkit.dialect.map_expr.cinn_outline import outline
from pirkit.dialect.map_expr.kernel_op import KernelOp
from pirkit.dialect.operation import ProgramOp
from pirkit.lowering.fusion.explain import Explainer
from pirkit.lowering.fusion.fuse_pass import FusePass, plan_fusion, storage_of
from pirkit.lowering.fusion.groups import DEFAULT, Policy
from pirkit.lowering.fusion.value_names import named_ops, names_of
from pirkit.passes.base import PassContext


def print_map_exprs(module: ModuleOp) -> str:
    """All kernels of a module in the text form of CINN; a module without kernels is fused first."""
    if not any(True for _ in _kernels(module)):
        module = module.clone()
        FusePass(single=True).run(PassContext("fuse", ops=1 << 20), module)
    return "".join(
        outline(op.kernel, [names[v] for v in op.operands]) for names, op in _kernels(module)
    )


def _kernels(module: ModuleOp) -> Iterator[tuple[Mapping[SSAValue, str], KernelOp]]:
    """The kernels of a module, each with the value names of its program."""
    for program in module.ops:
        if isinstance(program, ProgramOp):
            names = names_of(program)
            for op in operations(program.block):
                if isinstance(op, KernelOp):
                    yield names, op


def why_not_fused(module: ModuleOp, first: str, second: str, policy: Policy = DEFAULT) -> str:
    """Whether the ops that define two values are in one kernel; if not, the refusal as text.

    For two ops in one kernel, the text includes the choice that was made if one needs the other at
    several indices. Values are named as in the program, without ``%``. Raises UsageError for a name
    that does not exist.
    """
    for program in module.ops:
        if not isinstance(program, ProgramOp):
            continue
        named = named_ops(program)
        one, other = named.get(first), named.get(second)
        if one is None or other is None or one.parent_block() is not other.parent_block():
            continue
        found = plan_fusion(
            cast(Block, one.parent_block()),
            policy,
            (),
            storage_of(program),
            mismatched_values(program.block),
        )
        explainer = Explainer(found.equations, found.partition, names_of(program), policy)
        refusal = explainer.refusal(one, other)
        if refusal is not None:
            return str(refusal)
        chosen = (c for group in found.partition.groups for c in group.chosen)
        about = (c for c in chosen if {one, other} <= {c.reader.op, *(u.op for u in c.values)})
        notes = "".join(f"\n  {c}" for c in about)
        return f"%{first} and %{second} are in one kernel{notes}"
    made = {name for program in module.ops if isinstance(program, ProgramOp)
            for name in named_ops(program)}  # fmt: skip
    unmade = [f"%{name}" for name in (first, second) if name not in made]
    raise UsageError(
        f"no operation makes {' or '.join(unmade)}"
        if unmade
        else f"%{first} and %{second} are made in different blocks",
        help="names are those of the program that is printed: `pirkit-opt FILE -p PASSES`",
    )
