"""Cumulative sums and products along an axis, in the order of numpy's.

A tensor is ``outer`` slices of ``size`` rows of ``inner`` elements; row is added to row. The sums
of up to 32 elements of a row are one vector. Where rows are shorter, several slices run together,
since each addition waits for the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import SYMBOL, key_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.machine_costs import BYTES_PER_NS
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.target import host

_LANES: Final = 32
_SLICES: Final = 8
_TYPES: Final = {dt.float32: "float", dt.float64: "double", dt.int32: "i32", dt.int64: "i64"}
SCANNED: Final = frozenset(_TYPES)
"""The element types that have scans."""


@dataclass(frozen=True, slots=True)
class Cumulative:
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
    nbytes = scan.outer * scan.size * scan.inner * scan.dtype.itemsize
    blocks = -(-scan.outer // scan.slices) * len(scan.widths)
    known = about(_text, f"cumulative {scan.combine}", lanes=scan.widths[0], rows=scan.slices)
    # Each element is read once and written once: the memory is the time.
    code = Code(b"", SYMBOL, blocks, 0, 2 * nbytes // BYTES_PER_NS, (nbytes, nbytes))
    return Draft(_text(scan), code, known)


def _text(scan: Cumulative) -> str:
    """A block is a group of slices and a vector of their rows; the last group may be smaller."""
    groups, rest = divmod(scan.outer, scan.slices)
    element, plane = _TYPES[scan.dtype], scan.size * scan.inner
    counts = ((scan.slices,) if groups else ()) + ((rest,) if rest else ())
    # Widths and counts are constants of a function, which keeps its sums in registers.
    kinds = [(width, count) for width in dict.fromkeys(scan.widths) for count in counts]
    cases = "\n".join(f"  i64 {w * (_SLICES + 1) + n}, label %scan{w}x{n}" for w, n in kinds)
    calls = "\n".join(
        f"scan{w}x{n}:\n  call void @rows{w}x{n}(ptr %x, ptr %y)\n  br label %done"
        for w, n in kinds
    )
    last = len(scan.widths) - 1
    return "\n".join([
        *(_rows(scan, w, n) for w, n in kinds),
        f"""\
define void @{SYMBOL}(ptr noalias readonly %args, i64 %slot, i64 %lo, i64 %hi) {{
entry:
  %source = load ptr, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  %result = load ptr, ptr %second
  br label %block
block:
  %b = phi i64 [ %lo, %entry ], [ %next, %done ]
  %group = udiv i64 %b, {len(scan.widths)}
  %chunk = urem i64 %b, {len(scan.widths)}
  %slice = mul i64 %group, {scan.slices * plane}
  %lane = mul i64 %chunk, {_LANES}
  %first = add i64 %slice, %lane
  %x = getelementptr {element}, ptr %source, i64 %first
  %y = getelementptr {element}, ptr %result, i64 %first
  %is.last = icmp eq i64 %chunk, {last}
  %width = select i1 %is.last, i64 {scan.widths[last]}, i64 {_LANES}
  %is.full = icmp ult i64 %group, {groups}
  %count = select i1 %is.full, i64 {scan.slices}, i64 {rest}
  %scaled = mul i64 %width, {_SLICES + 1}
  %kind = add i64 %scaled, %count
  switch i64 %kind, label %done [
{cases}
  ]
{calls}
done:
  %next = add i64 %b, 1
  %over = icmp eq i64 %next, %hi
  br i1 %over, label %end, label %block
end:
  ret void
}}
""",
    ])  # fmt: skip


def _rows(scan: Cumulative, width: int, count: int) -> str:
    """The function that scans ``count`` slices of vectors of ``width`` elements."""
    element = _TYPES[scan.dtype]
    vector, size = f"<{width} x {element}>", scan.dtype.itemsize
    combine = ("f" if scan.dtype.is_float else "") + scan.combine
    # x = -0 + x keeps the sign of zero, as numpy does, which takes the first element itself
    start = ("-0.0" if not scan.exclusive else "0.0") if scan.combine == "add" else "1.0"
    start = start if scan.dtype.is_float else str(abs(int(float(start))))
    initial = f"<{', '.join([f'{element} {start}'] * width)}>"
    sums = "\n".join(
        f"  %sum{k} = phi {vector} [ {initial}, %entry ], [ %new{k}, %row ]" for k in range(count)
    )
    stored = "sum" if scan.exclusive else "new"
    steps = "\n".join(
        f"""\
  %at{k} = add i64 %at, {k * scan.size * scan.inner}
  %from{k} = getelementptr {element}, ptr %x, i64 %at{k}
  %value{k} = load {vector}, ptr %from{k}, align {size}
  %new{k} = {combine} {vector} %sum{k}, %value{k}
  %to{k} = getelementptr {element}, ptr %y, i64 %at{k}
  store {vector} %{stored}{k}, ptr %to{k}, align {size}"""
        for k in range(count)
    )
    row = f"sub i64 {scan.size - 1}, %j" if scan.reverse else "add i64 0, %j"
    return f"""\
define internal void @rows{width}x{count}(ptr noalias %x, ptr noalias %y) {{
entry:
  br label %row
row:
  %j = phi i64 [ 0, %entry ], [ %next, %row ]
{sums}
  %number = {row}
  %at = mul i64 %number, {scan.inner}
{steps}
  %next = add i64 %j, 1
  %over = icmp eq i64 %next, {scan.size}
  br i1 %over, label %end, label %row
end:
  ret void
}}
"""
