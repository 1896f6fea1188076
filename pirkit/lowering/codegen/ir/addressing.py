"""Lowers index expressions: affine parts to strides, the rest to integer statements.

The part of an address that is affine in the loops becomes strides of an operand. Quotients,
remainders and indices read from data are computed per iteration. An index that is not proved to
stay in its tensor is compared with the extent, and nothing is loaded outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.tree import Choose
from pirkit.index.expr import Atom, Expr, Floor, Iter, Read, const
from pirkit.index.index_maps import Guard, flat
from pirkit.index.substitution import substitute
from pirkit.lowering.codegen.ir.loopnest import Operand
from pirkit.lowering.codegen.ir.nest_builder import (
    DataAssertion,
    NotLowerableError,
    StatementBuilder,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

_INT32: Final = 2**31 - 1


class OperandTable:
    """The operands of one nest: one for each distinct access pattern of an array.

    ``axes`` maps iterators to axes of the nest; it belongs to the statement being lowered.
    """

    def __init__(self, kernel: MapExpr, outer: int, rank: int) -> None:
        self.kernel, self.outer, self.rank = kernel, outer, rank
        self.operands: list[Operand] = []
        self.arrays: list[int] = []
        self.assertions: list[DataAssertion] = []
        """The runtime asserts, in the order of their flags."""
        self._numbers: dict[Any, int] = {}

    def operand(self, source: int, axes: Mapping[Iter, int], terms: Expr) -> int:
        """The operand for an affine index into an array, in elements.

        Raises NotLowerableError for complex elements.
        """
        meta = self.kernel.meta(source)
        if meta.dtype.is_complex:
            raise NotLowerableError("complex numbers have no native code")
        strides = [0] * self.rank
        for atom, factor in terms.terms:
            assert isinstance(atom, Iter)
            strides[axes[atom]] += factor * meta.dtype.itemsize
        size, offset = meta.numel * meta.dtype.itemsize, terms.constant * meta.dtype.itemsize
        return self._operand(source, meta.dtype, strides, size, offset)

    def _operand(
        self, array: int, dtype: DType, strides: list[int], size: int, offset: int
    ) -> int:  # fmt: skip
        key = (array, offset, *strides)
        if key not in self._numbers:
            self._numbers[key] = len(self.operands)
            outer, inner = tuple(strides[: self.outer]), tuple(strides[self.outer :])
            self.operands.append(Operand(dtype, outer, inner, size, offset))
            self.arrays.append(array)
        return self._numbers[key]

    def placeholder(self, key: Any, dtype: DType) -> int:
        """An operand without an array, such as a tile; its strides are set by who builds the loops.

        Equal keys have one operand.
        """
        if key not in self._numbers:
            self._numbers[key] = len(self.operands)
            outer, inner = (0,) * self.outer, (0,) * (self.rank - self.outer)
            self.operands.append(Operand(dtype, outer, inner, dtype.itemsize))
            self.arrays.append(-1)
        return self._numbers[key]

    def assertion_operand(self, what: DataAssertion) -> int:
        """The one-byte operand that flags a violated assertion."""
        if what not in self.assertions:
            self.assertions.append(what)
        number = len(self.kernel.inputs) + len(self.kernel.statements)
        array = number + self.assertions.index(what)
        return self._operand(array, dt.uint8, [0] * self.rank, 1, 0)


class IndexLowering:
    """Emits the index arithmetic of one statement.

    ``value`` gives the name of an element of an array. Indices read from data must be in range; a
    runtime assert flags them otherwise. With ``needed``, the name of a condition, that applies
    where it holds; elsewhere such indices are clamped.
    """

    def __init__(
        self,
        operands: OperandTable,
        axes: Mapping[Iter, int],
        lines: StatementBuilder,
        value: Callable[[int, Sequence[Expr], str | None], str],
    ) -> None:
        self.operands, self.axes, self.lines, self.value = operands, axes, lines, value

    def element(self, source: int, index: Sequence[Expr], needed: str | None) -> str:
        """The element of an array at an index; raises NotLowerableError for dynamic shapes."""
        shape = self.operands.kernel.meta(source).shape
        whole = flat(index, shape)
        _require_static(whole)
        chosen = {
            i for atom, _ in whole.terms if not isinstance(atom, Iter) for i in _iters(atom)
        }  # fmt: skip
        # Iterators that occur in quotients or data-dependent terms stay in the computed part.
        nowhere = {i: const(0) for i in whole.iters if i not in chosen}
        rest = substitute(whole, nowhere)
        loops = whole - rest
        if rest.is_constant:
            predicate: str | None = None
            for e, n in zip(index, shape, strict=True):
                if not Guard(e, n).is_true:
                    predicate = self.lines.both(predicate, self.inside(e, n, needed))
            operand = self.operands.operand(source, self.axes, whole)
            return self.lines.load(operand, predicate=predicate)
        (low, high), (first, last) = rest.bounds, loops.bounds
        numel = self.operands.kernel.meta(source).numel
        # The parts stay in the array only together: compute the whole index.
        if low + first < 0 or high + last >= numel:
            loops, rest, low, high = const(0), whole, 0, numel - 1
        operand = self.operands.operand(source, self.axes, loops + low)
        at = self.number(rest - low, needed)[0]
        return self.lines.load(operand, at, high - low)

    def holds(self, choice: Choose, needed: str | None) -> str:
        """Whether all guards of a choice hold."""
        found: str | None = None
        for guard in choice.guards:
            found = self.both(found, self.inside(guard.value, guard.bound, needed))
        return found if found is not None else self.lines.constant(True, dt.bool_)

    def both(self, first: str | None, second: str) -> str:
        return self.lines.both(first, second)

    def either(self, first: str, second: str) -> str:
        return self.lines.either(first, second)

    def negated(self, condition: str) -> str:
        return self.lines.compute("logical_not", [condition], dt.bool_)

    def inside(self, expr: Expr, bound: int, needed: str | None) -> str:
        """Whether an index is in [0, bound)."""
        name, dtype = self.number(expr, needed)
        holds: str | None = None
        low, high = expr.bounds
        if low < 0:
            zero = self.lines.constant(0, dtype)
            holds = self.lines.compute("greater_equal", [name, zero], dt.bool_)
        if high >= bound:
            end = self.lines.constant(bound, dtype) if bound <= _INT32 else None
            if end is None:
                name, dtype = self.lines.cast(name, dtype, dt.int64), dt.int64
                end = self.lines.constant(bound, dtype)
            below = self.lines.compute("less_than", [name, end], dt.bool_)
            holds = self.lines.both(holds, below)
        return holds if holds is not None else self.lines.constant(True, dt.bool_)

    def number(self, expr: Expr, needed: str | None) -> tuple[str, DType]:
        """The value of an index expression; int32 if no partial sum can exceed it."""
        _require_static(expr)
        dtype = dt.int32 if _size(expr) <= _INT32 else dt.int64
        lines = self.lines
        total: str | None = None
        for atom, factor in sorted(expr.terms, key=self._last_axis):
            name = self.atom(atom, dtype, needed)
            if factor not in (1, -1):
                scaled = [name, lines.constant(abs(factor), dtype)]
                name = lines.compute("multiply", scaled, dtype)
            if total is None and factor < 0:
                total = lines.constant(0, dtype)
            if total is None:
                total = name
            else:
                total = lines.compute("add" if factor > 0 else "subtract", [total, name], dtype)
        if total is None:
            return lines.constant(expr.constant, dtype), dtype
        if expr.constant:
            total = lines.compute("add", [total, lines.constant(expr.constant, dtype)], dtype)
        return total, dtype

    def _last_axis(self, term: tuple[Atom, int]) -> int:
        """Terms of outer axes are added first: they are uniform across the lanes."""
        return max((self.axes[i] for i in _iters(term[0])), default=-1)

    def atom(self, atom: Atom, dtype: DType, needed: str | None) -> str:
        """The value of one atom of an index expression."""
        lines = self.lines
        if isinstance(atom, Iter):
            return lines.index(self.axes[atom], dtype)
        if isinstance(atom, Read):
            name, have = self.read(atom, needed)
            return lines.cast(name, have, dtype)
        assert isinstance(atom, Floor)
        # floor(e / n) = (e + k n) div n - k, so that no negative number is divided.
        low = atom.inner.bounds[0]
        shift = -(low // atom.by) if low < 0 else 0
        inner, have = self.number(atom.inner + shift * atom.by, needed)
        found = lines.compute("quotient", [inner, lines.constant(atom.by, have)], have)
        if shift:
            found = lines.compute("subtract", [found, lines.constant(shift, have)], have)
        return lines.cast(found, have, dtype)

    def read(self, atom: Read, needed: str | None) -> tuple[str, DType]:
        """An index read from data, in [0, extent), asserted at run time; an int32 stays one."""
        lines, extent = self.lines, atom.extent
        have = self.operands.kernel.meta(atom.source).dtype
        dtype = dt.int32 if have is dt.int32 and extent <= _INT32 else dt.int64
        name = lines.cast(self.value(atom.source, atom.index, needed), have, dtype)
        zero, size = lines.constant(0, dtype), lines.constant(extent, dtype)
        if atom.from_end:
            negative = lines.compute("less_than", [name, zero], dt.bool_)
            moved = lines.compute("add", [name, size], dtype)
            name = lines.compute("where", [negative, moved, name], dtype)
        holds = lines.both(
            lines.compute("greater_equal", [name, zero], dt.bool_),
            lines.compute("less_than", [name, size], dt.bool_),
        )
        lines.assert_holds(DataAssertion(extent), holds, needed)
        if needed is None:
            return name, dtype
        # The assert covers only the iterations that need the index: clamp it in the others.
        last = lines.constant(extent - 1, dtype)
        at_least_zero = lines.compute("maximum", [name, zero], dtype)
        return lines.compute("minimum", [at_least_zero, last], dtype), dtype


def _require_static(expr: Expr) -> None:
    """Raises NotLowerableError for an expression with dynamic sizes."""
    if expr.sized:
        raise NotLowerableError("its shapes are dynamic")


def _iters(atom: Atom) -> frozenset[Iter]:
    """The iterators that an atom depends on."""
    match atom:
        case Iter():
            return frozenset((atom,))
        case Floor():
            return atom.inner.iters
        case Read():
            return frozenset(i for e in atom.index for i in e.iters)
        case _:
            raise NotLowerableError("native code does not support this kind of index")


def _size(expr: Expr) -> int:
    """An upper bound of the magnitude of all partial sums of an expression."""
    total = abs(expr.constant)
    for atom, factor in expr.terms:
        ends = atom.bounds
        if isinstance(atom, Floor):
            ends = (*ends, 2 * _size(atom.inner))
        total += abs(factor) * max(map(abs, ends))
    return total
