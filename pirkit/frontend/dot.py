"""Writes a module as a graph for Graphviz: operations are boxes, values are edges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from xdsl.dialects import builtin as mlir
from xdsl.ir import Block, Operation, SSAValue

from pirkit.dialect.kinds import TERMINATOR
from pirkit.dialect.operation import ProgramOp, bodies, declares


def write_dot(module: mlir.ModuleOp) -> str:
    """The text in the DOT language; each program and each region is a cluster."""
    lines = ["digraph pirkit {", "  node [shape=box, fontname=monospace];"]
    numbers: dict[Operation, int] = {}
    clusters = count()
    for program in module.ops:
        if isinstance(program, ProgramOp):
            lines += _cluster(program.block, f"@{program.symbol}", numbers, clusters, "  ")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _cluster(
    block: Block, label: str, numbers: dict[Operation, int], clusters: Iterator[int], indent: str
) -> Iterator[str]:
    """The lines of a block; ``numbers`` gets a number for each operation, which names its box."""
    yield f"{indent}subgraph cluster_{next(clusters)} {{ label={_quoted(label)};"
    for op in block.ops:
        if declares(op, TERMINATOR):
            continue
        number = numbers.setdefault(op, len(numbers))
        yield f"{indent}  n{number} [label={_quoted(_label(op))}];"
        for value in op.operands:
            yield from _edge(value, number, numbers, indent)
        for index, region in enumerate(bodies(op)):
            yield from _cluster(
                region.block, f"{op.name} {index}", numbers, clusters, indent + "  "
            )
    yield f"{indent}}}"


def _edge(
    value: SSAValue, number: int, numbers: dict[Operation, int], indent: str
) -> Iterator[str]:
    owner = value.owner
    if isinstance(owner, Operation) and owner in numbers:
        yield f"{indent}  n{numbers[owner]} -> n{number} [label={_quoted(str(value.type))}];"


def _quoted(label: str) -> str:
    """A string of the DOT language."""
    return json.dumps(label, ensure_ascii=False)


def _label(op: Operation) -> str:
    """The name of the op, and below it that of the parameter, output or input, if it is one."""
    for key in ("parameter_name", "output_name", "name"):
        held = op.properties.get(key)
        if isinstance(held, mlir.StringAttr):
            return f"{op.name}\n{held.data}"
    return op.name
