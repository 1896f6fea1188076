"""Loop nests as text, for people: ``pirkit-opt -t nest``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    LaneConstants,
    Load,
    Operand,
    Reduce,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
    with_numbered_names,
)
from pirkit.lowering.codegen.ir.tiled_nest import TileAccess, TiledNest
from pirkit.lowering.codegen.lower.statement_nest import ArrayNest


def nest_lines(nest: ArrayNest) -> Iterator[str]:
    """A nest, one statement in a line; operands are named by the numbers of their arrays."""
    names = [f"a{k}" for k in nest.arrays]
    match nest.kernel:
        case Kernel():
            yield from _kernel(nest.kernel, names)
        case TiledNest():
            yield from _tiles(nest.kernel, names)


def _tiles(tiled: TiledNest, names: list[str]) -> Iterator[str]:
    yield f"for tile of {list(tiled.block)} in {list(tiled.extents)}:"
    yield f"  for image in {[list(image) for image in tiled.images]}:"
    for phase in tiled.phases:
        spots = [
            f"tile{where.tile}.{where.image}" if isinstance(where, TileAccess) else names[where]
            for where in phase.places
        ]
        yield from (f"    {line}" for line in _kernel(phase.kernel, spots))


def _kernel(kernel: Kernel, names: list[str]) -> Iterator[str]:
    kernel = with_numbered_names(kernel)
    for name, operand in zip(names, kernel.operands, strict=True):
        yield f"// {name}: {_operand(operand)}"
    axes = [f"i{k}" for k in range(len(kernel.outer))]
    axes += [f"r{k}" for k in range(len(kernel.inner))]
    depth = ""
    for axis, extent in enumerate(kernel.outer):
        yield f"{depth}parallel for i{axis} in {extent}:"
        depth += "  "
    for phase in kernel.loop_phases:
        inside = depth
        for axis, extent in enumerate(kernel.inner):
            yield f"{inside}for r{axis} in {extent}:"
            inside += "  "
        for statement in phase.body:
            yield inside + statement_line(statement, names, axes)
        for statement in phase.after:
            yield depth + statement_line(statement, names, axes)


def _operand(operand: Operand) -> str:
    at = f" from byte {operand.offset}" if operand.offset else ""
    stream = ", non-temporal stores" if operand.stream else ""
    strides = f"strides {list(operand.outer)} outer, {list(operand.inner)} inner"
    return f"{operand.dtype.name}, {operand.size:,} bytes{at}, {strides}{stream}"


def statement_line(statement: Statement, names: Sequence[str], axes: Sequence[str]) -> str:
    """A statement; operands and axes have these names."""
    match statement:
        case Load(name, operand, at, limit, where):
            index = f" + min({_name(at)}, {limit})" if at is not None else ""
            only = f" where {_name(where)}" if where is not None else ""
            return f"{_name(name)} = load {names[operand]}{index}{only}"
        case Constant(name, dtype, value):
            return f"{_name(name)} = {dtype.name} {value}"
        case LaneConstants(name, dtype, values):
            return f"{_name(name)} = {dtype.name} <{', '.join(map(str, values))}>"
        case Index(name, axis, dtype):
            return f"{_name(name)} = {dtype.name} {axes[axis]}"
        case Compute(name, primitive, args, dtype):
            return f"{_name(name)} = {primitive}({', '.join(map(_name, args))}) : {dtype.name}"
        case Reduce(name, kind, value, times):
            value = _name(value) if times is None else f"{_name(value)} * {_name(times)}"
            return f"{_name(name)} = reduce {kind} {value}"
        case Store(operand, value):
            return f"store {names[operand]}, {_name(value)}"
        case Accumulate(operand, kind, value):
            return f"accumulate {kind} {names[operand]}, {_name(value)}"
        case Scatter(operand, kind, value, at, limit):
            where = f"{names[operand]} + {_name(at)} if in 0..{limit}"
            return f"scatter {kind or 'assign'} {where}, {_name(value)}"
        case RuntimeAssert(operand, value):
            return f"assert {_name(value)}, else set {names[operand]}"


def _name(number: str) -> str:
    return f"t{number}"
