"""Vectors across several short rows, where one row would leave most lanes of a vector masked off.

An elementwise nest over rows of 3 elements fills 16 vectors of 16 lanes for 16 rows; as the rows of
the result follow each other in memory, 3 vectors hold the same 48 elements. Which row and column a
lane has is known when code is generated: so each access has the offsets of its lanes as constants,
indices along a row become vectors of constants, and so do predicates and gathers that depend on
nothing else (the operands of a `concat`, a `roll`).
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.emit.memory_access import MAX_WINDOWS, windows_of
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_edits import Nodes, change_loops, lane_var
from pirkit.lowering.codegen.ir.loop_ir import (
    Block,
    Buffer,
    Loop,
    Nest,
    Node,
    NonTemporal,
    most,
    rounded,
)
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    LaneConstants,
    Load,
    Operand,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt

Array = np.ndarray[Any, Any]

_FILLED: Final = 0.7
"""Share of the lanes that the last axis fills from which it has vectors of its own."""
_WITHOUT_MASKS: Final = 4
"""Lanes up to which vectors have no masks, or are so short that any idle lane counts."""
_LONGEST: Final = 2
"""Vectors of the longest row."""
_LEAST_VECTORS, _MOST_VECTORS = 4, 9
"""Vectors of a group of rows: enough to overlap, and not more code than that takes to pay."""
_MOST_STATEMENTS: Final = 256
_INDEX_ARITHMETIC: Final[dict[str, Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "quotient": np.floor_divide,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "less_than": np.less, "less_equal": np.less_equal, "greater_than": np.greater,
    "greater_equal": np.greater_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_not": np.logical_not, "where": np.where, "cast": np.array,
}  # fmt: skip
"""What indices and predicates consist of."""


class ShortRows(Struct, frozen=True):
    """A row is the last ``axes`` outer axes; ``rows`` rows fill all lanes of their vectors."""

    axes: int
    rows: int

    def axis(self, kernel: Kernel) -> int:
        """The outer axis along which rows follow each other."""
        return len(kernel.outer) - 1 - self.axes

    def columns(self, kernel: Kernel) -> int:
        """The elements of a row."""
        return prod(kernel.outer[-self.axes :])


class _Access(Struct, frozen=True):
    """A load or a store with the byte offset of each lane; None for lanes that have no element."""

    statement: Load | Store
    lanes: tuple[int | None, ...]


def row_group(kernel: Kernel, lanes: int) -> ShortRows | None:
    """The rows that vectors of a canonical elementwise kernel cross, if they should."""
    extents = kernel.outer
    if kernel.inner or len(extents) < 2 or lanes < 2:
        return None
    axes, columns = 1, extents[-1]
    while axes < len(extents) - 1 and columns * extents[-1 - axes] <= lanes:
        columns *= extents[-1 - axes]
        axes += 1
    # Vectors along the last axis alone are the other choice.
    share = extents[-1] / (-(-extents[-1] // lanes) * lanes)
    if share >= (_FILLED if lanes > _WITHOUT_MASKS else 1) or columns > _LONGEST * lanes:
        return None
    # The fewest rows that fill whole vectors: lcm(columns, lanes) elements.
    rows = lanes // gcd(columns, lanes)
    vectors = rows * columns // lanes
    rows *= max(1, _LEAST_VECTORS // vectors)
    group = ShortRows(axes, rows)
    statements = list(kernel.statements())
    is_small = vectors <= _MOST_VECTORS and len(statements) * vectors <= _MOST_STATEMENTS
    if not is_small or extents[-1 - axes] < rows or not _stores_rows(kernel, columns, axes):
        return None
    # An access whose lanes lie in more windows than that is slower than masked rows.
    for first in range(0, rows * columns, lanes):
        made = _vector(kernel, group, first, lanes, lanes)
        if made is None or any(_windows(kernel, x, lanes) > MAX_WINDOWS for x in made[1]):
            return None
    return group


def _stores_rows(kernel: Kernel, columns: int, axes: int) -> bool:
    """Whether each stored operand has one row after the other."""
    first = len(kernel.outer) - 1 - axes
    strides = [prod(kernel.outer[k + 1 :]) for k in range(first, len(kernel.outer))]
    assert strides[0] == columns
    stored = [kernel.operands[s.operand] for s in kernel.statements() if isinstance(s, Store)]
    return bool(stored) and all(
        o.outer[first:] == tuple(n * o.dtype.itemsize for n in strides) for o in stored
    )


def _windows(kernel: Kernel, access: _Access, lanes: int) -> int:
    dtype = kernel.operands[access.statement.operand].dtype
    return len(windows_of(access.lanes, dtype.itemsize, lanes))


def _places(kernel: Kernel, group: ShortRows, first: int, lanes: int) -> dict[int, Array]:
    """The index along each axis of a group of each lane of the vector at element ``first``."""
    row = group.axis(kernel)
    # Elements of a group are numbered row by row, as they are stored.
    elements = np.arange(first, first + lanes)
    found = np.unravel_index(elements, (group.rows, *kernel.outer[row + 1 :]))
    return {row + k: place for k, place in enumerate(found)}


def _offsets(operand: Operand, places: dict[int, Array]) -> Array:
    return sum((operand.outer[axis] * at for axis, at in places.items()), np.zeros(1, np.int64))


def _vector(
    kernel: Kernel, group: ShortRows, first: int, active: int, lanes: int
) -> tuple[list[Statement], list[_Access]] | None:
    """The statements of one vector, of which ``active`` lanes are stored, and its accesses.

    None if a statement is no part of an elementwise kernel, or an access depends on data.
    """
    places, row = _places(kernel, group, first, lanes), group.axis(kernel)
    known: dict[str, Array] = {}
    found, accesses = list[Statement](), list[_Access]()
    for s in kernel.statements():
        match s:
            case Constant(name, dtype, value):
                known[name] = np.asarray(value, dtype.np)
            case Index(name, axis, dtype):
                if axis == row:
                    return None
                if axis in places:
                    known[name] = places[axis].astype(dtype.np)
                    s = _constant(s, known[name])
            case Compute(name, primitive, args, dtype):
                exact = dtype is dt.bool_ or dtype.is_integer
                function = _INDEX_ARITHMETIC.get(primitive) if exact else None
                if function is not None and known.keys() >= {*args}:
                    value = function(*[known[a] for a in args])
                    known[name] = np.asarray(value).astype(dtype.np)
                    s = _constant(s, known[name])
            case Load(name, operand, at, limit, predicate):
                if not known.keys() >= {x for x in (at, predicate) if x is not None}:
                    return None
                offsets = _offsets(kernel.operands[operand], places)
                if at is not None:
                    index = known[at].astype(np.int64)
                    inside = (index >= 0) & (index <= limit)
                    offsets = offsets + np.where(inside, index, limit) * (
                        kernel.operands[operand].dtype.itemsize
                    )
                holds = np.arange(lanes) < active
                if predicate is not None:
                    holds = holds & known[predicate]
                s = Load(name, operand)
                if not holds.any():
                    s = Constant(name, kernel.operands[operand].dtype, 0)
                else:
                    accesses.append(_access(s, offsets, holds))
            case Store(operand):
                offsets = _offsets(kernel.operands[operand], places)
                accesses.append(_access(s, offsets, np.arange(lanes) < active))
            case _:
                return None
        found.append(s)
    return found, accesses


def _access(statement: Load | Store, offsets: Array, holds: Array) -> _Access:
    offsets = np.broadcast_to(offsets, holds.shape)
    lanes = [int(o) if held else None for o, held in zip(offsets, holds, strict=True)]
    return _Access(statement, tuple(lanes))


def _constant(statement: Index | Compute, value: Array) -> Constant | LaneConstants:
    """A statement whose value is known in each lane."""
    if not value.ndim:
        return Constant(statement.name, statement.dtype, value.item())
    return LaneConstants(statement.name, statement.dtype, tuple(value.tolist()))


def _is_aligned(buffer: Buffer, row: int, lanes: int) -> bool:
    """Whether vectors of whole groups are at multiples of their size: then they may be streamed."""
    width = lanes * buffer.dtype.itemsize
    numbers = (buffer.offset, *buffer.strides[:row], *(o or 0 for o in (buffer.lanes or ())[:1]))
    return width <= LINE and all(n % width == 0 for n in numbers)


def vectorize_rows(nest: Nest, var: str, group: ShortRows, lanes: int) -> Nest:
    """Groups of rows in vectors: a loop over whole groups, and the last one if it has fewer rows.

    The loop ``var`` over rows contains the loops over the axes of a row and nothing else.
    """
    kernel, row, columns = nest.kernel, group.axis(nest.kernel), group.columns(nest.kernel)
    buffers, numbers = list(nest.buffers), dict[Buffer, int]()

    def buffer_of(access: _Access) -> int:
        """The buffer of an access: the same memory with the offsets of the lanes."""
        operand = access.statement.operand
        own = nest.buffers[operand]
        strides = (*own.strides[: row + 1], *[0] * group.axes)
        made = replace(own, strides=strides, lanes=access.lanes, shares=operand)
        if made not in numbers:
            numbers[made] = len(buffers)
            buffers.append(made)
        return numbers[made]

    def vectors(rows: int) -> tuple[Node, ...]:
        found: list[Node] = []
        for number, first in enumerate(range(0, rows * columns, lanes)):
            active = min(lanes, rows * columns - first)
            made = _vector(kernel, group, first, active, lanes)
            assert made is not None  # `row_group` has tried
            statements, accesses = made
            others = iter(accesses)
            body = [
                replace(s, operand=buffer_of(next(others))) if isinstance(s, Load | Store) else s
                for s in statements
            ]
            loop_var = f"{lane_var(var)}{number}"
            block = (Block(tuple(body)),)
            found.append(Loop(loop_var, (row,), 0, active, 1, block, "vector", lanes))
        return tuple(found)

    def change(node: Loop) -> Nodes | None:
        rest = kernel.outer[row] % group.rows
        full = rounded(node.stop, group.rows)
        made: list[Node] = []
        if most(node.stop) >= group.rows:
            whole = replace(node, stop=full, step=group.rows, body=vectors(group.rows))
            streams = sorted(numbers[x] for x in numbers if x.stream and _is_aligned(x, row, lanes))
            made.append(NonTemporal(tuple(streams), (whole,)) if streams else whole)
        if rest:
            body = vectors(rest)
            made.append(replace(node, start=full, step=group.rows, body=body))
        return tuple(made)

    body = change_loops(nest, var, change).body
    return replace(nest, buffers=tuple(buffers), body=body)
