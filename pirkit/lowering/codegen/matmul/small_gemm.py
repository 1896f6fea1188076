"""GEMM for small matrices of any sizes and strides: one function per element type.

Sizes are arguments, so that no matmul has to be compiled: for small ones the overhead exceeds the
arithmetic. C is computed in tiles of four rows by two vectors, which stay in registers along the
whole depth; if columns of B are strided, those of a tile are packed first. Terms are added in order
by FMA, then the bias: the bits of an element depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.vector_emit import argument, tail_mask
from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile, read_vector, write_vector
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction
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
_ROWS, _VECTORS = 4, 2
"""The register tile. Few rows and vectors, so that small matrices have whole tiles; its
accumulators are as many as FMAs are in flight."""
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
    scratch = MAX_DEPTH * _VECTORS * lanes * dtype.itemsize
    routines = Routines()
    b = routines.builder()
    _Writer(b, vector).emit()
    known = about(_Writer, "small matmul", lanes=lanes, rows=_ROWS, vectors=_VECTORS)
    return routines.draft(b, scratch, (0, 0, 0, 0, 0), _WORK_NS, known)


class _Writer:
    """Emits the loops over matmuls, columns and rows around the microkernel.

    If the last tile would cross the edge of C, it is moved back onto elements that another tile
    computes too: their bits are the same, and no tile needs a mask but those of fewer columns than
    a vector has.
    """

    def __init__(self, b: Builder, vector: Type) -> None:
        self.b, self.vector, self.size = b, vector, vector.bits // 8

    def emit(self) -> None:
        b, lanes = self.b, self.vector.lanes
        x, y, out, bias, words = (argument(b, k) for k in range(5))
        w = {name: _argument_word(b, words, k) for k, name in enumerate(ARGUMENT_WORDS)}
        # The offsets of each matmul follow the sizes.
        table = b.at(words, 8 * len(ARGUMENT_WORDS))
        tiled = b.op("and", w["columns"], -_VECTORS * lanes)

        def product(n: Value, _: list[Value]) -> Sequence[Value]:
            row = b.at(table, b.times(n, 24))
            matrices = [b.at(base, _argument_word(b, row, k)) for k, base in enumerate((x, y, out))]

            def wide(first: Value, _: list[Value]) -> Sequence[Value]:
                self.columns(matrices, bias, w, first, _VECTORS)
                return []

            def narrow(first: Value, _: list[Value]) -> Sequence[Value]:
                last = b.binary("smax", b.plus(w["columns"], -lanes), Value("0", I64))
                self.columns(matrices, bias, w, b.binary("smin", first, last), 1)
                return []

            b.loop(0, tiled, _VECTORS * lanes, [], wide)
            b.loop(tiled, w["columns"], lanes, [], narrow)
            return []

        b.loop(0, w["count"], 1, [], product)

    def columns(
        self, matrices: Sequence[Value], bias: Value, w: dict[str, Value], first: Value,
        vectors: int,
    ) -> None:  # fmt: skip
        """All rows of some vectors of columns; only a single one may have a tail."""
        b, size, lanes = self.b, self.size, self.vector.lanes
        x, y, out = matrices
        mask = None
        source = b.at(y, b.emit(I64, f"mul {first}, {w['y_column'].text}"))
        panel = [source, w["y_depth"]]
        strided = b.compare("ne", w["y_column"], size)
        if vectors == 1:
            mask = tail_mask(b, lanes, b.emit(I64, f"sub {w['columns']}, {first.text}"))
            # LLVM would compute the mask of AVX2 in each iteration: tails are packed, with zeros.
            short = b.op("and", b.compare("slt", w["columns"], lanes), b.op("xor", strided, True))
            panel = b.branch(short, lambda: self.pack(source, w, 1, mask, strided=False), panel)
        # Contiguous rows of y are read in place.
        panel = b.branch(strided, lambda: self.pack(source, w, vectors, mask, strided=True), panel)
        offset = b.times(first, size)
        self.rows(
            x, panel, b.at(out, offset), b.at(bias, offset), w, [*[None] * (vectors - 1), mask]
        )

    def pack(
        self, source: Value, w: dict[str, Value], vectors: int, mask: Value | None, strided: bool
    ) -> Sequence[Value]:
        """Copy the columns of a tile to scratch; the panel and its row stride."""
        b, size, vector = self.b, self.size, self.vector
        lanes, panel = vector.lanes, Value("%scratch", PTR)
        index, pointers = Type("i64", lanes), Type("ptr", lanes)
        ramp = b.emit(index, f"mul {b.splat(w['y_column'], lanes)}, {b.iota(index).text}")
        width = b.emit(I64, f"mul {w['y_column']}, {lanes}")
        on = mask or b.const(vector.mask, True)

        def gathered(start: Value) -> Value:
            address = b.emit(pointers, f"getelementptr i8, {start}, {ramp}")
            name = f"llvm.masked.gather.{vector.suffix}.{pointers.suffix}"
            return b.call(name, vector, address, f"i32 {size}", on, f"{vector} zeroinitializer")

        def step(k: Value, _: list[Value]) -> Sequence[Value]:
            start = b.at(source, b.emit(I64, f"mul {k}, {w['y_depth'].text}"))
            for v in range(vectors):
                found = gathered(start) if strided else read_vector(b, vector, start, on)
                write_vector(
                    b, found, b.at(panel, b.times(b.plus(b.times(k, vectors), v), lanes * size))
                )
                start = b.at(start, width)
            return []

        b.loop(0, w["depth"], 1, [], step)
        return [panel, Value(str(vectors * lanes * size), I64)]

    def lines(self, base: Value, first: Value, stride: Value, many: int) -> list[Value]:
        """The addresses of the rows from ``first`` on; multiples of the stride are invariant."""
        b = self.b
        start = b.at(base, b.emit(I64, f"mul {first}, {stride.text}"))
        return [b.at(start, b.emit(I64, f"mul {stride}, {r}")) for r in range(many)]

    def rows(
        self, x: Value, panel: Sequence[Value], out: Value, bias: Value, w: dict[str, Value],
        masks: Sequence[Value | None],
    ) -> None:  # fmt: skip
        """All rows of x times a panel, given by its address and row stride."""
        b, vector = self.b, self.vector
        offsets = [v * vector.lanes * self.size for v in range(len(masks))]
        biased = b.compare("ne", w["biased"], 0)
        zero = b.const(vector, 0.0)
        bias_row = OutputTile(vector, [b.at(bias, at) for at in offsets], masks)
        added = b.branch(biased, lambda: bias_row.load(b), [zero] * len(masks))

        def rows(many: int) -> Callable[[Value, list[Value]], Sequence[Value]]:
            def tile(first: Value, _: list[Value]) -> Sequence[Value]:
                if many > 1:
                    first = b.binary("smin", first, b.plus(w["rows"], -many))
                starts, lines = (
                    self.lines(base, first, w[stride], many)
                    for base, stride in ((x, "x_row"), (out, "out_row"))
                )
                left = Elements(Type(vector.elem), [(s, 0) for s in starts], [w["x_depth"]])
                right = Elements(vector, [(panel[0], at) for at in offsets], [panel[1]])
                sums = microkernel(b, left, right, [w["depth"]], [zero] * (many * len(masks)))
                pairs = zip(sums, added * many, strict=True)
                totals = b.branch(biased, lambda: [b.add(s, row) for s, row in pairs], sums)
                output = [b.at(line, at) for line in lines for at in offsets]
                OutputTile(vector, output, masks).store(b, totals)
                return []

            return tile

        # Fewer rows than a tile has run one by one.
        tiled = b.select(b.compare("sge", w["rows"], _ROWS), w["rows"], Value("0", I64))
        b.loop(0, tiled, _ROWS, [], rows(_ROWS))
        b.loop(tiled, w["rows"], 1, [], rows(1))


def _argument_word(b: Builder, words: Value, number: int) -> Value:
    return b.emit(I64, f"load i64, {b.at(words, 8 * number)}, align 8")
