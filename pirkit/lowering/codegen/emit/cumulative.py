"""Cumulative sums, products and extrema along an axis, in the order of numpy's.

A tensor is ``outer`` slices of ``size`` rows of ``inner`` elements; row is added to row. The sums
of up to 32 elements of a row are one vector. Where rows are shorter, several slices run together,
since each addition waits for the one before it. Slices of single elements are the lanes of a
vector: tiles of them are transposed in registers, scanned, and transposed back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.memory_access import Memory, masked_load, store
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.transpose_tile import transposed
from pirkit.lowering.codegen.emit.vector_emit import argument, tail_mask
from pirkit.lowering.codegen.ir.element_types import identity
from pirkit.lowering.codegen.ir.llvm_text import I1, I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.math.casts import narrow, stored, widen
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.target import host

_LANES: Final = 32
_SLICES: Final = 8
_HALVES: Final = frozenset({dt.float16, dt.bfloat16})
"""Element types that are summed in float32; each result is rounded once."""
SCANNED: Final = _HALVES | {dt.float32, dt.float64, dt.int32, dt.int64}
"""The element types that have scans."""


class Cumulative(Struct, frozen=True):
    """The form of a cumulative operation.

    With ``exclusive`` each result leaves out its own element, and the first one is 0 or 1. Of an
    extremum the results are its values, its ``places``, or both.
    """

    combine: Literal["add", "mul", "max", "min"]
    dtype: DType
    outer: int
    size: int
    inner: int
    reverse: bool
    exclusive: bool
    has_values: bool = True
    places: DType | None = None

    @property
    def results(self) -> tuple[DType, ...]:
        """The element types of the results."""
        places = (self.places,) if self.places else ()
        return (self.dtype, *places) if self.has_values else places

    @property
    def computed(self) -> DType:
        """The element type of sums."""
        return dt.float32 if self.dtype in _HALVES else self.dtype

    @property
    def tile(self) -> int:
        """The slices of single elements that are the lanes of a vector; 0 if they are few."""
        lanes = host().vector_bits // (8 * self.computed.itemsize)
        is_tiled = self.inner == 1 and min(self.size, self.outer) >= lanes
        return lanes if is_tiled and self.size < 1 << 31 else 0  # places are int32 in a tile

    @property
    def slices(self) -> int:
        """The number of slices that are scanned together."""
        return self.tile or max(1, min(_SLICES, _LANES // self.inner, self.outer))

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the vectors that make a row."""
        rest = self.inner % _LANES
        return (_LANES,) * (self.inner // _LANES) + ((rest,) if rest else ())


def native_cumulative(scan: Cumulative) -> NativeFunction:
    """The function of a scan; its operands are the source and the results."""
    return function_of(key_of(scan, host()), lambda: _draft(scan))


def _draft(scan: Cumulative) -> Draft:
    """A block is a group of slices and a vector of their rows; the last group may be smaller."""
    total = scan.outer * scan.size * scan.inner
    items = [d.itemsize for d in (scan.dtype, *scan.results)]
    groups, rest = divmod(scan.outer, scan.slices)
    last = len(scan.widths) - 1
    known = about(
        _rows, f"cumulative {scan.combine}", lanes=scan.widths[0], rows=scan.slices,
        blocks=(groups + bool(rest)) * len(scan.widths),
    )  # fmt: skip
    routines, b = Routines(), Builder(blocks=known.sizes["blocks"])

    def block(number: Value, _: list[Value]) -> Sequence[Value]:
        group, chunk = (b.op(how, number, len(scan.widths)) for how in ("udiv", "urem"))
        first = b.plus(b.times(group, scan.slices * total // scan.outer), b.times(chunk, _LANES))
        arrays = [b.at(argument(b, k), b.times(first, item)) for k, item in enumerate(items)]
        # Widths and counts are constants of a function, which keeps its sums in registers.
        for width, in_row in _cases(b, chunk, last, scan.widths[0], scan.widths[last]):
            for count, in_group in _cases(b, group, groups, scan.slices, rest):
                is_tile = count == scan.tile
                name = _tile(routines, scan) if is_tile else _rows(routines, scan, width, count)
                b.branch(b.both(in_row, in_group), lambda n=name: _call(b, n, arrays))
        return []

    b.block_loop(block)
    # Each element is read once and written once: the memory is the time.
    nbytes = tuple([total * item for item in items])
    return routines.draft(b, 0, nbytes, sum(nbytes) // BYTES_PER_NS, known)


def _cases(
    b: Builder, number: Value, limit: int, below: int, other: int
) -> list[tuple[int, Value]]:
    """The two cases of a size: one value for numbers below a limit, another one for the rest."""
    if other in (0, below):
        return [(below, Value("true", I1))]
    return [(s, b.compare(how, number, limit)) for s, how in ((below, "ult"), (other, "uge"))]


def _call(b: Builder, name: str, arrays: Sequence[Value]) -> Sequence[Value]:
    b.emit_void(f"call void @{name}({', '.join(map(str, arrays))})")
    return []


def _rows(routines: Routines, scan: Cumulative, width: int, count: int) -> str:
    """The function that scans ``count`` slices of vectors of ``width`` elements."""
    step = _extremum if scan.combine in ("max", "min") else _total
    arrays = [Value(f"%{name}", PTR) for name in ("x", "y", "z")[: 1 + len(scan.results)]]
    numbers = [
        Type(stored(d), width) for d in (scan.computed, *([scan.places] if scan.places else []))
    ]
    element = Type(stored(scan.dtype), width)
    firsts = [_first(scan), 0]

    def write(b: Builder) -> None:
        def row(number: Value, states: list[Value]) -> Sequence[Value]:
            if scan.reverse:
                number = b.op("sub", Value(str(scan.size - 1), I64), number)
            after = list[Value]()
            for k in range(count):
                first = b.plus(b.times(number, scan.inner), k * scan.size * scan.inner)
                at = [b.at(p, b.times(first, n)) for p, n in zip(arrays, items, strict=True)]
                value = widen(b, b.load(element, at[0], items[0]), scan.dtype)
                before = states[k * len(numbers) : (k + 1) * len(numbers)]
                made, results = step(b, scan, value, number, before)
                after += made
                for result, goal, dtype in zip(results, at[1:], scan.results, strict=True):
                    b.store(narrow(b, result, dtype), goal, dtype.itemsize)
            return after

        initial = [b.const(t, first) for t, first in zip(numbers, firsts, strict=False)]
        b.loop(0, scan.size, 1, initial * count, row)

    items = [d.itemsize for d in (scan.dtype, *scan.results)]
    parameters = ", ".join([f"ptr noalias {p.text}" for p in arrays])
    return routines.add((width, count), parameters, write)


def _tile(routines: Routines, scan: Cumulative) -> str:
    """The function that scans slices of single elements, one in each lane."""
    step = _extremum if scan.combine in ("max", "min") else _total
    arrays = [Value(f"%{name}", PTR) for name in ("x", "y", "z")[: 1 + len(scan.results)]]
    types = [scan.dtype, *scan.results]
    lanes, whole = scan.tile, scan.size // scan.tile * scan.tile
    element = Type(stored(scan.dtype), lanes)

    def write(b: Builder) -> None:
        def columns(first: Value, states: Sequence[Value], count: int = lanes) -> Sequence[Value]:
            """Scan ``count`` elements of each slice."""
            mask = None if count == lanes else tail_mask(b, lanes, count)
            rows = [
                [
                    b.at(b.at(p, b.times(first, t.itemsize)), k * scan.size * t.itemsize)
                    for k in range(lanes)
                ]
                for p, t in zip(arrays, types, strict=True)
            ]
            given = transposed(
                b, [masked_load(b, element, p, scan.dtype.itemsize, mask) for p in rows[0]]
            )
            made = dict[int, Sequence[Value]]()
            for k in reversed(range(count)) if scan.reverse else range(count):
                value = widen(b, given[k], scan.dtype)
                states, results = step(b, scan, value, b.plus(first, k), states)
                made[k] = [narrow(b, *r) for r in zip(results, scan.results, strict=True)]
            for number, dtype in enumerate(scan.results):
                found = [made[min(k, count - 1)][number] for k in range(lanes)]
                for value, p in zip(transposed(b, found), rows[1 + number], strict=True):
                    is_short = value.type.bits < 8 * dtype.itemsize
                    value = b.cast("sext", value, "i64") if is_short else value
                    store(b, value, dtype, Memory(p, dtype.itemsize), mask)
            return states

        def block(first: Value, states: list[Value]) -> Sequence[Value]:
            backwards = scan.reverse
            return columns(
                b.op("sub", Value(str(whole - lanes), I64), first) if backwards else first, states
            )

        states: Sequence[Value] = [b.const(element.of(stored(scan.computed)), _first(scan))]
        if scan.places:  # in 32 bits, as wide as a lane, until they are stored
            states = [*states, b.const(Type("i32", lanes), 0)]
        last, rest = Value(str(whole), I64), scan.size - whole
        if rest and scan.reverse:
            states = columns(last, states, rest)
        states = b.loop(0, whole, lanes, states, block)
        if rest and not scan.reverse:
            columns(last, states, rest)

    parameters = ", ".join([f"ptr noalias {p.text}" for p in arrays])
    return routines.add(("tile", lanes), parameters, write)


def _first(scan: Cumulative) -> float:
    """What the first element is combined with."""
    if scan.combine in ("max", "min"):
        return identity(scan.combine, scan.dtype)
    # x = -0 + x keeps the sign of zero, as numpy does, which takes the first element itself
    return 1.0 if scan.combine == "mul" else 0.0 if scan.exclusive else -0.0


Step = tuple[Sequence[Value], Sequence[Value]]
"""The values that the next element is combined with, and the results at this one."""


def _total(b: Builder, scan: Cumulative, value: Value, _: Value, before: Sequence[Value]) -> Step:
    combine = ("f" if scan.dtype.is_float else "") + scan.combine
    total = b.op(combine, before[0], value)
    return [total], before if scan.exclusive else [total]


def _extremum(
    b: Builder, scan: Cumulative, value: Value, number: Value, before: Sequence[Value]
) -> Step:
    """Of equal elements the last one counts, and a NaN against all others."""
    how = "ge" if scan.combine == "max" else "le"
    takes = b.compare(("o" if scan.dtype.is_float else "s") + how, value, before[0])
    if scan.dtype.is_float:
        takes = b.op("or", takes, b.compare("uno", value, value))
    after = [b.select(takes, value, before[0])]
    if scan.places:
        place = before[1].type
        here = number if place.elem == "i64" else b.cast("trunc", number, place.elem)
        after.append(b.select(takes, b.splat(here, place.lanes), before[1]))
    return after, after if scan.has_values else after[1:]
