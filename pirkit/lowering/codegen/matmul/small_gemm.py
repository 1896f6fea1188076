"""GEMM for small matrices of any sizes and strides, which the call gives.

No matmul has to be compiled, since for small ones the overhead exceeds the arithmetic: a function
serves all matmuls of an element type and a `Variant`. C is computed in tiles of four rows by two
vectors, which stay in registers along the whole depth; if columns of B are strided, those of a tile
are packed first. Terms are added in order by FMA, then the bias: the bits of an element depend on
nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.about import about
from pirkit.lowering.codegen.emit.batch_compile import Draft, function_of
from pirkit.lowering.codegen.emit.code_key import key_of
from pirkit.lowering.codegen.emit.nest_writer import write_nest
from pirkit.lowering.codegen.emit.routines import Routines
from pirkit.lowering.codegen.emit.schedule_loops import Stage
from pirkit.lowering.codegen.emit.vector_emit import tail_mask
from pirkit.lowering.codegen.ir.llvm_text import Builder, Type
from pirkit.lowering.codegen.ir.loop_ir import Block, Buffer, Invoke, Loop, Nest, Node, Table, Word
from pirkit.lowering.codegen.ir.loop_tree import changed
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Store,
)
from pirkit.lowering.codegen.ir.plain_loops import loops_of
from pirkit.lowering.codegen.ir.routine import Functions, Location, Values, matrix
from pirkit.lowering.codegen.matmul.microkernel import Elements, microkernel
from pirkit.lowering.codegen.matmul.output_tile import OutputTile
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.function import NativeFunction, size_from_words
from pirkit.runtime.native.target import Target, host

ARGUMENT_WORDS: Final = (
    "count", "rows", "columns", "depth", "x_row", "x_depth", "y_depth", "y_column", "out_row",
    "biased",
    "x_first", "x_bytes", "y_first", "y_bytes", "out_first", "out_bytes", "bias_first",
    "bias_bytes", "words_first", "words_bytes",
)  # fmt: skip
"""Sizes, and strides in bytes; the first byte of each operand (below 0 if a stride is) and how many
bytes it has; then three offsets in bytes for each of ``count`` matmuls: those of x, y and the
result. Rows of the result are contiguous.
"""

MAX_DEPTH: Final = 1024
"""Depth at most: the scratch memory of a thread holds a panel of so many rows."""
_ROWS, _VECTORS = 4, 2
"""The register tile. Few rows and vectors, so that small matrices have whole tiles; its
accumulators are as many as FMAs are in flight."""
_WORK_NS: Final = 1000
"""Nominal time of a call; it always runs on one thread."""
_X, _Y, _OUT, _BIAS, _WORDS = range(5)
_MATRIX, _ROW, _COLUMN, _DEPTH = range(4)


class Variant(Struct, frozen=True):
    """``short``: fewer columns than a vector has lanes; ``strided``: gaps between columns of y."""

    short: bool
    strided: bool


VARIANTS: Final = tuple([Variant(*flags) for flags in product((False, True), repeat=2)])


def variant_of(dtype: DType, columns: int, y_column: int) -> Variant:
    """The variant for so many columns, whose distance in y is ``y_column`` bytes."""
    return Variant(columns < _lanes(dtype, host()), y_column != dtype.itemsize)


def native_small_gemm(dtype: DType, variant: Variant) -> NativeFunction:
    """The function with operands x, y, result, bias and argument words.

    The caller ensures a depth of at most `MAX_DEPTH`. A bias of -0.0 changes no bit: such a call is
    not ``biased``.
    """
    key = key_of(("small products", dtype, variant), host())
    return function_of(key, lambda: _draft(dtype, variant, host()))


def _lanes(dtype: DType, target: Target) -> int:
    return target.vector_bits // (8 * dtype.itemsize)


def _draft(dtype: DType, variant: Variant, target: Target) -> Draft:
    lanes = _lanes(dtype, target)
    routines = Routines()
    b = routines.builder()
    stages = small_gemm_stages(dtype, variant, lanes)
    scratch = write_nest(b, stages[-1].nest, functions=routines)
    vectors = 1 if variant.short else _VECTORS
    known = about(small_gemm_stages, "small matmul", lanes=lanes, rows=_ROWS, vectors=vectors)
    names = ("x", "y", "out", "bias", "words")
    sizes = tuple([size_from_words(_number(f"{name}_first")) for name in names])
    return routines.draft(b, scratch, sizes, _WORK_NS, known, stages)


def small_gemm_stages(dtype: DType, variant: Variant, lanes: int) -> list[Stage]:
    """The loops of small matmuls: as they are defined, then in tiles as they are emitted."""
    plain = _plain_loops(dtype, variant)
    return [Stage("loops", plain), Stage("tile and pack", _Tiles(plain, variant, lanes).nest())]


def _number(name: str) -> int:
    return ARGUMENT_WORDS.index(name)


def _word(name: str, multiple: int = 1, least: int = 0) -> Word:
    return Word(_number(name), name, multiple, least)


def _plain_loops(dtype: DType, variant: Variant) -> Nest:
    """``out = x y + bias`` for each matrix."""
    body = (Load("a", _X), Load("b", _Y), Reduce("sum", "sum", "a", "b"))
    added = (Load("c", _BIAS), Compute("total", "add", ("sum", "c"), dtype), Store(_OUT, "total"))
    phase = LoopPhase(body, added)
    # The extents are words.
    operands = (Operand(dtype, (0, 0, 0), (0,), 0),) * 5
    nest = loops_of(Kernel((0, 0, 0), (0,), operands, (phase,)))
    axes = [_word(name) for name in ("count", "rows", "columns", "depth")]

    def extents(node: Node) -> Sequence[Node] | None:
        return [replace(node, stop=axes[node.axes[0]])] if isinstance(node, Loop) else None

    def buffer(name: str, strides: dict[int, int | Word], number: int | None) -> Buffer:
        constants = tuple([s if isinstance(s := strides.get(k, 0), int) else 0 for k in range(4)])
        dynamic = [(axis, s) for axis, s in strides.items() if isinstance(s, Word)]
        tables = [] if number is None else [(_MATRIX, Table(len(ARGUMENT_WORDS) + number, 3))]
        size_word = _number(f"{name}_bytes")
        return Buffer(dtype, constants, 0, dynamic=(*tables, *dynamic), size_word=size_word)

    size = dtype.itemsize
    column = _word("y_column") if variant.strided else size
    buffers = (
        buffer("x", {_ROW: _word("x_row"), _DEPTH: _word("x_depth")}, 0),
        buffer("y", {_DEPTH: _word("y_depth"), _COLUMN: column}, 1),
        buffer("out", {_ROW: _word("out_row"), _COLUMN: size}, 2),
        buffer("bias", {_COLUMN: size}, None),
        nest.buffers[_WORDS],
    )
    return replace(nest, buffers=buffers, body=changed(nest.body, extents), words=_WORDS)


class _Tiles:
    """Builds the loops over matrices, columns and rows around the microkernel.

    If the last tile would cross the edge of C, it is moved back onto elements that another tile
    computes too: their bits are the same, and no tile needs a mask but those of fewer columns than
    a vector has.
    """

    def __init__(self, plain: Nest, variant: Variant, lanes: int) -> None:
        self.plain, self.variant, self.lanes = plain, variant, lanes
        self.dtype = plain.buffers[_X].dtype
        self.row = lanes * self.dtype.itemsize
        # LLVM would compute the mask of AVX2 in each iteration: tails are packed, with zeros.
        self.widths = (1,) if variant.short else (_VECTORS, 1)
        self.panels = self.widths if variant.strided or variant.short else ()
        self.bias = 0

    def nest(self) -> Nest:
        lanes, nest = self.lanes, self.plain
        for vectors in self.panels:
            # One panel is in use at a time.
            shares = None if vectors == self.widths[0] else len(nest.buffers) - 1
            strides = 0, 0, self.dtype.itemsize, vectors * self.row
            nest, _ = nest.with_buffer(self._own("scratch", strides, MAX_DEPTH * vectors, shares))
        row = self._own("register", (0, 0, self.dtype.itemsize, 0), self.widths[0])
        nest, self.bias = nest.with_buffer(row)
        axes, columns = (_COLUMN,), _word("columns")
        if self.variant.short:
            body = (Loop("n", axes, 0, columns, lanes, self._columns(1), "vector", lanes),)
        else:
            wide, step = _word("columns", _VECTORS * lanes), _VECTORS * lanes
            body = (
                Loop("n", axes, 0, wide, step, self._columns(_VECTORS)),
                Loop("n", axes, wide, columns, lanes, self._columns(1), moved_back=True),
            )
        return replace(nest, body=(Loop("i", (_MATRIX,), 0, _word("count"), 1, body),))

    def _own(
        self, space: Literal["scratch", "register"], strides: tuple[int, ...], vectors: int,
        shares: int | None = None,
    ) -> Buffer:  # fmt: skip
        outside = ("i", "n", "m")
        return Buffer(
            self.dtype, strides, vectors * self.row, space=space, outside=outside, shares=shares
        )

    def _columns(self, vectors: int) -> tuple[Node, ...]:
        """All rows of some vectors of columns."""
        rows, whole = _word("rows"), _word("rows", least=_ROWS)
        # LLVM does not hoist a load past the stores of tiles.
        body = [self._copied("c", _BIAS, self.bias, vectors)]
        if self.panels:
            copy = self._copied("b", _Y, self._panel(vectors), vectors)
            body.append(Loop("k", (_DEPTH,), 0, _word("depth"), 1, (copy,)))
        # Fewer rows than a tile has run one by one.
        return (
            *body,
            Loop("m", (_ROW,), 0, whole, _ROWS, self._tile(_ROWS, vectors), moved_back=True),
            Loop("m", (_ROW,), whole, rows, 1, self._tile(1, vectors)),
        )

    def _panel(self, vectors: int) -> int:
        return _WORDS + 1 + self.panels.index(vectors)

    def _copied(self, name: str, source: int, dest: int, vectors: int) -> Node:
        """Copies some vectors of a row; those of a short one are under its mask."""
        copy, axes, lanes = Block((Load(name, source), Store(dest, name))), (_COLUMN,), self.lanes
        if self.variant.short:
            return copy
        vector = Loop("n1", axes, 0, lanes, lanes, (copy,), "vector", lanes)
        return Loop("n0", axes, 0, vectors * lanes, lanes, (vector,), "unroll")

    def _tile(self, rows: int, vectors: int) -> tuple[Node, ...]:
        short = self.variant.short
        tile = SmallTile(self.dtype, self.lanes, (rows, vectors), short)
        panel, stride = _Y, _word("y_depth")
        names = ("depth", "columns", "biased", "x_row", "x_depth", "out_row")
        if self.panels:
            panel, stride = self._panel(vectors), vectors * self.row
        numbers = (*map(_word, names), stride)
        return (Invoke(tile, (_X, panel, _OUT, self.bias), numbers),)


class SmallTile(Struct, frozen=True):
    """The microkernel of a tile of ``extent`` rows and vectors; only a ``short`` one has a tail.

    Buffers are x, a panel, the result, and the bias in registers; numbers are the depth, all
    columns, whether there is a bias, the strides of x, and those of rows of the result and panel.
    """

    dtype: DType
    lanes: int
    extent: tuple[int, int]
    short: bool

    def show(self, buffers: Sequence[str], numbers: Sequence[str]) -> str:
        (x, panel, out, bias), (rows, vectors) = buffers, self.extent
        columns = numbers[1] if self.short else vectors * self.lanes
        result = f"{x} {panel} + {bias} if {numbers[2]}"
        return f"microkernel {out}[{rows} x {columns}] = {result}, depth {numbers[0]}"

    def run(self, memory: Sequence[Location], numbers: Sequence[int]) -> None:
        (rows, vectors), size = self.extent, self.dtype.itemsize
        depth, columns, biased, x_row, x_depth, out_row, panel_row = numbers
        columns = columns if self.short else vectors * self.lanes
        x = matrix(memory[0], self.dtype, (rows, depth), (x_row, x_depth))
        panel = matrix(memory[1], self.dtype, (depth, columns), (panel_row, size), panel=True)
        out = matrix(memory[2], self.dtype, (rows, columns), (out_row, size))
        out[...] = x @ panel
        if biased:
            out += matrix(memory[3], self.dtype, (1, columns), (0, size))

    def call(self, b: Builder, functions: Functions, addresses: Values, numbers: Values) -> None:
        """Emit the microkernel in place: a call would take as long as some terms of a tile."""
        (rows, vectors), (x, panel, out, *bias) = self.extent, addresses
        depth, columns, biased, x_row, x_depth, out_row, panel_row = numbers
        vector = Type("float" if self.dtype.itemsize == 4 else "double", self.lanes)
        masks = [tail_mask(b, self.lanes, columns) if self.short else None] * vectors
        offsets = [v * self.lanes * self.dtype.itemsize for v in range(vectors)]
        starts, lines = (
            [b.at(base, b.emit(stride.type, f"mul {stride}, {r}")) for r in range(rows)]
            for base, stride in ((x, x_row), (out, out_row))
        )
        left = Elements(Type(vector.elem), [(start, 0) for start in starts], [x_depth])
        right = Elements(vector, [(panel, at) for at in offsets], [panel_row])
        zeros = [b.const(vector, 0.0)] * (rows * vectors)
        sums = microkernel(b, left, right, [depth], zeros)
        rows_of_bias = bias[:vectors] * rows
        # With the branch LLVM places the stores after the loop; before it they took up to 17 %
        # longer.
        sums = b.branch(
            b.compare("ne", biased, 0),
            lambda: [b.add(s, row) for s, row in zip(sums, rows_of_bias, strict=True)],
            sums,
        )
        OutputTile(vector, [b.at(line, at) for line in lines for at in offsets], masks).store(
            b, sums
        )
