"""Finds kernels of rows between products, whose rows can go through all of them in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, cast

from pirkit.dialect.map_expr.checking import kernel_at
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.lowering.codegen.landing import Landing
from pirkit.lowering.codegen.loopnest import Kernel, Load, Operand
from pirkit.lowering.codegen.row_blocks import is_worth
from pirkit.lowering.codegen.row_steps import (
    Outside,
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
from pirkit.lowering.codegen.tile_turns import TileTurns
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.products import THIN, matrices
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.target import host
from pirkit.runtime.plan import Call, Plan

PRODUCT: Final = "pd_op.matmul"
LEAST: Final = 1 << 14
"""Elements between two products from which it pays not to write them to memory."""

MOST_PANELS: Final = 1 << 22
"""Bytes of a right factor that is packed by each thread, and read again for each block of rows."""

Buffer = int | str
"""A slot of the plan, or the name of a value that only the group has."""


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that run as one, where the last of ``members`` stands; operands are these slots."""

    blocks: RowBlocks
    operands: tuple[int, ...]
    members: frozenset[int]


def row_groups(
    plan: Plan, meta: Callable[[int], TensorMeta], same: Mapping[int, int]
) -> dict[int, Group]:  # fmt: skip
    """The groups of a plan by the position at which they run.

    ``same`` are slots that are other ones under another name.
    """
    flow = _Flow(plan, same)
    found: dict[int, Group] = {}
    taken: set[int] = set()
    for number, call in enumerate(flow.calls):
        if call is None or call.kernel != FUSED or number in taken:
            continue
        group = _Finder(flow, meta, number, taken).group()
        if group is not None:
            found[max(group.members)] = group
            taken |= group.members
    return found


class _Flow:
    """Who writes and who reads each slot."""

    def __init__(self, plan: Plan, same: Mapping[int, int]) -> None:
        self.same = same
        self.calls = [i if isinstance(i, Call) else None for i in plan.body]
        self.writers: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.results = {self.slot(o.source) for o in plan.outputs if isinstance(o.source, int)}
        for number, call in enumerate(self.calls):
            for slot in call.inputs if call else ():
                if isinstance(slot, int):
                    self.readers.setdefault(self.slot(slot), []).append(number)
            for slot in call.outputs if call else ():
                if isinstance(slot, int) and slot not in same:
                    self.writers[slot] = number

    def slot(self, slot: int) -> int:
        return self.same.get(slot, slot)

    def product(self, number: int) -> tuple[int, int, int, bool, bool] | None:
        """The slots of a product, and whether its factors are turned."""
        call = self.calls[number]
        if call is None or call.kernel != PRODUCT:
            return None
        x, y = (self.slot(cast(int, s)) for s in call.inputs)
        turned = bool(call.attrs["transpose_x"]), bool(call.attrs["transpose_y"])
        return x, y, cast(int, call.outputs[0]), *turned


@dataclass(slots=True)
class _Values:
    """The operands of a group, and the values that become tiles."""

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


class _Finder:
    """The group around one fused kernel."""

    def __init__(
        self, flow: _Flow, meta: Callable[[int], TensorMeta], middle: int, taken: set[int]
    ) -> None:  # fmt: skip
        self.flow, self.meta_of, self.middle, self.taken = flow, meta, middle, taken
        call = cast(Call, flow.calls[middle])
        self.given = [flow.slot(cast(int, s)) for s in call.inputs]
        self.results = [s for s in call.outputs if isinstance(s, int)]
        self.rows: tuple[int, ...] = ()
        self.before: list[int] = []
        self.after: list[int] = []
        self.values = _Values()

    def group(self) -> Group | None:
        call = cast(Call, self.flow.calls[self.middle])
        self._products_before()
        if not self.before:
            return None
        shapes = tuple([self.meta_of(s).shape for s in self.given])
        kernel = kernel_at(call.attrs["kernel"], shapes)
        nests = nests_of(kernel)
        if isinstance(nests, str) or any(nest.demands for nest in nests):
            return None
        self._products_after()
        members = frozenset([*self.before, self.middle, *self.after])
        if not self._tiles(members, kernel, nests):
            return None
        if not any(isinstance(value, int) for value in self.values.tiles):
            return None
        found = [self._nest(kernel, nest) for nest in nests]
        if None in found:
            return None
        steps: list[Step] = [self._row_product(k) for k in self.before]
        steps += [nest for nest in found if nest]
        steps += [self._row_sum(k) if self._is_sum(k) else self._row_product(k) for k in self.after]
        dtype = self.meta_of(self._product(self.before[0])[2]).dtype
        *batch, rows = self.rows
        values = self.values
        blocks = RowBlocks(
            tuple(batch), rows, dtype, tuple(steps), tuple(values.sizes), tuple(values.columns)
        )
        if not is_worth(blocks, host()):
            return None
        return Group(blocks, tuple(values.operands), members)

    # --- which calls ---

    def _product(self, number: int) -> tuple[int, int, int, bool, bool]:
        return cast("tuple[int, int, int, bool, bool]", self.flow.product(number))

    def _products_before(self) -> None:
        for slot in dict.fromkeys(self.given):
            number = self.flow.writers.get(slot)
            product = None if number is None else self.flow.product(number)
            if number is None or product is None or number in self.taken:
                continue
            _, y, out, _, _ = product
            rows = self.meta_of(out).shape[:-1]
            early = [k for k in self.flow.readers[out] if k < self.middle]
            if early or not self._fits(product) or self.rows not in ((), rows):
                continue
            if prod(self.meta_of(out).shape) < LEAST or self._made_inside(y):
                continue
            self.rows = rows
            self.before.append(number)

    def _products_after(self) -> None:
        readers = {k for slot in self.results for k in self.flow.readers.get(slot, ())}
        for number in sorted(readers):
            product = self.flow.product(number)
            if product is None or number in self.taken or not self._fits(product):
                return
            members = {*self.before, self.middle, *self.after, number}
            if any(k < number and k not in members for k in self._readers(members - {number})):
                return
            if not (self._can_sum(product) or self._can_multiply(product)):
                return
            self.after.append(number)

    def _readers(self, members: set[int]) -> Iterator[int]:
        for slot, writer in self.flow.writers.items():
            if writer in members:
                yield from self.flow.readers.get(slot, ())

    def _fits(self, product: tuple[int, int, int, bool, bool]) -> bool:
        x, y, out, turned, _ = product
        a, b, c = (self.meta_of(s) for s in (x, y, out))
        if min(a.rank, b.rank) < 2 or c.dtype not in (dt.float32, dt.float64) or not a.numel:
            return False
        if self.before and c.dtype != self._dtype():
            return False  # the tiles of a group are of one type
        depth = a.shape[-2 if turned else -1]
        panels = tile_shape(c.dtype, host()).panels_bytes(depth, c.shape[-1])
        return c.numel > 0 and c.shape[-1] >= THIN and panels <= MOST_PANELS

    def _made_inside(self, slot: int) -> bool:
        writer = self.flow.writers.get(slot)
        return writer is not None and writer in (*self.before, self.middle, *self.after)

    def _in_rows(self, slot: int) -> bool:
        return self.meta_of(slot).shape[:-1] == self.rows

    def _can_multiply(self, product: tuple[int, int, int, bool, bool]) -> bool:
        x, y, out, turned, _ = product
        inside = x in self.results and not turned and not self._made_inside(y)
        return inside and self._in_rows(x) and self._in_rows(out)

    def _can_sum(self, product: tuple[int, int, int, bool, bool]) -> bool:
        x, y, out, left, right = product
        ours = [slot in self.results or not self._made_inside(slot) for slot in (x, y)]
        same_batch = self.meta_of(out).shape[:-2] == self.rows[:-1]
        return (
            left
            and not right
            and all(ours)
            and self._in_rows(x)
            and self._in_rows(y)
            and same_batch
        )

    def _is_sum(self, number: int) -> bool:
        return self._product(number)[3]

    # --- what they are ---

    def _tiles(self, members: frozenset[int], kernel: MapExpr, nests: Sequence[Nest]) -> bool:
        """Note values in rows that nobody else reads; False if no tile holds one between nests."""
        made = [self._product(k)[2] for k in self.before] + self.results
        for slot in made:
            readers = self.flow.readers.get(slot, ())
            kept = slot in self.flow.results or not members.issuperset(readers)
            if self._in_rows(slot) and not kept and self._holds(self.meta_of(slot)):
                self.values.tile(slot, self.meta_of(slot).shape[-1])
        for k in sorted({k for nest in nests for k in nest.arrays if k >= len(kernel.inputs)}):
            value, _ = self._value(kernel, k)
            if isinstance(value, int):
                continue
            meta = kernel.statements[k - len(kernel.inputs)].meta
            if meta.shape[:-1] != self.rows or not self._holds(meta):
                return False
            self.values.tile(value, meta.shape[-1])
        return True

    def _holds(self, meta: TensorMeta) -> bool:
        """Whether a tile, which has the element type of the products, has room for a value."""
        return meta.dtype.itemsize <= self._dtype().itemsize

    def _rows_of(self, slot: int, turned: bool = False) -> Rows:
        if slot in self.values.tiles:
            return Tile(self.values.tiles[slot])
        return self._outside(slot, self.rows[:-1], turned)

    def _outside(self, slot: int, batch: tuple[int, ...], turned: bool) -> Outside:
        m = matrices(self.meta_of(slot), batch, turned)
        return Outside(self.values.operand(slot, m.size), m.batch, m.strides)

    def _row_product(self, number: int) -> RowProduct:
        x, y, out, left, right = self._product(number)
        batch = self.rows[:-1]
        depth = self.meta_of(x).shape[-2 if left else -1]
        factor = self._outside(y, batch, right)
        columns = self.meta_of(out).shape[-1]
        return RowProduct(self._rows_of(x, left), factor, self._rows_of(out), depth, columns)

    def _row_sum(self, number: int) -> RowSum:
        x, y, out, _, _ = self._product(number)
        rows, columns = self.meta_of(out).shape[-2:]
        into = self._outside(out, self.rows[:-1], False)
        return RowSum(self._rows_of(x), self._rows_of(y), into, rows, columns)

    def _nest(self, kernel: MapExpr, nest: Nest) -> RowNest | None:
        """The nest with a row as its outer point; None if it is no such nest."""
        if isinstance(nest.kernel, Landing | TileTurns):
            return None
        by_rows = _by_rows(nest.kernel, prod(self.rows))
        if by_rows is None:
            return None
        places: list[int | Tile] = []
        for array, operand in zip(nest.arrays, by_rows.operands, strict=True):
            value, inside = self._value(kernel, array)
            columns = self._columns(kernel, array)
            if inside and not _keeps_rows(by_rows, operand, columns):
                return None
            if value in self.values.tiles:
                places.append(Tile(self.values.tiles[value]))
            else:
                places.append(self.values.operand(cast(int, value), operand.size))
        step = RowNest(by_rows, tuple(places))
        tiled = in_tiles(step, self.values.columns, tile_shape(self._dtype(), host()))
        return step if runs_by_rows(tiled, prod(self.rows), host()) else None

    def _dtype(self) -> dt.DType:
        return self.meta_of(self._product(self.before[0])[2]).dtype

    def _value(self, kernel: MapExpr, array: int) -> tuple[Buffer, bool]:
        """What an array of a nest is, and whether the group makes it."""
        if array < len(kernel.inputs):
            slot = self.given[array]
            return slot, self._made_inside(slot)
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
    """The kernel with its rows for outer points; an elementwise one gets its last axis inside."""
    if prod(kernel.outer) == rows and kernel.inner:
        return kernel
    if kernel.inner or not kernel.outer or prod(kernel.outer[:-1]) != rows:
        return None
    operands = [replace(o, outer=o.outer[:-1], inner=o.outer[-1:]) for o in kernel.operands]
    return replace(
        kernel, outer=kernel.outer[:-1], inner=kernel.outer[-1:], operands=tuple(operands)
    )


def _keeps_rows(kernel: Kernel, operand: Operand, columns: int) -> bool:
    """Whether an operand is read and written in the row of the point only."""
    row = columns * operand.dtype.itemsize
    loads = [s for s in kernel.statements() if isinstance(s, Load)]
    moved = any(
        (s.at is not None or s.where is not None) and kernel.operands[s.operand] is operand
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
