"""Products and row kernels, some rows at a time: what lies between them never leaves the caches.

Attention is a product, a kernel of rows, and a product: whole, the scores between them are the
largest array of all. Here a block of rows goes through all steps before the next one does:

`RowProduct`   rows of x times a matrix: rows of the result.
`RowSum`       rows of x, turned, times rows of y: a matrix that grows with each block.
`RowNest`      a loop nest whose outer points are the rows.

Values that only these steps read are tiles in scratch memory. A matrix of the batch is done by one
thread if there are sums, else a block of rows: the bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.awaiting import Draft, function_of
from pirkit.lowering.codegen.compile import key_of, work_of
from pirkit.lowering.codegen.generate import PARAMETERS, SYMBOL, begin, written
from pirkit.lowering.codegen.ir import I64, PTR, Builder, Type, Value
from pirkit.lowering.codegen.panel_copies import copy_row, evenness, packed, scaled
from pirkit.lowering.codegen.panels import Strides, swept
from pirkit.lowering.codegen.points import argument, place, split_index
from pirkit.lowering.codegen.routines import Routines
from pirkit.lowering.codegen.row_asking import Asked, asked
from pirkit.lowering.codegen.row_factors import with_factors
from pirkit.lowering.codegen.row_largest import begun, ended, with_largest
from pirkit.lowering.codegen.row_steps import (
    RowBlocks,
    RowNest,
    RowProduct,
    Rows,
    RowSum,
    Step,
    Tile,
    in_tiles,
    runs_by_rows,
    tile_shape,
)
from pirkit.runtime.native.function import Code, NativeFunction
from pirkit.runtime.native.target import Target, host

LINE: Final = 64
_DEPTH: Final = 512
"""Rows of a panel that are swept at a time."""
_MOST_ROWS: Final = 96
_BLOCKS: Final = 8
_FEW_PANELS: Final = 1 << 18
_MULTIPLICATIONS_PER_NS: Final = 3


def native_rows(group: RowBlocks) -> NativeFunction:
    """The function of a group, with its operands by number."""
    return function_of(key_of(group, host()), lambda: drafted(group, host()))


def drafted(group: RowBlocks, target: Target) -> Draft:
    """The function of a group, not yet compiled."""
    group = with_largest(with_factors(group, target), _DEPTH, target)
    writer = _Writer(group, target)
    writer.emit()
    code = Code(b"", SYMBOL, writer.blocks, writer.scratch, writer.work, group.sizes)
    return Draft(writer.made.text(), code)


def block_rows(group: RowBlocks, target: Target) -> int:
    """Rows at once: their tiles fill half of the L2 cache, or more if rows are long."""
    shape = tile_shape(group.dtype, target)
    row = sum(copy_row(shape, columns) for columns in group.tiles)
    fitting = target.l2_bytes // 2 // max(row, 1) // shape.rows * shape.rows
    most = min(_MOST_ROWS // shape.rows, -(-group.rows // shape.rows)) * shape.rows
    return min(max(2 * shape.rows, fitting), most)


def is_worth(group: RowBlocks, target: Target) -> bool:
    """Whether there are enough matrices, if each is one thread's, and rows for what is packed.

    Each part of the blocks that a thread takes packs right factors again.
    """
    matrices = prod(group.batch)
    if group.sums:
        return matrices >= _BLOCKS
    shape = tile_shape(group.dtype, target)
    products = [s for s in group.steps if isinstance(s, RowProduct)]
    panels = sum(shape.panels_bytes(s.depth, s.columns) for s in products)
    many = matrices >= _BLOCKS or group.rows >= _BLOCKS * _MOST_ROWS
    return many or panels <= _FEW_PANELS


class _Writer:
    def __init__(self, group: RowBlocks, target: Target) -> None:
        self.group, self.target = group, target
        self.shape = tile_shape(group.dtype, target)
        self.made = Routines(scalef=target.x86 and target.has("avx512f"))
        self.b = self.made.builder()
        self.at_once = block_rows(group, target)
        self.scratch = 0
        self.pitch = [copy_row(self.shape, columns) for columns in group.tiles]
        self.places = [self._reserve(self.at_once * pitch) for pitch in self.pitch]
        self.down = -(-group.rows // self.at_once)
        self.matrices = prod(group.batch)
        self.blocks = self.matrices * (1 if group.sums else self.down)
        self.grows = group.sums or any(
            isinstance(s, RowProduct) and s.depth > _DEPTH for s in group.steps
        )
        self.shared = sum(not isinstance(s, RowNest) for s in group.steps) > 1
        self.asked = asked(group, self.at_once, self.shape, target)
        self.work = 0
        self.panels: dict[int, int] = {}
        self.nests: dict[int, tuple[str, int]] = {}
        self.pointers: list[Value] = []
        for number, step in enumerate(group.steps):
            self._prepare(number, step)

    def _reserve(self, nbytes: int) -> int:
        offset = self.scratch
        self.scratch += -(-nbytes // LINE) * LINE
        return offset

    def _prepare(self, number: int, step: Step) -> None:
        group, shape = self.group, self.shape
        rows = self.matrices * group.rows
        match step:
            case RowProduct(depth=depth, columns=columns):
                self.panels[number] = self._reserve(shape.panels_bytes(depth, columns))
                self.work += rows * depth * columns // (_MULTIPLICATIONS_PER_NS * shape.lanes)
            case RowSum(rows=across, columns=columns):
                self.panels[number] = self._reserve(shape.panels_bytes(self.at_once, columns))
                self.work += rows * across * columns // (_MULTIPLICATIONS_PER_NS * shape.lanes)
            case RowNest():
                kernel = in_tiles(step, group.tiles, shape)
                if not runs_by_rows(kernel, rows, self.target):
                    raise InternalError("a nest in blocks of rows does not run by rows")
                b, plan, scratch = written(kernel, self.target)
                name = f"nest{number}"
                count = len(kernel.operands)
                self.made.define(f"private void @{name}({PARAMETERS})", b, begin(count, 0))
                self.nests[number] = name, self._reserve(scratch)
                self.work += work_of(kernel, plan)

    def emit(self) -> None:
        b, group = self.b, self.group
        self.pointers = [argument(b, k) for k in range(len(group.sizes))]
        most = max([len(s.operands) for s in group.steps if isinstance(s, RowNest)], default=0)
        self.made.define(
            f"void @{SYMBOL}({PARAMETERS})",
            self._body(),
            (
                *begin(len(group.sizes), self.scratch),
                f"  %block = alloca [{most + 1} x ptr], align 8",
            ),
        )

    def _body(self) -> Builder:
        b, group = self.b, self.group

        def matrix_of_sums(number: Value, _: list[Value]) -> Sequence[Value]:
            positions = split_index(b, number, group.batch)
            self._pack(positions)

            def block(below: Value, _: list[Value]) -> Sequence[Value]:
                self._block(number, positions, below)
                return []

            b.loop(0, self.down, 1, [], block)
            return []

        def block_of_rows(number: Value, carried: list[Value]) -> Sequence[Value]:
            matrix, below = split_index(b, number, [self.matrices, self.down])
            positions = split_index(b, matrix, group.batch)
            other = b.emit(Type("i1"), f"icmp ne {matrix}, {carried[0].text}")

            def pack() -> Sequence[Value]:
                self._pack(positions)
                return []

            b.branch(other, pack)
            self._block(matrix, positions, below)
            return [matrix]

        lo, hi = Value("%lo", I64), Value("%hi", I64)
        if group.sums:
            b.loop(lo, hi, 1, [], matrix_of_sums)
        else:
            b.loop(lo, hi, 1, [Value("-1", I64)], block_of_rows)
        return b

    def _pack(self, positions: list[Value]) -> None:
        """The right factors of products, which all blocks of a matrix have in common."""
        b = self.b
        for number, step in enumerate(self.group.steps):
            if not isinstance(step, RowProduct):
                continue
            even = evenness(self.shape, step.columns, step.depth)
            pack = packed(self.made, self.shape, step.y.strides, step.depth, even)
            source = place(b, self.pointers[step.y.operand], step.y.batch, positions)
            into = self._scratch(self.panels[number])
            b.do(f"call void @{pack}({source}, {into}, i64 {step.depth}, i64 {step.columns})")

    def _scratch(self, offset: int) -> Value:
        return self.b.at(Value("%scratch", PTR), offset)

    def _block(self, matrix: Value, positions: list[Value], below: Value) -> None:
        b, group = self.b, self.group
        first = b.times(below, self.at_once)
        count = Value(str(self.at_once), I64)
        if group.rows % self.at_once:
            left = b.emit(I64, f"sub i64 {group.rows}, {first.text}")
            count = b.binary("smin", count, left)
        row = b.plus(b.times(matrix, group.rows), first)
        for number, step in enumerate(group.steps):
            match step:
                case RowProduct():
                    ahead = [(a, self._ahead(a, matrix, below)) for a in self.asked.get(number, ())]
                    self._product(number, step, positions, first, count, ahead)
                case RowSum():
                    self._sum(number, step, positions, first, count)
                case RowNest():
                    self._nest(number, step, row, count)

    def _ahead(self, what: Asked, matrix: Value, below: Value) -> Value:
        """Where that lies which tiles ask for; beyond the last block it may be anywhere."""
        b, operand = self.b, what.operand
        if what.next_matrix:
            matrix = b.binary("smin", b.plus(matrix, 1), Value(str(self.matrices - 1), I64))
        else:
            below = b.plus(below, 1)
        positions = split_index(b, matrix, self.group.batch)
        base = place(b, self.pointers[operand.operand], operand.batch, positions)
        return b.at(base, b.times(below, what.nbytes))

    def _rows(self, rows: Rows, positions: list[Value], first: Value) -> tuple[Value, Strides]:
        """Where the rows of the present block begin, and their strides."""
        b = self.b
        if isinstance(rows, Tile):
            strides = (self.pitch[rows.number], self.group.dtype.itemsize)
            return self._scratch(self.places[rows.number]), strides
        base = place(b, self.pointers[rows.operand], rows.batch, positions)
        return b.at(base, b.times(first, rows.strides[0])), rows.strides

    def _product(
        self, number: int, step: RowProduct, positions: list[Value], first: Value, count: Value,
        ahead: Sequence[tuple[Asked, Value]],
    ) -> None:  # fmt: skip
        x, strides = self._rows(step.x, positions, first)
        out, (c_row, _) = self._rows(step.out, positions, first)
        rest = (self.group.rows % self.shape.rows, step.columns % self.shape.columns)
        b, size = self.b, self.shape.dtype.itemsize
        lines = [what.lines for what, _ in ahead]
        apart = 0 if step.largest is None else self.pitch[step.largest.number]
        sweep = swept(
            self.made, self.shape, strides, step.depth, c_row, rest,
            shared=self.shared, ahead=lines, largest=apart,
            grows=step.depth > _DEPTH if apart else self.grows,
        )  # fmt: skip
        more = [where for _, where in ahead]
        if step.largest is not None:
            more.append(self._scratch(self.places[step.largest.number]))
            b.do(f"call void @{begun(self.made, self.shape, apart)}({more[-1]}, {count})")
        others = "".join([f", {where}" for where in more])
        panels = self._scratch(self.panels[number])
        pieces = -(-step.depth // _DEPTH)
        deep = -(-step.depth // pieces)

        def one(k: Value, _: list[Value]) -> Sequence[Value]:
            left = b.at(x, b.times(k, strides[1]))
            right = b.at(panels, b.times(k, self.shape.columns * size))
            rest_of = b.emit(I64, f"sub i64 {step.depth}, {k.text}")
            some = b.binary("smin", Value(str(deep), I64), rest_of)
            fresh = b.compare("eq", k, 0)
            b.do(
                f"call void @{sweep}({left}, {right}, {out}, {count}, i64 {step.columns}, "
                f"{some}, {fresh}{others})"
            )
            return []

        b.loop(0, step.depth, deep, [], one)
        if step.largest is not None:
            b.do(f"call void @{ended(self.made, self.shape, apart)}({more[-1]}, {count})")
        if step.factor is not None:
            scale = scaled(self.made, self.shape, c_row, self.pitch[step.factor.number])
            factors = self._scratch(self.places[step.factor.number])
            b.do(f"call void @{scale}({out}, {factors}, {count}, i64 {step.columns})")

    def _sum(
        self, number: int, step: RowSum, positions: list[Value], first: Value, count: Value
    ) -> None:
        b, depth = self.b, self.at_once
        x, (x_row, x_column) = self._rows(step.x, positions, first)
        y, strides = self._rows(step.y, positions, first)
        out = place(b, self.pointers[step.out.operand], step.out.batch, positions)
        panels = self._scratch(self.panels[number])
        given = f"{y}, {panels}, {count}, i64 {step.columns}"
        apart = 0
        if step.factor is not None:
            apart = self.pitch[step.factor.number]
            given += f", {self._scratch(self.places[step.factor.number])}"
        even = evenness(self.shape, step.columns, depth, self.group.rows)
        pack = packed(self.made, self.shape, strides, depth, even, apart)
        b.do(f"call void @{pack}({given})")
        rest = (step.rows % self.shape.rows, step.columns % self.shape.columns)
        turned = (x_column, x_row)
        c_row = step.out.strides[0]
        shared, grows = self.shared, self.grows
        sweep = swept(self.made, self.shape, turned, depth, c_row, rest, shared=shared, grows=grows)
        fresh = b.compare("eq", first, 0)
        b.do(
            f"call void @{sweep}({x}, {panels}, {out}, i64 {step.rows}, i64 {step.columns}, "
            f"{count}, {fresh})"
        )

    def _nest(self, number: int, step: RowNest, row: Value, count: Value) -> None:
        """The nest is given addresses from which row 0 would lie as far as it does in memory."""
        b, (name, scratch) = self.b, self.nests[number]
        block = Value("%block", PTR)
        for k, where in enumerate(step.operands):
            if isinstance(where, Tile):
                back = b.emit(I64, f"sub i64 0, {b.times(row, self.pitch[where.number]).text}")
                address = b.at(self._scratch(self.places[where.number]), back)
            else:
                address = self.pointers[where]
            b.do(f"store {address}, {b.at(block, 8 * k)}, align 8")
        b.do(f"store {self._scratch(scratch)}, {b.at(block, 8 * len(step.operands))}, align 8")
        b.do(f"call void @{name}({block}, i64 0, {row}, {b.plus(row, count)})")
