"""Delinearizes loops: splits an axis whose index is used by quotients and remainders.

A reshape that joins or splits axes loads at ``i // 64`` and ``i % 64``. With one loop for each of
the two, all addresses are affine again: strides replace index arithmetic and gathers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    RuntimeAssert,
    Statement,
    Store,
    defines,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

MIN_INNER_EXTENT: Final = 16
"""Extent of the last part of the last outer loop from which a split pays; vectors of elementwise
kernels cross shorter ones (`emit/short_rows.py`)."""
_INT32: Final = 2**31 - 1


class AffineIndex(Struct, frozen=True):
    """An affine integer: a sum of new loop indices times factors, plus a constant."""

    factors: Mapping[int, int]
    constant: int

    def plus(self, other: AffineIndex, sign: int) -> AffineIndex:
        """``self + sign * other``."""
        axes = {*self.factors, *other.factors}
        factors = {a: self.factors.get(a, 0) + sign * other.factors.get(a, 0) for a in axes}
        return AffineIndex(
            {a: f for a, f in factors.items() if f}, self.constant + sign * other.constant
        )

    def times(self, factor: int) -> AffineIndex:
        return AffineIndex(
            {a: f * factor for a, f in self.factors.items() if factor}, self.constant * factor
        )


class SplitLoops(Struct):
    """The new loops: for each old axis its parts as (new axis, extent, weight).

    Those of an axis in ``lows`` begin there in place of index 0.
    """

    kernel: Kernel
    parts: dict[int, list[tuple[int, int, int]]] = field(
        default_factory=dict[int, list[tuple[int, int, int]]]
    )
    extents: list[int] = field(default_factory=list[int])
    lows: dict[int, int] = field(default_factory=dict[int, int])

    def bounds(self, value: AffineIndex) -> tuple[int, int]:
        """The least and the largest value of an index."""
        ends = [f * (self.extents[a] - 1) for a, f in value.factors.items()]
        low = value.constant + sum(e for e in ends if e < 0)
        return low, value.constant + sum(e for e in ends if e > 0)

    def divided(self, value: AffineIndex, by: int) -> AffineIndex | None:
        """The quotient, if it is affine: the remaining terms stay below the divisor."""
        # Terms divisible by the divisor divide exactly; the rest must stay below it.
        whole = {a: f // by for a, f in value.factors.items() if f % by == 0}
        rest = AffineIndex({a: f for a, f in value.factors.items() if f % by}, value.constant % by)
        low, high = self.bounds(rest)
        return AffineIndex(whole, value.constant // by) if low >= 0 and high < by else None


def delinearized(kernel: Kernel, arrays: Sequence[int]) -> tuple[Kernel, tuple[int, ...]]:
    """The kernel with split loops, and the array of each operand.

    It is returned unchanged if that does not make all gathers affine.
    """
    unchanged = kernel, tuple(arrays)
    loads = [s for s in kernel.statements() if isinstance(s, Load) and s.at is not None]
    loops = _loops(kernel) if loads else None
    if loops is None:
        return unchanged
    affine_forms = affine_forms_of(kernel, loops)
    made = _Rewriter(kernel, arrays, loops, affine_forms)
    for load in loads:
        if not made.place(load):
            return unchanged
    # Index arithmetic may be int32; its partial sums must not overflow.
    if any(sum(map(abs, _terms(f, loops))) > _INT32 for f in affine_forms.values()):
        return unchanged
    return made.result()


def _terms(affine: AffineIndex, loops: SplitLoops) -> Iterator[int]:
    """The largest magnitudes of the terms."""
    yield affine.constant
    yield from (f * loops.extents[a] for a, f in affine.factors.items())


def _loops(kernel: Kernel) -> SplitLoops | None:
    """The loops, split by the divisors of indices; None if these do not divide each other."""
    constants = {s.name: s.value for s in kernel.statements() if isinstance(s, Constant)}
    axes: dict[str, int] = {}
    divisors: dict[int, set[int]] = {}
    for s in kernel.statements():
        if isinstance(s, Index):
            axes[s.name] = s.axis
        elif isinstance(s, Compute) and s.primitive == "add" and s.args[1] in constants:
            # An index from elsewhere on: its quotients are affine if the divisor fits that, too.
            axes |= {s.name: axes[s.args[0]]} if s.args[0] in axes else {}
        elif isinstance(s, Compute) and s.primitive == "quotient" and s.args[0] in axes:
            by = constants.get(s.args[1])
            if isinstance(by, int) and by > 0:
                divisors.setdefault(axes[s.args[0]], set()).add(by)
    loops = SplitLoops(kernel)
    innermost = len(kernel.outer) - 1
    is_elementwise = not kernel.inner and not kernel.accumulations()
    for axis, extent in enumerate((*kernel.outer, *kernel.inner)):
        ends = [1, extent]
        if axis < len(kernel.outer):
            ends = sorted({1, extent, *(d for d in divisors.get(axis, ()) if d < extent)})
        # Divisors must divide each other, and the last outer loop stay long enough for vectors.
        short = len(ends) > 2 and ends[1] < MIN_INNER_EXTENT and axis == innermost
        short = short and not is_elementwise
        if any(b % a for a, b in pairwise(ends)) or short:
            return None
        loops.parts[axis] = []
        # Divisors 1 | d1 | d2 | extent give loops of extent/d2, d2/d1, d1, outermost first.
        for low, high in reversed(list(pairwise(ends)) if extent > 1 else [(1, extent)]):
            loops.parts[axis].append((len(loops.extents), high // low, low))
            loops.extents.append(high // low)
    return loops


def affine_forms_of(kernel: Kernel, loops: SplitLoops) -> dict[str, AffineIndex]:
    """The integer values that are affine in the new loops.

    Numbers of a program, such as those of `arange`, may wrap around: these are not affine.
    """
    affine_forms: dict[str, AffineIndex] = {}
    for s in kernel.statements():
        match s:
            case Constant(name, dtype, value) if dtype in (dt.int32, dt.int64):
                affine_forms[name] = AffineIndex({}, int(value))
            case Index(name, axis):
                affine_forms[name] = AffineIndex(
                    {a: w for a, e, w in loops.parts[axis] if e > 1}, loops.lows.get(axis, 0)
                )
            case Compute(name, primitive, args, dtype) if dtype in (dt.int32, dt.int64):
                known = [affine_forms[a] for a in args if a in affine_forms]
                found = _computed(primitive, known, loops) if len(known) == len(args) else None
                if found is not None and fits(loops.bounds(found), dtype):
                    affine_forms[name] = found
            case _:
                continue
    return affine_forms


def fits(bounds: tuple[int, int], dtype: DType) -> bool:
    """Whether no number between the bounds wraps around in an integer type."""
    limits = np.iinfo(dtype.np)
    return limits.min <= bounds[0] and bounds[1] <= limits.max


def _computed(primitive: str, args: Sequence[AffineIndex], loops: SplitLoops) -> AffineIndex | None:
    """The affine result of a primitive; None if it is not affine."""
    match primitive, args:
        case "add", [a, b]:
            return a.plus(b, 1)
        case "subtract", [a, b]:
            return a.plus(b, -1)
        case "multiply", [a, b] if not b.factors:
            return a.times(b.constant)
        case "multiply", [a, b] if not a.factors:
            return b.times(a.constant)
        case "quotient", [a, b] if not b.factors and b.constant > 0 and loops.bounds(a)[0] >= 0:
            return loops.divided(a, b.constant)
        case _:
            return None


class _Rewriter:
    """Rewrites a kernel for its split loops; operands are renumbered and merged if equal."""

    def __init__(
        self,
        kernel: Kernel,
        arrays: Sequence[int],
        loops: SplitLoops,
        affine_forms: Mapping[str, AffineIndex],
    ) -> None:
        self.kernel, self.arrays, self.loops, self.affine_forms = (
            kernel,
            arrays,
            loops,
            affine_forms,
        )
        # New loops of outer axes precede those of inner axes: strides of operands are cut here.
        self.first_inner = loops.parts[len(kernel.outer)][0][0] if kernel.inner else None
        self.operands: dict[tuple[int, Operand], int] = {}
        self.placed: dict[str, int] = {}
        self.stored = {arrays[s.operand] for s in kernel.statements() if isinstance(s, Store)}
        names = {n for s in kernel.statements() if (n := defines(s)) is not None}
        self.fresh = (n for k in count() if (n := f"part{k}") not in names)

    def operand(self, number: int, more: AffineIndex) -> int | None:
        """The number of an operand displaced by an affine index, in elements.

        None if it would leave its buffer.
        """
        old = self.kernel.operands[number]
        size = old.dtype.itemsize
        strides = [0] * len(self.loops.extents)
        for axis, stride in enumerate((*old.outer, *old.inner)):
            for place, _, weight in self.loops.parts[axis]:
                strides[place] = stride * weight + more.factors.get(place, 0) * size
        offset = old.offset + more.constant * size
        cut = self.first_inner if self.first_inner is not None else len(strides)
        made = replace(old, outer=tuple(strides[:cut]), inner=tuple(strides[cut:]), offset=offset)
        reach = [s * (e - 1) for s, e in zip(strides, self.loops.extents, strict=True)]
        low, high = offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0)
        # Undisplaced operands were checked before.
        if more != AffineIndex({}, 0) and (low < 0 or high + size > old.size):
            return None
        return self.operands.setdefault((self.arrays[number], made), len(self.operands))

    def place(self, load: Load) -> bool:
        """Turn a gather into a load with strides; False if that is not possible.

        Arrays that the kernel stores are left alone: operands are merged if equal, and a stored
        operand must stay the only one of its memory.
        """
        affine = self.affine_forms.get(load.at or "")
        is_stored = self.arrays[load.operand] in self.stored
        if affine is None or load.predicate is not None or is_stored:
            return False
        low, high = self.loops.bounds(affine)
        number = self.operand(load.operand, affine) if 0 <= low and high <= load.limit else None
        if number is None:
            return False
        self.placed[load.name] = number
        return True

    def result(self) -> tuple[Kernel, tuple[int, ...]]:
        """The kernel with the new loops and without dead index arithmetic."""
        loop_phases = [
            LoopPhase(self.lines(s.body), self.lines(s.after)) for s in self.kernel.loop_phases
        ]
        extents = self.loops.extents
        cut = self.first_inner if self.first_inner is not None else len(extents)
        kernel = replace(
            self.kernel,
            outer=tuple(extents[:cut]),
            inner=tuple(extents[cut:]),
            operands=tuple([o for _, o in self.operands]),
            loop_phases=without_dead_values(loop_phases),
        )
        return kernel, tuple([array for array, _ in self.operands])

    def lines(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """The statements of a body, with affine indices rewritten in the new loops."""
        written_indices: dict[tuple[int, str], str] = {}
        found: list[Statement] = []
        for s in statements:
            match s:
                case Load(name) if name in self.placed:
                    found.append(Load(name, self.placed[name]))
                case Index(name, _, dtype) | Compute(name, _, _, dtype) if (
                    name in self.affine_forms
                ):
                    found += self.written(name, self.affine_forms[name], dtype, written_indices)
                case Constant() | Index() | Compute():
                    found.append(s)
                case Load() | Store() | Accumulate() | RuntimeAssert():
                    number = self.operand(s.operand, AffineIndex({}, 0))
                    assert number is not None
                    found.append(replace(s, operand=number))
                case _:
                    found.append(s)
        return tuple(found)

    def written(
        self,
        name: str,
        affine: AffineIndex,
        dtype: DType,
        written_indices: dict[tuple[int, str], str],
    ) -> list[Statement]:
        """Statements that compute an affine index under its old name."""
        found: list[Statement] = []
        total: str | None = None

        def step(primitive: str, first: str, number: int) -> str:
            found.append(Constant(constant := next(self.fresh), dtype, number))
            found.append(Compute(made := next(self.fresh), primitive, (first, constant), dtype))
            return made

        for axis, factor in sorted(affine.factors.items()):
            key = (axis, dtype.name)
            if key not in written_indices:
                written_indices[key] = next(self.fresh)
                found.append(Index(written_indices[key], axis, dtype))
            term = step("multiply", written_indices[key], factor)
            if total is not None:
                found.append(Compute(both := next(self.fresh), "add", (total, term), dtype))
                term = both
            total = term
        if total is None:
            return [Constant(name, dtype, affine.constant)]
        # The old name stays defined: predicates and computed values may read an index too.
        found.append(Constant(last := next(self.fresh), dtype, affine.constant))
        return [*found, Compute(name, "add", (total, last), dtype)]
