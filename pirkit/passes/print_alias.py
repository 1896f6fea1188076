"""Remarks about which values share storage."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.printer import Printer

from pirkit.analysis.versions import Link, chains, versions_of
from pirkit.dialect.kinds import SOURCE
from pirkit.dialect.operation import ProgramOp, declares, host_name
from pirkit.passes.base import Pass, PassContext, Stats


class PrintAliasPass(Pass):
    """Report which values share storage, in the order of definition, and the writes to it.

    There is one remark (``--remarks=analysis``) for each storage that several values share or that
    is written. It shows the *chain* of the storage: the source first, then each further value with
    the version of the content at its definition. The program is not changed.

    ::

        %m = pir.parameter() {parameter_name = "mean"} : () -> tensor<4xf32>
        %a = pd_op.relu_(%m) : (tensor<4xf32>) -> tensor<4xf32>
        %b = pd_op.exp_(%m) : (tensor<4xf32>) -> tensor<4xf32>
        // chain of parameter `mean`: %m v0 -> %a v1 (relu_) -> %b v2 (exp_)
    """

    name = "print-alias"
    stats = Stats(
        chains="storages that several values share, or that are written", writes="versions made"
    )

    def run(self, ctx: PassContext, module: ModuleOp) -> None:
        for program in ctx.programs(module):
            versions = versions_of(program)
            names = _Names(program)
            ctx.count("writes", len(versions.makers))
            for element, links in sorted(chains(versions).items()):
                if len(links) > 1 or element in versions.last:
                    ctx.count("chains")
                    message = f"chain {_source(links[0].value)}{names.chain(links)}"
                    ctx.remark("analysis", message, _owner(links[0].value))


def _owner(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()


def _source(value: SSAValue) -> str:
    """The owner of a storage as remarks name it; empty if it is neither input nor parameter."""
    owner = value.owner
    if isinstance(value, BlockArgument):
        program = value.owner.parent_op()
        is_input = isinstance(program, ProgramOp)
        return f"of input `{program.keywords[value.index]}`: " if is_input else ""
    if declares(owner, SOURCE):
        kind = "parameter" if owner.name == "pir.parameter" else "input"
        return f"of {kind} `{host_name(owner)}`: "
    return ""


class _Names:
    """Names of values as in the text of the program."""

    def __init__(self, program: ProgramOp) -> None:
        self.printer = Printer(StringIO())
        for argument in program.block.args:
            self.printer.print_ssa_value(argument)
        for op in program.block.ops:
            self.printer.print_op(op)

    def chain(self, links: Sequence[Link]) -> str:
        return " -> ".join(map(self.link, links))

    def link(self, link: Link) -> str:
        name = self.printer.print_ssa_value(link.value).lstrip("%")
        owner = link.value.owner
        is_made = isinstance(owner, Operation) and not declares(owner, SOURCE)
        by = f" ({cast(Operation, owner).name.partition('.')[2]})" if is_made else ""
        return f"%{name} v{link.version}{by}"
