"""Finds row kernels between matmuls, as in attention, that can run block of rows by block of rows.

A group is a fused kernel whose rows depend only on equal rows (softmax, for example), the matmuls
that produce its operands, and matmuls that consume its results. It runs as one kernel: each block
of rows goes through all members, so the matrices between them (the attention scores) are tiles in
cache and never in memory. A consumer may be a matmul of these rows (``P V``) or an accumulation
over them (``P^T dO`` in the backward).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.lowering.codegen.ir.loopnest import Kernel, Load, Operand
from pirkit.lowering.codegen.ir.tiled_nest import TiledNest
from pirkit.lowering.codegen.lower.from_map_expr import ArrayNest
from pirkit.lowering.codegen.matmul.fused_row_blocks import is_profitable
from pirkit.lowering.codegen.matmul.row_block_plan import (
    MemoryRows,
    RowAccumulation,
    RowBlocks,
    RowGemm,
    RowNest,
    Rows,
    RowStep,
    ScratchRows,
    runs_by_rows,
    tile_shape,
    with_scratch_strides,
)
from pirkit.lowering.native_fused import nests_at
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.matmul import MAX_THIN_EXTENT, matrix_batch
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host
from pirkit.runtime.plan import Call, Plan

MATMUL_OP: Final = "pd_op.matmul"
MIN_ROWS: Final = 1 << 14
"""Smallest number of elements between two matmuls for which it pays not to materialize them."""

MAX_PANELS: Final = 1 << 22
"""Largest size in bytes of a packed right operand: each thread packs it once and reads it again for
each block of rows, so it must stay in cache."""

MAX_TRANSPOSED_DEPTH: Final = 64
"""Depth from which a product of a transposed left operand stands alone: the GEMM packs that
operand, of which a block of rows reads each column from another cache line (3072 x 512 x 768 and a
sum: 65 and 25 ms; x 64: 5.9 and 6.8)."""

Buffer = int | str
"""A slot of the plan, or the name of a value internal to the group."""


class RowGroup(Struct, frozen=True):
    """Calls that run as one kernel, at the position of the last of ``members``.

    ``operands`` are the slots that the kernel reads and writes.
    """

    blocks: RowBlocks
    operands: tuple[int, ...]
    members: frozenset[int]


def find_row_groups(
    plan: Plan, meta: Callable[[int], TensorMeta], views: Mapping[int, int]
) -> dict[int, RowGroup]:  # fmt: skip
    """The groups of a plan, by the position at which they run.

    ``views`` maps each slot that aliases another one to that slot.
    """
    flow = _DefUse(plan, views)
    found: dict[int, RowGroup] = {}
    grouped: set[int] = set()
    for number, call in enumerate(flow.calls):
        if call is None or call.kernel != FUSED or number in grouped:
            continue
        group = _GroupFinder(flow, meta, number, grouped).group()
        if group is not None:
            found[max(group.members)] = group
            grouped |= group.members
    return found


class _DefUse:
    """Use-def information: the call that writes each slot, and the calls that read it."""

    def __init__(self, plan: Plan, views: Mapping[int, int]) -> None:
        self.views = views
        self.calls = [i if isinstance(i, Call) else None for i in plan.body]
        self.writers: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.results = {self.slot(o.source) for o in plan.outputs if isinstance(o.source, int)}
        for number, call in enumerate(self.calls):
            for slot in call.inputs if call else ():
                if isinstance(slot, int):
                    self.readers.setdefault(self.slot(slot), []).append(number)
            for slot in call.outputs if call else ():
                if isinstance(slot, int) and slot not in views:
                    self.writers[slot] = number

    def slot(self, slot: int) -> int:
        return self.views.get(slot, slot)

    def matmul(self, number: int, meta: Callable[[int], TensorMeta]) -> _Matmul | None:
        call = self.calls[number]
        if call is None or call.kernel != MATMUL_OP:
            return None
        given = cast("tuple[int, int]", call.inputs)
        (x, y), (a, b) = map(self.slot, given), map(meta, given)
        left, right = bool(call.attrs["transpose_x"]), bool(call.attrs["transpose_y"])
        return _Matmul(x, y, cast(int, call.outputs[0]), a, b, left, right)


class _Matmul(NamedTuple):
    """A matmul: the slots of its operands' memory and of its result, the operands as it reads
    them, which may be views of another shape, and whether they are transposed.
    """

    x: int
    y: int
    out: int
    a: TensorMeta
    b: TensorMeta
    left: bool
    right: bool


class _GroupOperands(Struct):
    """The operands of a group in memory, and its values that live in cache-resident tiles."""

    operands: list[int] = field(default_factory=list[int])
    sizes: list[int] = field(default_factory=list[int])
    tiles: dict[Buffer, int] = field(default_factory=dict[Buffer, int])
    columns: list[int] = field(default_factory=list[int])

    def operand(self, slot: int, nbytes: int) -> int:
        if slot not in self.operands:
            self.operands.append(slot)
            self.sizes.append(nbytes)
        return self.operands.index(slot)

    def tile(self, value: Buffer, columns: int) -> None:
        self.tiles[value] = len(self.columns)
        self.columns.append(columns)


class _GroupFinder:
    """Builds the group around the fused kernel at position ``middle``."""

    def __init__(
        self, flow: _DefUse, meta: Callable[[int], TensorMeta], middle: int, grouped: set[int]
    ) -> None:  # fmt: skip
        self.flow, self.meta_of, self.middle, self.grouped = flow, meta, middle, grouped
        call = cast(Call, flow.calls[middle])
        self.given = cast("tuple[int, ...]", call.inputs)
        self.bound = [flow.slot(s) for s in self.given]
        self.results = [s for s in call.outputs if isinstance(s, int)]
        self.rows: tuple[int, ...] = ()
        self.before: list[int] = []
        self.after: list[int] = []
        self.values = _GroupOperands()

    def group(self) -> RowGroup | None:
        """The row kernel with the matmuls before and after it; None if it is no group.

        It is none if there is no matmul before it, if one of its nests is not by rows, or if the
        group would not be faster.
        """
        call = cast(Call, self.flow.calls[self.middle])
        self._producing_matmuls()
        if not self.before:
            return None
        shapes = tuple([self.meta_of(s).shape for s in self.given])
        kernel, nests = nests_at(call.attrs["kernel"], shapes)
        if isinstance(nests, str) or any(nest.assertions for nest in nests):
            return None
        self._consuming_matmuls()
        members = frozenset([*self.before, self.middle, *self.after])
        if not self._tiles(members, kernel, nests):
            return None
        if not any(isinstance(value, int) for value in self.values.tiles):
            return None
        found = [self._nest(kernel, nest) for nest in nests]
        if None in found:
            return None
        steps: list[RowStep] = [self._row_gemm(k) for k in self.before]
        steps += [nest for nest in found if nest]
        steps += [
            self._row_accumulation(k) if self._is_sum(k) else self._row_gemm(k) for k in self.after
        ]
        dtype = self.meta_of(self._find_matmul(self.before[0]).out).dtype
        *batch, rows = self.rows
        values = self.values
        blocks = RowBlocks(
            tuple(batch), rows, dtype, tuple(steps), tuple(values.sizes), tuple(values.columns)
        )
        if not is_profitable(blocks, host()):
            return None
        return RowGroup(blocks, tuple(values.operands), members)

    # --- members: a matmul joins if moving it to the group's position keeps the order of uses ---

    def _matmul(self, number: int) -> _Matmul | None:
        return self.flow.matmul(number, self.meta_of)

    def _find_matmul(self, number: int) -> _Matmul:
        return cast(_Matmul, self._matmul(number))

    def _producing_matmuls(self) -> None:
        for slot in dict.fromkeys(self.bound):
            number = self.flow.writers.get(slot)
            matmul = None if number is None else self._matmul(number)
            if number is None or matmul is None or number in self.grouped:
                continue
            out = matmul.out
            rows = self.meta_of(out).shape[:-1]
            early = [k for k in self.flow.readers[out] if k < self.middle]
            if matmul.left and matmul.a.shape[-2] >= MAX_TRANSPOSED_DEPTH:
                continue
            # A reader before the group would run before the matmul does.
            if early or not self._fits_row(matmul) or self.rows not in ((), rows):
                continue
            if prod(self.meta_of(out).shape) < MIN_ROWS or self._is_internal(matmul.y):
                continue
            self.rows = rows
            self.before.append(number)

    def _consuming_matmuls(self) -> None:
        readers = {k for slot in self.results for k in self.flow.readers.get(slot, ())}
        for number in sorted(readers):
            matmul = self._matmul(number)
            if matmul is None or number in self.grouped or not self._fits_row(matmul):
                return
            members = {*self.before, self.middle, *self.after, number}
            # The group runs at its last member: what reads its results must come later.
            if any(k < number and k not in members for k in self._readers(members - {number})):
                return
            if not (self._can_accumulate(matmul) or self._can_fuse_gemm(matmul)):
                return
            self.after.append(number)

    def _readers(self, members: set[int]) -> Iterator[int]:
        for slot, writer in self.flow.writers.items():
            if writer in members:
                yield from self.flow.readers.get(slot, ())

    def _fits_row(self, matmul: _Matmul) -> bool:
        a, b, c = matmul.a, matmul.b, self.meta_of(matmul.out)
        if min(a.rank, b.rank) < 2 or c.dtype not in (dt.float32, dt.float64) or not a.numel:
            return False
        if self.before and c.dtype != self._dtype():
            return False  # the tiles of a group are of one type
        depth = a.shape[-2 if matmul.left else -1]
        panels = tile_shape(c.dtype, host()).panels_bytes(depth, c.shape[-1])
        return c.numel > 0 and c.shape[-1] >= MAX_THIN_EXTENT and panels <= MAX_PANELS

    def _is_internal(self, slot: int) -> bool:
        writer = self.flow.writers.get(slot)
        return writer is not None and writer in (*self.before, self.middle, *self.after)

    def _is_row_value(self, slot: int, seen: TensorMeta | None = None) -> bool:
        """Whether a value has the rows of the group, and so has the view of it that is read."""
        meta = self.meta_of(slot)
        if seen is not None and meta.shape != seen.shape:
            return not self._is_internal(slot) and seen.shape[:-1] == self.rows
        return meta.shape[:-1] == self.rows

    def _can_fuse_gemm(self, matmul: _Matmul) -> bool:
        x, y, out, a, _, left, _ = matmul
        inside = x in self.results and not left and not self._is_internal(y)
        return inside and self._is_row_value(x, a) and self._is_row_value(out)

    def _can_accumulate(self, matmul: _Matmul) -> bool:
        x, y, out, a, b, left, right = matmul
        ours = [slot in self.results or not self._is_internal(slot) for slot in (x, y)]
        same_batch = self.meta_of(out).shape[:-2] == self.rows[:-1]
        return (
            left
            and not right
            and all(ours)
            and self._is_row_value(x, a)
            and self._is_row_value(y, b)
            and same_batch
        )

    def _is_sum(self, number: int) -> bool:
        return self._find_matmul(number).left

    # --- the members as steps over tiles and memory ---

    def _tiles(self, members: frozenset[int], kernel: MapExpr, nests: Sequence[ArrayNest]) -> bool:
        """Assign a tile to each value that only the group reads.

        Returns False if a value between two nests does not fit a tile.
        """
        for slot in [self._find_matmul(k).out for k in self.before] + self.results:
            readers = self.flow.readers.get(slot, ())
            # A value that is also read outside, or by later code, must exist in memory.
            is_live_outside = slot in self.flow.results or not members.issuperset(readers)
            if (
                self._is_row_value(slot)
                and not is_live_outside
                and self._fits_scratch(self.meta_of(slot))
            ):
                self.values.tile(slot, self.meta_of(slot).shape[-1])
        for k in sorted({k for nest in nests for k in nest.arrays if k >= len(kernel.inputs)}):
            value, _ = self._value(kernel, k)
            if isinstance(value, int):
                continue
            meta = kernel.statements[k - len(kernel.inputs)].meta
            if meta.shape[:-1] != self.rows or not self._fits_scratch(meta):
                return False
            self.values.tile(value, meta.shape[-1])
        return True

    def _fits_scratch(self, meta: TensorMeta) -> bool:
        """Whether a value fits a tile, whose element size is that of the matmuls."""
        return meta.dtype.itemsize <= self._dtype().itemsize

    def _rows_of(self, slot: int, meta: TensorMeta, transposed: bool = False) -> Rows:
        if slot in self.values.tiles:
            return ScratchRows(self.values.tiles[slot])
        return self._outside(slot, meta, transposed)

    def _outside(self, slot: int, meta: TensorMeta, transposed: bool) -> MemoryRows:
        """A value in memory, read with the shape of ``meta``."""
        m = matrix_batch(meta, self.rows[:-1], transposed)
        return MemoryRows(self.values.operand(slot, m.size), m.batch, m.strides)

    def _row_gemm(self, number: int) -> RowGemm:
        x, y, out, a, b, left, right = self._find_matmul(number)
        depth, c = a.shape[-2 if left else -1], self.meta_of(out)
        rows, panels = self._rows_of(x, a, left), self._outside(y, b, right)
        return RowGemm(rows, panels, self._rows_of(out, c), depth, c.shape[-1])

    def _row_accumulation(self, number: int) -> RowAccumulation:
        x, y, out, a, b, *_ = self._find_matmul(number)
        c = self.meta_of(out)
        rows, columns = c.shape[-2:]
        dest = self._outside(out, c, False)
        return RowAccumulation(self._rows_of(x, a), self._rows_of(y, b), dest, rows, columns)

    def _nest(self, kernel: MapExpr, nest: ArrayNest) -> RowNest | None:
        """The nest with rows as its outer iterations; None if it mixes rows."""
        if isinstance(nest.kernel, TiledNest):
            return None
        by_rows = _by_rows(nest.kernel, prod(self.rows))
        if by_rows is None:
            return None
        places: list[int | ScratchRows] = []
        for array, operand in zip(nest.arrays, by_rows.operands, strict=True):
            value, inside = self._value(kernel, array)
            columns = self._columns(kernel, array)
            # Only the present block of rows exists of a value that the group computes.
            if inside and not _preserves_rows(by_rows, operand, columns):
                return None
            if value in self.values.tiles:
                places.append(ScratchRows(self.values.tiles[value]))
            else:
                places.append(self.values.operand(cast(int, value), operand.size))
        step = RowNest(by_rows, tuple(places))
        tiled = with_scratch_strides(step, self.values.columns, tile_shape(self._dtype(), host()))
        return step if runs_by_rows(tiled, prod(self.rows), host()) else None

    def _dtype(self) -> dt.DType:
        return self.meta_of(self._find_matmul(self.before[0]).out).dtype

    def _value(self, kernel: MapExpr, array: int) -> tuple[Buffer, bool]:
        """The value that an array of a nest is, and whether the group computes it."""
        if array < len(kernel.inputs):
            slot = self.bound[array]
            return slot, self._is_internal(slot)
        statement = array - len(kernel.inputs)
        call = cast(Call, self.flow.calls[self.middle])
        for output, slot in zip(kernel.outputs, call.outputs, strict=True):
            if output == statement and isinstance(slot, int):
                return slot, True
        return f"v{statement}", True

    def _columns(self, kernel: MapExpr, array: int) -> int:
        first = len(kernel.inputs)
        metas = kernel.inputs if array < first else [s.meta for s in kernel.statements]
        meta = metas[array if array < first else array - first]
        return meta.shape[-1] if meta.shape[:-1] == self.rows else 0


def _by_rows(kernel: Kernel, rows: int) -> Kernel | None:
    """The kernel with rows as outer iterations; the last axis of an elementwise one goes inside."""
    if prod(kernel.outer) == rows and kernel.inner:
        return kernel
    if kernel.inner or not kernel.outer or prod(kernel.outer[:-1]) != rows:
        return None
    operands = [replace(o, outer=o.outer[:-1], inner=o.outer[-1:]) for o in kernel.operands]
    return replace(
        kernel, outer=kernel.outer[:-1], inner=kernel.outer[-1:], operands=tuple(operands)
    )


def _preserves_rows(kernel: Kernel, operand: Operand, columns: int) -> bool:
    """Whether each outer iteration accesses an operand only in its own row."""
    row = columns * operand.dtype.itemsize
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    moved = any(
        (s.at is not None or s.predicate is not None) and kernel.operands[s.operand] is operand
        for s in loads
    )
    dense = all(
        extent == 1 or stride == prod(kernel.outer[k + 1 :]) * row
        for k, (extent, stride) in enumerate(zip(kernel.outer, operand.outer, strict=True))
    )
    reach = [(e - 1) * s for e, s in zip(kernel.inner, operand.inner, strict=True)]
    low = operand.offset + sum(r for r in reach if r < 0)
    high = operand.offset + sum(r for r in reach if r > 0)
    return row > 0 and not moved and dense and low >= 0 and high < row
