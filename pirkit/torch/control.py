"""Branches and loops: `torch.cond`, `while_loop`, `scan` and `map` as regions of a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.ir import Block, Region, SSAValue

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.rules import loops
from pirkit.dialect.types import type_of
from pirkit.runtime import dtype as dt
from pirkit.torch.aten_builder import AtenBuilder

Record = Callable[[Any, Sequence[Any]], tuple[AtenBuilder, list[Value]]]
"""Records a graph for operands like these on a builder of its own; gives builder and results."""


def control(b: AtenBuilder, target: str, args: list[Any], record: Record) -> Any:
    """The results of a branch or loop; NotImplemented for other nodes.

    Raises UnsupportedError (PK0403) for a `while_loop` that carries a number.
    """
    if target == "cond":
        return _cond(b, args, record)
    if target == "while_loop":
        return _while(b, args, record)
    if target == "scan":
        return _scan(b, record, *args)
    if target == "map_impl":
        return _scan(b, record, args[0], [], *args[1:])
    return NotImplemented


def _cond(b: AtenBuilder, args: list[Any], record: Record) -> list[Value]:
    """A `pd_op.if`, whose branches yield the types that torch infers."""
    condition, yes, no, *rest = args
    operands: list[Any] = list(rest[0]) if rest else []
    regions: list[Region] = []
    types: list[Any] = []
    for graph in (yes, no):
        inner, results = record(graph, operands)
        typed = [inner.cast(v, d) for v, d in zip(results, b.types, strict=True)]
        regions.append(_region(inner, typed, _tensors(operands)))
        types = [type_of(v.meta) for v in typed]
    holds = b.reshape(b.cast(condition, dt.bool_), ())
    made = b.insert(create("pd_op.if", (holds.ssa,), types, regions=regions))
    return [b.wrap(r) for r in made.results]


def _while(b: AtenBuilder, args: list[Any], record: Record) -> list[Value]:
    """A `pd_op.while`: its condition is computed before the loop and at the end of its body."""
    test, turn, state, *rest = args
    outer: list[Any] = list(rest[0]) if rest else []
    carried: list[Value] = list(state)
    if len(_tensors(carried)) < len(carried):
        raise UnsupportedError(
            "a loop carries a number", code="PK0403", help="carry a tensor without dimensions"
        )
    first = _spliced(b, record(test, [*carried, *outer]), [*carried, *outer])[0]
    inner, after = record(turn, [*carried, *outer])
    given = inner.given
    again = _spliced(inner, record(test, [*carried, *outer]), [*after, *given[len(carried) :]])[0]
    more = inner.reshape(inner.cast(again, dt.bool_), ())
    block = Block(arg_types=[type_of(v.meta) for v in carried])
    region = _region(inner, [more, *after], [*block.args, *_tensors(outer)], block)
    types = [type_of(v.meta) for v in carried]
    holds = b.reshape(b.cast(first, dt.bool_), ())
    operands = (holds.ssa, *(v.ssa for v in carried))
    made = b.insert(create("pd_op.while", operands, types, regions=[region]))
    return [b.wrap(r) for r in made.results]


def _scan(
    b: AtenBuilder, record: Record, graph: Any, first: list[Value], inputs: list[Value],
    outer: Sequence[Any] = (),
) -> list[Value]:  # fmt: skip
    """The last state, and the results of all iterations, stacked along a first dimension."""

    def step(
        _: Value, rows: list[Value], state: tuple[Value, ...]
    ) -> tuple[list[Value], list[Value]]:
        operands = [*state, *rows, *outer]
        found = _spliced(b, record(graph, operands), operands)
        return found[: len(first)], found[len(first) :]

    state, rows = loops.scan(b, step, first, inputs)
    return [*state, *rows]


def _tensors(operands: Sequence[Any]) -> list[SSAValue]:
    return [v.ssa for v in operands if isinstance(v, Value)]


def _region(
    inner: AtenBuilder, results: Sequence[Value], given: Sequence[SSAValue],
    block: Block | None = None,
) -> Region:  # fmt: skip
    """What was recorded, as a region that yields the results; ``given`` replace its inputs."""
    block = Block() if block is None else block
    stands = {id(v.ssa): g for v, g in zip(inner.given, given, strict=True)}
    yielded = [stands.get(id(v.ssa), v.ssa) for v in results]
    for value, stand in zip(inner.given, given, strict=True):
        value.ssa.replace_all_uses_with(stand)
    sources = {id(v.ssa.owner) for v in inner.given}
    for op in list(inner.program.block.ops):
        op.detach()
        if id(op) not in sources:
            block.add_op(op)
    block.add_op(create("pir.yield", yielded))
    return Region(block)


def _spliced(
    b: AtenBuilder, recorded: tuple[AtenBuilder, list[Value]], operands: Sequence[Any]
) -> list[Value]:
    """Append the operations of a recorded graph to a builder's block; gives the results.

    The tensors among ``operands`` replace the inputs of the graph.
    """
    inner, results = recorded
    given = [v for v in operands if isinstance(v, Value)]
    stands = {id(v.ssa): g for v, g in zip(inner.given, given, strict=True)}
    found = [stands.get(id(v.ssa), v) for v in results]
    for value, stand in zip(inner.given, given, strict=True):
        value.ssa.replace_all_uses_with(stand.ssa)
    sources = {id(v.ssa.owner) for v in inner.given}
    for op in list(inner.program.block.ops):
        op.detach()
        if id(op) not in sources:
            b.insert(cast(PirOp, op))
    return [b.wrap(v.ssa) for v in found]
