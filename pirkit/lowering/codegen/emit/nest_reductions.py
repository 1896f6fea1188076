"""Reductions of a nest: accumulators in registers, one for each copy, and how they end."""

from __future__ import annotations

import math

from pirkit.lowering.codegen.emit.nest_state import Key, NestState, Point
from pirkit.lowering.codegen.emit.vector_emit import (
    VectorEmitter,
    combine,
    reduce_lanes,
    tree_reduce,
)
from pirkit.lowering.codegen.ir.element_types import identity
from pirkit.lowering.codegen.ir.llvm_text import Type, Value
from pirkit.lowering.codegen.ir.loop_ir import Loop, Node, Path, Reducing
from pirkit.lowering.codegen.ir.loop_tree import copies_of, statements, walk
from pirkit.lowering.codegen.ir.loopnest import Reduce
from pirkit.lowering.codegen.math.casts import element
from pirkit.lowering.codegen.math.primitives import select_extremum
from pirkit.lowering.codegen.math.vecmath import any_lane


class NestReductions(NestState):
    """Writes accumulations, and what reduces accumulators to one value."""

    def reducing(self, node: Reducing, at: Point) -> None:
        """Accumulators in registers, one per copy; then one value per iteration outside."""
        b, rank = self.b, self.nest.rank
        loops = [n for n in walk(node.body) if isinstance(n, Loop)]
        # A vector along a reduced axis has to be reduced as well.
        lanes = max([at.lanes, *(n.lanes for n in loops)])
        across = lanes > at.lanes
        self.kinds = {r.name: r.kind for r in node.reductions}
        self.flagged = {
            r.name for r in node.reductions
            if across and r.kind in ("max", "min") and self.types[r.name].is_float
        }  # fmt: skip
        # Each copy of an unrolled body adds to a register of its own: no add waits for another one.
        paths = copies_of(node.body, at.path) or [at.path]
        for r in node.reductions:
            dtype = self.types[r.name]
            start = b.const(Type(element(dtype), lanes), identity(r.kind, dtype))
            if node.resumed:
                start = b.splat(self.value(at, r.name)[0], lanes)
            self.registers |= {(r.name, path): start for path in paths}
        for name in sorted(self.flagged):
            self.registers[f"nan {name}", ()] = Value("zeroinitializer", Type("i1", lanes))
        self.run(node.body, at)
        for r in node.reductions:
            dtype, found = self.types[r.name], dict[Path, list[Value]]()
            for path in paths:
                outer = tuple([p for p in path if p[0] < rank])
                found.setdefault(outer, []).append(self.registers.pop((r.name, path)))
            for path, values in found.items():
                total = tree_reduce(b, r.kind, values, dtype)
                total = reduce_lanes(b, r.kind, total, dtype) if across else total
                if r.name in self.flagged:
                    is_nan = any_lane(b, self.registers.pop((f"nan {r.name}", ())))
                    total = b.select(is_nan, b.like(total, math.nan), total)
                self.scopes[-1][r.name, path] = total, dtype

    def accumulate(self, statement: Reduce, emitter: VectorEmitter, at: Point) -> None:
        """Add the value of a reduction at a point to its accumulator."""
        b, name, kind, dtype = self.b, statement.name, statement.kind, self.types[statement.name]
        key = self.register(name, at.path)
        have = self.registers[key]
        if statement.times is not None:
            x, y = (emitter.get(n)[0] for n in (statement.value, statement.times))
            self.registers[key] = b.muladd(x, y, have)
            return
        value = emitter.get(statement.value)[0]
        if self.terms is not None:
            self.terms.setdefault(name, []).append(value)
            return
        if name in self.flagged:
            total = select_extremum(b, have, value, kind)
            self.suspects.setdefault(name, []).append(value)
            if not at.path:
                self.note_nan(at.mask)
        else:
            total = combine(b, kind, have, value, dtype)
        # Lanes beyond the end keep their accumulators.
        if at.mask is not None and at.axis >= self.nest.rank:
            total = b.select(at.mask, total, have)
        self.registers[key] = total

    def note_nan(self, mask: Value | None) -> None:
        """Flag NaN operands of maxima and minima: a compare and an `or` per two vectors.

        That is cheaper than reduction steps that propagate NaN. `fcmp uno x, y` is true if x or y
        is NaN.
        """
        b = self.b
        for name, values in self.suspects.items():
            for x, y in zip(values[::2], values[1::2] or values, strict=True):
                is_nan = b.compare("uno", x, y)
                is_nan = is_nan if mask is None else b.op("and", is_nan, mask)
                key = f"nan {name}", ()
                self.registers[key] = b.op("or", self.registers[key], is_nan)
        self.suspects = {}

    def register(self, name: str, path: Path) -> Key:
        """The accumulator of a copy; code beside the copies uses that of the first."""
        if (name, path) in self.registers:
            return name, path
        return next(key for key in self.registers if key[0] == name)

    def changed_registers(self, node: Node) -> list[Key]:
        """The accumulators that a node changes, and their NaN flags."""
        if not self.registers:
            return []
        names = {s.name for s in statements([node]) if isinstance(s, Reduce)}
        return [key for key in self.registers if key[0].removeprefix("nan ") in names]
