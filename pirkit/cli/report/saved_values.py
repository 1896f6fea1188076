"""The values that a split saves for its backward program, with their producers and readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from xdsl.dialects import builtin as mlir
from xdsl.dialects.builtin import ModuleOp

from pirkit.analysis.execution_order import operations
from pirkit.cli.report.snapshots import Snapshots, programs
from pirkit.dialect.kinds import OUTPUT, PARAMETER, SOURCE
from pirkit.dialect.operation import PirOp, ProgramOp, declares, host_name
from pirkit.dialect.type_sizes import bytes_of


def saved_facts(module: ModuleOp, snapshots: Snapshots) -> Iterator[dict[str, Any]]:
    """The arguments of each backward program that its forward program gives, the largest first."""
    made = {
        host_name(op): op
        for program in programs(module)
        if "fo" in program.attributes
        for op in operations(program.block)
        if declares(op, OUTPUT) or declares(op, SOURCE)
    }
    found = [
        fact
        for program in programs(module)
        if "bo_g" in program.attributes
        for fact in _arguments(program, made, snapshots)
    ]
    yield from sorted(found, key=lambda fact: -fact["bytes"])


def _arguments(
    program: ProgramOp, made: dict[str, PirOp], snapshots: Snapshots
) -> Iterator[dict[str, Any]]:
    seeds, shapes = _names(program, "bo_g"), _names(program, "no_need_buffers")
    outputs = _names(program, "bo")
    for name, argument in zip(program.keywords, program.block.args, strict=True):
        maker = made.get(name)
        if name in seeds or maker is None:
            continue
        how = "output" if name in outputs else "middle"
        if declares(maker, OUTPUT):
            owner = maker.operands[0].owner
            maker = owner if isinstance(owner, PirOp) else maker
        else:
            how = "parameter" if declares(maker, PARAMETER) else "input"
        yield {
            "name": name,
            "how": "shape" if name in shapes else how,
            "type": str(argument.type),
            "bytes": 0 if name in shapes else bytes_of(argument.type),
            "maker": snapshots.row_of.get(maker, -1),
            "readers": [
                row
                for use in argument.uses
                if (row := snapshots.row_of.get(use.operation)) is not None
            ],
        }


def _names(program: ProgramOp, key: str) -> set[str]:
    held = cast("mlir.ArrayAttr[Any]", program.attributes.get(key) or mlir.ArrayAttr([]))
    return {name.data for name in held if isinstance(name, mlir.StringAttr)}
