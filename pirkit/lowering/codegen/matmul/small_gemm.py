"""GEMM for small matrices of any sizes and strides: one function per element type.

Sizes are arguments, so that no matmul has to be compiled: for small ones the overhead exceeds the
arithmetic. C is computed in tiles of four rows by one vector, which stay in registers along the
whole depth; if columns of B are strided, those of a tile are packed first. Terms are added in order
by FMA, then the bias: the bits of an element depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.compile import key_of
from pirkit.lowering.codegen.emit.generate import PARAMETERS, SYMBOL, emit_prologue
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.matmul.microkernel import (
    Elements,
    OutputTile,
    microkernel,
    read_vector,
)
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.target import Target, host

ARGUMENT_WORDS: Final = (
    "count", "rows", "columns", "depth", "x_row", "x_depth", "y_depth", "y_column", "out_row",
    "biased",
)  # fmt: skip
"""Sizes, and strides in bytes; then three offsets in bytes for each of ``count`` matmuls: those of
x, y and the result. Rows of the result are contiguous.
"""

MAX_DEPTH: Final = 1024
"""Depth at most: the scratch memory of a thread holds a panel of so many rows."""
_ROWS: Final = 4
"""Rows of a tile."""
_WORK_NS: Final = 1000
"""Nominal time of a call; it always runs on one thread."""


def native_small_gemm(dtype: DType) -> NativeFunction:
    """The function with operands x, y, result, bias and argument words.

    The bias is a row of the result; without one any address will do. The caller ensures a depth of
    at most `MAX_DEPTH`.
    """
    key = key_of(("small products", dtype), host())
    return function_of(key, lambda: _draft(dtype, host()))


def _draft(dtype: DType, target: Target) -> Draft:
    lanes = target.vector_bits // (8 * dtype.itemsize)
    vector = Type("float" if dtype.itemsize == 4 else "double", lanes)
    scratch = MAX_DEPTH * lanes * dtype.itemsize
    made = Routines()
    b = made.builder()
    _Writer(b, vector, dtype.itemsize).emit()
    made.define(f"void @{SYMBOL}({PARAMETERS})", b, emit_prologue(5, scratch))
    code = Code(b"", SYMBOL, 1, scratch, _WORK_NS, (0, 0, 0, 0, 0))
    return Draft(made.text(), code, about(_Writer, "small matmul", lanes=lanes, rows=_ROWS))


class _Writer:
    """Emits the loops over matmuls, vectors of columns, rows and depth."""

    def __init__(self, b: Builder, vector: Type, size: int) -> None:
        self.b, self.vector, self.size = b, vector, size

    def emit(self) -> None:
        b, size, lanes = self.b, self.size, self.vector.lanes
        x, y, out, bias, words = (argument(b, k) for k in range(5))
        w = {name: _argument_word(b, words, k) for k, name in enumerate(ARGUMENT_WORDS)}
        # The offsets of each matmul follow the sizes.
        table = b.at(words, 8 * len(ARGUMENT_WORDS))
        # Contiguous rows of y are read in place.
        packs = b.compare("ne", w["y_column"], size)

        def product(n: Value, _: list[Value]) -> Sequence[Value]:
            row = b.at(table, b.times(n, 24))
            left, right, c_matrix = (
                b.at(base, _argument_word(b, row, k)) for k, base in enumerate((x, y, out))
            )

            def block(first: Value, _: list[Value]) -> Sequence[Value]:
                mask = tail_mask(b, lanes, b.emit(I64, f"sub {w['columns']}, {first.text}"))
                offset = b.times(first, size)
                source = b.at(right, b.emit(I64, f"mul {first}, {w['y_column'].text}"))
                panel, line = b.branch(
                    packs, lambda: self.pack(source, w, mask), [source, w["y_depth"]]
                )
                self.multiply_panel(
                    left, panel, line, b.at(c_matrix, offset), b.at(bias, offset), w, mask
                )
                return []

            b.loop(0, w["columns"], lanes, [], block)
            return []

        b.loop(0, w["count"], 1, [], product)

    def pack(self, source: Value, w: dict[str, Value], mask: Value) -> Sequence[Value]:
        """Gather the strided columns of a tile to scratch; the panel and its row stride."""
        b, size, lanes, vector = self.b, self.size, self.vector.lanes, self.vector
        panel, lane_offsets, pointers = (
            Value("%scratch", PTR),
            Type("i64", lanes),
            Type("ptr", lanes),
        )
        ramp = b.emit(
            lane_offsets, f"mul {b.splat(w['y_column'], lanes)}, {b.iota(lane_offsets).text}"
        )

        def step(k: Value, _: list[Value]) -> Sequence[Value]:
            start = b.at(source, b.emit(I64, f"mul {k}, {w['y_depth'].text}"))
            address = b.emit(pointers, f"getelementptr i8, {start}, {ramp}")
            name = f"llvm.masked.gather.{vector.suffix}.{pointers.suffix}"
            zero = f"{vector} zeroinitializer"
            found = b.call(name, vector, address, f"i32 {size}", mask, zero)
            b.emit_void(f"store {found}, {b.at(panel, b.times(k, lanes * size))}, align {size}")
            return []

        b.loop(0, w["depth"], 1, [], step)
        return [panel, Value(str(lanes * size), I64)]

    def multiply_panel(
        self,
        x: Value,
        panel: Value,
        line: Value,
        out: Value,
        bias: Value,
        w: dict[str, Value],
        mask: Value,
    ) -> None:
        """All rows of x times a panel whose rows are ``line`` bytes apart."""
        b, vector = self.b, self.vector
        biased = b.compare("ne", w["biased"], 0)
        zero = b.const(vector, 0.0)
        [row] = b.branch(biased, lambda: [read_vector(b, vector, bias, mask)], [zero])

        def rows(many: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def tile(first: Value, _: list[Value]) -> Sequence[Value]:
                start = b.at(x, b.emit(I64, f"mul {first}, {w['x_row'].text}"))
                c_matrix = b.at(out, b.emit(I64, f"mul {first}, {w['out_row'].text}"))
                starts, lines = (
                    [b.at(base, b.emit(I64, f"mul {stride}, {r}")) for r in range(many)]
                    for base, stride in ((start, w["x_row"]), (c_matrix, w["out_row"]))
                )
                left = Elements(Type(vector.elem), [(s, 0) for s in starts], [w["x_depth"]])
                right = Elements(vector, [(panel, 0)], [line], [mask])
                sums = microkernel(b, left, right, [w["depth"]], [zero] * many)
                totals = b.branch(biased, lambda: [b.add(s, row) for s in sums], sums)
                OutputTile(vector, lines, [mask]).store(b, totals)
                return []

            return tile

        # Rows that do not fill a tile run one by one.
        whole = b.emit(I64, f"and {w['rows']}, {-_ROWS}")
        b.loop(0, whole, _ROWS, [], rows(_ROWS))
        b.loop(whole, w["rows"], 1, [], rows(1))


def _argument_word(b: Builder, words: Value, number: int) -> Value:
    return b.emit(I64, f"load i64, {b.at(words, 8 * number)}, align 8")
