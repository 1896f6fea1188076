"""Branches, loops, calls, and operations that return their operands unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from xdsl.ir import Block as RegionBlock
from xdsl.ir import Region

from pirkit.dialect.build import Value
from pirkit.dialect.operation import create
from pirkit.dialect.types import type_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.stablehlo.hlo_builder import HloBuilder
from pirkit.stablehlo.nodes import Block
from pirkit.stablehlo.rules import RULES, rule

_CALLS: Final = 64
"""The deepest nesting of calls; jax writes no recursion."""


def called(b: HloBuilder, name: str, values: Sequence[Value]) -> list[Value]:
    """The results of a function of the module, inlined here.

    Raises ParseError for an unknown function (PK0103) or other argument types (PK0105).
    """
    function = b.module.functions.get(name)
    if function is None:
        raise b.malformed(f"there is no function @{name}", "PK0103")
    given = [(v.shape, v.dtype) for v in values]
    if given != [(t.sizes, t.dtype) for t in function.body.types]:
        raise b.malformed(f"@{name} is called with other types than it declares")
    held, b.caller = b.caller, b.place_of(b.node)
    b.calls += 1
    if b.calls > _CALLS:
        raise b.unsupported("nests too deep", "a function must not call itself")
    found = b.run(function.body, values, {})
    b.calls, b.caller = b.calls - 1, held
    return found


@rule("func.call")
def _(b: HloBuilder, *values: Value, callee: str) -> list[Value]:
    return called(b, callee, values)


@rule("composite")
def _(
    b: HloBuilder, *values: Value, name: str, decomposition: str = "",
    composite_attributes: Any = None, version: int = 0, composite_regions: Any = None,
) -> Any:  # fmt: skip
    """An operation of another dialect: by its rule if it has one, else by its decomposition."""
    own = RULES.get(name)
    return (
        called(b, decomposition, values)
        if own is None
        else own(b, *values, **(composite_attributes or {}))
    )


@rule("custom_call")
def _(b: HloBuilder, *values: Value, call_target_name: str, **attributes: Any) -> Any:
    """A call of a library function, by the rule ``custom_call:target``."""
    own = RULES.get(f"custom_call:{call_target_name}")
    if own is None:
        raise b.unsupported(f"of @{call_target_name} has no rule",
                            "pirkit knows the calls that jax makes for the CPU; lower the function"
                            " with `platforms=['cpu']`")  # fmt: skip
    return own(b, *values)


@rule("optimization_barrier")
def _(b: HloBuilder, *values: Value) -> tuple[Value, ...]:
    return values


_ALIKE = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Custom calls that are the identity on one device."""


@rule(*(f"custom_call:{name}" for name in _ALIKE))
def _(b: HloBuilder, x: Value) -> Value:
    return x


# --- branches ---


def _branch(b: HloBuilder, body: Block, types: Sequence[TensorMeta]) -> Region:
    """The region of a branch. Raises ParseError (PK0105) for results of other types."""
    block = RegionBlock()
    with b.inside(block):
        results = b.run(body, [])
        if [v.meta for v in results] != list(types):
            raise b.malformed("a branch returns other types than its operation")
        _yielded(b, block, results)
    return Region(block)


def _yielded(b: HloBuilder, block: RegionBlock, values: Sequence[Value], first: Any = ()) -> None:
    """End a region by a yield; values from outside and the region's arguments are copied."""
    own = [b.assign(v) if v.ssa.owner is block or v.ssa.owner.parent is not block else v
           for v in values]  # fmt: skip
    b.insert(create("pir.yield", [*first, *(v.ssa for v in own)]))


def _metas(b: HloBuilder) -> list[TensorMeta]:
    return [TensorMeta(t.sizes, t.dtype) for t in b.outs]


def _if(
    b: HloBuilder, condition: Value, regions: Sequence[Any], types: Sequence[TensorMeta]
) -> list[Value]:
    """A `pd_op.if`; ``regions`` are functions that make its two regions."""
    made = b.insert(create("pd_op.if", (condition.ssa,), [type_of(t) for t in types],
                           regions=[region() for region in regions]))  # fmt: skip
    return [b.wrap(r) for r in made.results]


@rule("if")
def _(b: HloBuilder, condition: Value) -> list[Value]:
    types, bodies = _metas(b), b.node.regions
    return _if(b, condition, [partial(_branch, b, body, types) for body in bodies], types)


@rule("case")
def _(b: HloBuilder, index: Value) -> list[Value]:
    """Nested branches; an index that is out of range takes the last one."""
    types, bodies = _metas(b), b.node.regions

    def rest(number: int) -> list[Value]:
        if len(bodies) == 1:
            return b.run(bodies[0], [])
        holds = b.equal(index, b.const(number, index.dtype))
        if number == len(bodies) - 2:
            last = partial(_branch, b, bodies[-1], types)
        else:
            last = partial(nested, number + 1)
        return _if(b, holds, [partial(_branch, b, bodies[number], types), last], types)

    def nested(number: int) -> Region:
        block = RegionBlock()
        with b.inside(block):
            _yielded(b, block, rest(number))
        return Region(block)

    return rest(0)


# --- loops ---


@rule("while")
def _(b: HloBuilder, *state: Value) -> list[Value]:
    """A `pd_op.while`, whose condition is emitted before the loop and at the end of its body."""
    test, iteration = b.node.regions
    (holds,) = b.run(test, state)
    if holds.dtype is not dt.bool_ or holds.shape:
        raise b.malformed(f"the condition of a loop is {holds.meta}")
    carried = [
        b.assign(v) if v.ssa in [w.ssa for w in state[:i]] else v for i, v in enumerate(state)
    ]
    block = RegionBlock(arg_types=[type_of(v.meta) for v in carried])
    with b.inside(block):
        after = b.run(iteration, [b.wrap(a) for a in block.args])
        if [v.meta for v in after] != [v.meta for v in carried]:
            raise b.malformed("an iteration of a loop changes the types of its state")
        (again,) = b.run(test, after)
        _yielded(b, block, after, (again.ssa,))
    types = [type_of(v.meta) for v in carried]
    operands = (holds.ssa, *(v.ssa for v in carried))
    made = b.insert(create("pd_op.while", operands, types, regions=[Region(block)]))
    return [b.wrap(r) for r in made.results]
