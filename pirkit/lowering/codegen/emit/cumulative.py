"""Cumulative sums and products along an axis, in the order of numpy's.

A tensor is ``outer`` slices of ``size`` rows of ``inner`` elements; row is added to row. The sums
of up to 32 elements of a row are one vector. Where rows are shorter, several slices run together,
since each addition waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import stored
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

_LANES: Final = 32
_SLICES: Final = 8
SCANNED: Final = frozenset({dt.float32, dt.float64, dt.int32, dt.int64})
"""The element types that have scans."""


class Cumulative(Struct, frozen=True):
    """The form of a cumulative operation.

    With ``exclusive`` each result leaves out its own element, and the first one is 0 or 1.
    """

    combine: Literal["add", "mul"]
    dtype: DType
    outer: int
    size: int
    inner: int
    reverse: bool
    exclusive: bool

    @property
    def slices(self) -> int:
        """The number of slices that are scanned together."""
        return max(1, min(_SLICES, _LANES // self.inner, self.outer))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the vectors that make a row."""
        rest = self.inner % _LANES
        return (_LANES,) * (self.inner // _LANES) + ((rest,) if rest else ())


def native_cumulative(scan: Cumulative) -> NativeFunction:
    """The function of a scan; its operands are the source and the result."""
    return function_of(key_of(scan, host()), lambda: _draft(scan))


def _draft(scan: Cumulative) -> Draft:
    """A block is a group of slices and a vector of their rows; the last group may be smaller."""
    nbytes = scan.outer * scan.size * scan.inner * scan.dtype.itemsize
    groups, rest = divmod(scan.outer, scan.slices)
    last = len(scan.widths) - 1
    known = about(
        _rows, f"cumulative {scan.combine}", lanes=scan.widths[0], rows=scan.slices,
        blocks=(groups + bool(rest)) * len(scan.widths),
    )  # fmt: skip
    routines, b = Routines(), Builder(blocks=known.sizes["blocks"])

    def block(number: Value, _: list[Value]) -> Sequence[Value]:
        group, chunk = (b.op(how, number, len(scan.widths)) for how in ("udiv", "urem"))
        slice_bytes = scan.slices * nbytes // scan.outer
        distance = b.plus(b.times(group, slice_bytes), b.times(chunk, _LANES * scan.dtype.itemsize))
        x, y = (b.at(argument(b, k), distance) for k in range(2))
        # Widths and counts are constants of a function, which keeps its sums in registers.
        for width, in_row in _cases(b, chunk, last, scan.widths[0], scan.widths[last]):
            for count, in_group in _cases(b, group, groups, scan.slices, rest):
                name = _rows(routines, scan, width, count)
                b.branch(b.both(in_row, in_group), lambda n=name: _call(b, n, x, y))
        return []

    b.block_loop(block)
    # Each element is read once and written once: the memory is the time.
    return routines.draft(b, 0, (nbytes, nbytes), 2 * nbytes // BYTES_PER_NS, known)


def _cases(
    b: Builder, number: Value, limit: int, below: int, other: int
) -> list[tuple[int, Value]]:
    """The two cases of a size: one value for numbers below a limit, another one for the rest."""
    if other in (0, below):
        return [(below, Value("true", I1))]
    return [(s, b.compare(how, number, limit)) for s, how in ((below, "ult"), (other, "uge"))]


def _call(b: Builder, name: str, x: Value, y: Value) -> Sequence[Value]:
    b.emit_void(f"call void @{name}({x}, {y})")
    return []


def _rows(routines: Routines, scan: Cumulative, width: int, count: int) -> str:
    """The function that scans ``count`` slices of vectors of ``width`` elements."""
    size = scan.dtype.itemsize
    row, plane = scan.inner * size, scan.size * scan.inner * size
    vector = Type(stored(scan.dtype), width)
    # x = -0 + x keeps the sign of zero, as numpy does, which takes the first element itself
    initial = 1.0 if scan.combine == "mul" else 0.0 if scan.exclusive else -0.0
    combine = ("f" if scan.dtype.is_float else "") + scan.combine

    def write(b: Builder) -> None:
        x, y = Value("%x", PTR), Value("%y", PTR)

        def step(number: Value, sums: list[Value]) -> Sequence[Value]:
            if scan.reverse:
                number = b.op("sub", Value(str(scan.size - 1), I64), number)
            at, after = b.times(number, row), list[Value]()
            for k, before in enumerate(sums):
                source, goal = (b.at(b.at(p, at), k * plane) for p in (x, y))
                value = b.load(vector, source, size)
                after.append(b.op(combine, before, value))
                b.store(before if scan.exclusive else after[k], goal, size)
            return after

        b.loop(0, scan.size, 1, [b.const(vector, initial)] * count, step)

    return routines.add((width, count), "ptr noalias %x, ptr noalias %y", write)
