"""Terms of a reduction over the batch whose operands lie alike in scratch memory.

A layer of a network is applied to a value and to each of its derivatives, so the gradient of its
weights is a sum of as many terms. One loop adds them, by a table of where their operands are: the
code of a term is emitted, and compiled, once; layers of one shape share it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from pirkit.lowering.codegen.emit.memory_access import Memory, load
from pirkit.lowering.codegen.ir.llvm_text import I64, Value
from pirkit.lowering.whole_program.loop_emit import LoopEmitter

Term = tuple[int | None, int]


class TermsInScratch:
    """The terms of a reduction that one loop can add, most of them, and the ``others``."""

    def __init__(self, w: LoopEmitter, terms: Sequence[Term]) -> None:
        layouts = [_layout(w, term) for term in terms]
        # one loop can add only terms that lie alike: those of the most common layout
        usual = max(filter(None, layouts), key=layouts.count, default=None)
        self.w = w
        self.terms: list[Term] = []
        self.others: list[Term] = []
        for layout, (x, y) in zip(layouts, terms, strict=True):
            if layout is None or layout != usual:
                self.others.append((x, y))
            else:
                self.terms.append((x, y))

    def count(self) -> Value:
        """The number of terms: a constant 1, or an argument of the loop."""
        count = Value(str(len(self.terms)), I64)
        return count if len(self.terms) < 2 else self.w.number("terms", count)

    def operands(self, number: Value) -> list[Value]:
        """The addresses of the operands of a term, for the first vector; a term without a left
        operand has one.
        """
        w, first = self.w, _values(self.terms[0])
        if len(self.terms) == 1:
            return [self._place(("operand", k), v, w.order.rows[v]) for k, v in enumerate(first)]
        assert w.shared is not None
        # offsets, not addresses, so that the table is a constant that layers of one shape share
        table = w.shared.table([w.order.rows[v] for term in self.terms for v in _values(term)])
        entry = w.b.at(w.place("table", lambda: table), w.b.times(number, 8 * len(first)))

        def operand(k: int, value: int) -> Value:
            base = self._place(("scratch", value in w.order.blocks), value, 0)
            offset = w.b.load(I64, w.b.at(entry, 8 * k), 8)
            return w.b.at(base, offset)

        return [operand(k, value) for k, value in enumerate(first)]

    def _place(self, key: Hashable, value: int, offset: int) -> Value:
        return self.w.place(key, lambda: self.w.in_scratch(value, offset))

    def columns(self, k: int, address: Value, first: Value, count: int) -> list[Value]:
        """Columns of operand ``k`` of a term, which is at an address, for the current vector."""
        w, value = self.w, _values(self.terms[0])[k]
        dtype, start = w.graph.dtype(value), w.b.at(address, w.start_of(value))
        found: list[Value] = []
        for i in range(count):
            place = w.b.at(start, w.b.times(w.b.plus(first, i), w.step_of(value)))
            found.append(load(w.b, dtype, Memory(place, dtype.itemsize), w.lanes, None))
        return found


def _layout(w: LoopEmitter, values: Term) -> Hashable:
    """The layout of a term's operands; None for operands outside of scratch memory."""
    present = _values(values)
    if w.shared is None or w.loop is None or any(v not in w.order.rows for v in present):
        return None
    return tuple([(v in w.order.blocks, w.step_of(v), w.graph.dtype(v)) for v in present])


def _values(term: Term) -> list[int]:
    """The operands of a term that are there."""
    return [v for v in term if v is not None]
