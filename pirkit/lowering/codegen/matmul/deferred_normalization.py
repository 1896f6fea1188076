"""Deferred softmax normalization: GEMMs multiply exponentials, each output row is scaled by 1/sum.

``sum_j (e_j / s) v_jk = (sum_j e_j v_jk) / s``, as in FlashAttention (Dao et al., 2022). The
divisions move from the row of the kernel to the row of the GEMM result, and no loop over the row
waits for ``s``. Whatever is linear in the quotients is computed from the ``e_j`` in the same way.

It is applied if ``e`` is the exponential of a value minus the row maximum: then ``s`` is NaN or
lies between 1 and the row length n. The GEMM takes ``e`` times the largest power of 2 with which
``s`` is at most 1, so that no GEMM overflows that would not with quotients. Accumulations over rows
are multiplied by the reciprocal of that power, which overflows within a factor n of the largest
float. If an element is NaN, so is ``s``, and every result that is scaled by its reciprocal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import types_of
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
    defines,
    reads,
    renamed,
)
from pirkit.lowering.codegen.matmul.row_block_plan import (
    RowAccumulation,
    RowBlocks,
    RowGemm,
    RowNest,
    ScratchRows,
    runs_by_rows,
    tile_shape,
    with_scratch_strides,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.native.target import Target

_MAX_ROW: Final = (2.0**-10, 2.0**10)
"""Constant factors of a row within this range are merged into its scale."""
_LINEAR: Final = frozenset({"add", "subtract"})
"""Binary primitives that are linear in both operands."""


def with_deferred_scales(group: RowBlocks, target: Target) -> RowBlocks:
    """The group with `row_scale` on its GEMMs, if a nest divides by row sums before them."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            group = _with_deferred_scale(group, number, step, target)
    return group


def _with_deferred_scale(group: RowBlocks, number: int, step: RowNest, target: Target) -> RowBlocks:
    """The group with deferred scales for one nest, if its results only feed GEMMs."""
    results = {
        k: where
        for k, where in enumerate(step.operands)
        if isinstance(where, ScratchRows) and _feeds_gemms_only(group, number, where)
    }
    stores = [s for s in step.kernel.statements() if isinstance(s, Store)]
    inside = all(isinstance(step.operands[s.operand], ScratchRows) for s in stores)
    found = deferred(step.kernel, frozenset(results), inside)
    if found is None:
        return group
    new_tiles = range(len(group.tiles), len(group.tiles) + len(found.kernel.operands))
    operands = (*step.operands, *map(ScratchRows, new_tiles))[: len(found.kernel.operands)]
    tiles = (*group.tiles, *[1] * (len(operands) - len(step.operands)))
    nest = RowNest(found.kernel, operands)
    rows = prod(group.batch) * group.rows
    # The rewrite must not change the schedule on which the fused blocks rely.
    placed = with_scratch_strides(nest, tiles, tile_shape(group.dtype, target))
    if not runs_by_rows(placed, rows, target):
        return group
    scales = {where: operands[found.scales[k]] for k, where in results.items() if k in found.scales}
    steps = [
        replace(s, row_scale=scales[s.x])
        if isinstance(s, RowGemm | RowAccumulation) and s.x in scales
        else s
        for s in group.steps
    ]
    steps[number] = nest
    return replace(group, steps=tuple(steps), tiles=tiles)


def _feeds_gemms_only(group: RowBlocks, nest: int, tile: ScratchRows) -> bool:
    """Whether a tile is only the left operand of GEMMs, and a result of one nest."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            if step.operands.count(tile) != (number == nest):
                return False
        elif tile in (step.out, step.y):
            return False
    return True


class Deferred(Struct, frozen=True):
    """A kernel that stores unnormalized values.

    ``scales`` maps an operand with such values to an operand with one scale per row.
    """

    kernel: Kernel
    scales: dict[int, int]


def deferred(kernel: Kernel, results: frozenset[int], inside: bool) -> Deferred | None:
    """The kernel with unnormalized ``results``, or None if there are none.

    If some use is not linear in the quotients, they are computed as products with the reciprocal;
    this is allowed only if all results of the kernel stay ``inside`` a group, since it changes
    rounding.
    """
    numbering = _ValueNumbering(kernel)
    loaded = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    stored = [s.operand for s in kernel.statements() if isinstance(s, Store)]
    # The kernel updates an operand in place: its loads would see unnormalized values.
    if loaded.intersection(stored):
        return None
    # A result that is stored twice would need one scale for both values.
    once = frozenset(k for k in results if stored.count(k) == 1)
    for s in [s for phase in kernel.loop_phases for s in phase.body]:
        if isinstance(s, Reduce) and s.kind == "sum" and numbering.is_softmax_numerator(s.value):
            found = _Rewriter(kernel, s, numbering, once, inside).found()
            if found is not None:
                return found
    return None


class _ValueNumbering:
    """Value numbering: names with equal values have equal numbers."""

    def __init__(self, kernel: Kernel) -> None:
        self.of: dict[str, int] = {}
        self.numbers: dict[object, int] = {}
        self.operations: list[tuple[str, tuple[int, ...]]] = []
        """The primitive and the operand numbers of each value number."""
        for s in kernel.statements():
            match s:
                case Load(name, operand, at, limit, where):
                    self._note(name, "load", s, operand, limit, at is None, where is None)
                case Constant(name, dtype, value):
                    self._note(name, "constant", s, dtype, repr(value))
                case Index(name, axis, dtype):
                    self._note(name, "index", s, axis, dtype)
                case Compute(name, primitive, _, dtype):
                    self._note(name, primitive, s, dtype)
                case Reduce(name, kind, _):
                    self._note(name, f"reduce {kind}", s)
                case _:
                    continue

    def _note(self, name: str, what: str, s: Statement, *more: object) -> None:
        args = tuple([self.of[n] for n in reads(s)])
        number = self.numbers.setdefault((what, args, more), len(self.operations))
        if number == len(self.operations):
            self.operations.append((what, args))
        self.of[name] = number

    def is_softmax_numerator(self, name: str) -> bool:
        """Whether a value is ``exp(x - max(x))`` over its row."""
        match self.operations[self.of[name]]:
            case ("exp", (difference,)):
                what, args = self.operations[difference]
                return what == "subtract" and self.operations[args[1]] == ("reduce max", args[:1])
            case _:
                return False


class _NotLinearError(Exception):
    """A quotient is used where its scale cannot be deferred."""


class _Rewriter:
    """Rewrites a kernel so that values linear in the quotients omit the division."""

    def __init__(
        self, kernel: Kernel, total: Reduce, numbering: _ValueNumbering, results: frozenset[int],
        inside: bool,
    ) -> None:  # fmt: skip
        self.given, self.total, self.results, self.inside = kernel, total, results, inside
        self.types = types_of(kernel)
        self.dtype = self.types[total.name]
        self.softmax_values = {
            n for n, what in numbering.of.items() if what == numbering.of[total.value]
        }
        # The power of 2 that keeps the sum of n exponentials, each at most 1, at most 1.
        self.part = 2.0 ** -(prod(kernel.inner) - 1).bit_length()
        self.unnormalized: dict[str, tuple[str, float]] = {}
        """Per name: its value without the scale, and its constant factor beside 1/sum."""
        self.numbers: dict[str, float] = {}
        self.scales: dict[float, str] = {}
        self.stored: dict[int, float] = {}
        self.whole: dict[str, str] = {}
        """Names of values with their scale."""

    def found(self) -> Deferred | None:
        """The rewritten kernel; None if some use is not linear or no result is deferred."""
        if self.dtype not in (dt.float32, dt.float64) or not self._reads_fit():
            return None
        loop_phases: list[LoopPhase] = []
        first = 0
        try:
            for number, phase in enumerate(self.given.loop_phases):
                after: list[Statement] = []
                body = [s for line in phase.body for s in self._line(line, after)]
                loop_phases.append(LoopPhase(tuple(body), (*after, *phase.after)))
                if self.total in phase.body:
                    first = number
        except _NotLinearError:
            return None
        if not self.stored:
            return None
        numbers = list(dict.fromkeys(self.stored.values()))
        count = len(self.given.operands)
        places = {number: count + k for k, number in enumerate(numbers)}
        # The scales are stored right after the loop that computes the sum.
        lines = [*self._reciprocals(), *[Store(places[n], self.scales[n]) for n in numbers]]
        loop_phases[first] = LoopPhase(loop_phases[first].body, (*lines, *loop_phases[first].after))
        row_outputs = [
            k for k in self.stored if len(o := self.given.operands[k].inner) == 1 and o[0]
        ]
        kernel = replace(
            self.given,
            operands=(*self.given.operands, *[self._column()] * len(numbers)),
            loop_phases=tuple(_reloading(_fused(loop_phases, first), row_outputs)),
        )
        return Deferred(kernel, {k: places[number] for k, number in self.stored.items()})

    def _reads_fit(self) -> bool:
        """Whether only the sum and the quotients read exponentials, and only these the sum."""
        for s in self.given.statements():
            read = reads(s)
            if s == self.total or self._is_quotient(s):
                continue
            if self.total.name in read or not self.softmax_values.isdisjoint(read):
                return False
        return True

    def _is_quotient(self, s: Statement) -> bool:
        match s:
            case Compute(_, "divide", (x, y), dtype):
                return x in self.softmax_values and y == self.total.name and dtype is self.dtype
            case _:
                return False

    def _line(self, s: Statement, after: list[Statement]) -> Sequence[Statement]:
        """The statements that replace one of a body; ``after`` takes those that follow the loop."""
        if s == self.total:
            return [replace(self.total, value=f"{self.total.value} part")]
        if self._is_quotient(s):
            assert isinstance(s, Compute)
            self.unnormalized[s.name] = f"{s.args[0]} part", 1.0
            return []
        if isinstance(s, Constant):
            self.numbers[s.name] = float(s.value)
        if self.unnormalized.keys().isdisjoint(reads(s)):
            name = defines(s)
            return [s] if name not in self.softmax_values else [s, *self._part(name)]
        return self._linear(s, after)

    def _part(self, name: str) -> Sequence[Statement]:
        """The exponential times the power of 2."""
        number = Constant(f"{name} share", self.dtype, self.part)
        return [number, Compute(f"{name} part", "multiply", (name, number.name), self.dtype)]

    def _linear(self, s: Statement, after: list[Statement]) -> Sequence[Statement]:
        """The replacement of a statement that reads unnormalized values."""
        match s:
            case Compute(name, "multiply", (x, y)) if (x in self.unnormalized) != (
                y in self.unnormalized
            ):
                unnormalized, other = (x, y) if x in self.unnormalized else (y, x)
                core, number = self.unnormalized[unnormalized]
                # A constant factor joins the scale and costs nothing per element.
                if _MAX_ROW[0] <= abs(number * self.numbers.get(other, 0)) <= _MAX_ROW[1]:
                    self.unnormalized[name] = core, number * self.numbers[other]
                    return []
                return self._computed(s, (core, other), number)
            case Compute(name, "divide", (x, y)) if (
                x in self.unnormalized and y not in self.unnormalized
            ):
                core, number = self.unnormalized[x]
                return self._computed(s, (core, y), number)
            case Compute(name, primitive, (x, y)) if primitive in _LINEAR:
                if (
                    x in self.unnormalized
                    and y in self.unnormalized
                    and self.unnormalized[x][1] == self.unnormalized[y][1]
                ):
                    return self._computed(
                        s,
                        (self.unnormalized[x][0], self.unnormalized[y][0]),
                        self.unnormalized[x][1],
                    )
            case Compute(name, "negative", (x,)):
                return self._computed(s, (self.unnormalized[x][0],), self.unnormalized[x][1])
            case Reduce(name, "sum", x):
                core, number = self.unnormalized[x]
                times = (f"{name} part", self._factor(number))
                after.append(Compute(name, "multiply", times, self.dtype))
                return [Reduce(f"{name} part", "sum", core)]
            case Store(operand, x) if operand in self.results:
                core, number = self.unnormalized[x]
                if self.given.operands[operand].dtype is self.dtype:
                    self.stored[operand] = number
                    self._factor(number)
                    return [Store(operand, core)]
            case _:
                pass
        return self._with_normalized(s)

    def _with_normalized(self, s: Statement) -> Sequence[Statement]:
        """A statement that needs the normalized values: multiply them by the scale first.

        Raises _NotLinearError outside of a group, where this would change results that others see.
        """
        if not self.inside:
            raise _NotLinearError
        normalized: list[Statement] = []
        for name in dict.fromkeys(reads(s)):
            if name in self.unnormalized and name not in self.whole:
                core, number = self.unnormalized[name]
                self.whole[name] = f"{name} whole"
                args = core, self._factor(number)
                normalized.append(Compute(f"{name} whole", "multiply", args, self.dtype))
        return [*normalized, renamed(s, lambda name: self.whole.get(name, name))]

    def _computed(self, s: Compute, args: tuple[str, ...], number: float) -> Sequence[Statement]:
        """The statement on unnormalized operands; its result has the factor ``number`` pending."""
        if s.dtype is not self.dtype:
            raise _NotLinearError
        self.unnormalized[s.name] = s.name, number
        return [replace(s, args=args)]

    def _factor(self, number: float) -> str:
        """The name of ``number / sum``."""
        return self.scales.setdefault(number, f"{self.total.name} factor {len(self.scales)}")

    def _reciprocals(self) -> Iterator[Statement]:
        """Compute all scales; they follow the loop that computes the sum."""
        for number, name in self.scales.items():
            yield Constant(f"{name} number", self.dtype, number)
            args = f"{name} number", self.total.name
            yield Compute(name, "divide", args, self.dtype)

    def _column(self) -> Operand:
        """An operand with one element per row."""
        outer, size = self.given.outer, self.dtype.itemsize
        strides = [prod(outer[k + 1 :]) * size for k in range(len(outer))]
        return Operand(self.dtype, tuple(strides), (0,) * len(self.given.inner), prod(outer) * size)


def _fused(loop_phases: Sequence[LoopPhase], first: int) -> list[LoopPhase]:
    """Merge phases after the first one into the phase before, unless they read its reductions."""
    found = list(loop_phases[: first + 1])
    for phase in loop_phases[first + 1 :]:
        before = found[-1]
        # Without the division, later phases no longer depend on the sum.
        defined = {s.name for s in before.body if isinstance(s, Reduce)}
        defined |= {name for s in before.after if (name := defines(s)) is not None}
        if any(defined.intersection(reads(s)) for s in phase.body):
            found.append(phase)
        else:
            found[-1] = LoopPhase((*before.body, *phase.body), (*before.after, *phase.after))
    return found


def _reloading(loop_phases: Sequence[LoopPhase], stored: Collection[int]) -> list[LoopPhase]:
    """Phases that load what an earlier one has stored anyway, instead of saving it in scratch."""
    reloaded: dict[str, int] = {}
    found: list[LoopPhase] = []
    for phase in loop_phases:
        # A fresh name per phase, since each phase loads the value again.
        names = {n: f"{n} {len(found)}" for s in phase.body for n in reads(s) if n in reloaded}
        loads = [Load(names[name], reloaded[name]) for name in names]
        body = [renamed(s, lambda name, names=names: names.get(name, name)) for s in phase.body]
        found.append(LoopPhase((*loads, *body), phase.after))
        for s in phase.body:
            if isinstance(s, Store) and s.operand in stored:
                reloaded[s.value] = s.operand
    return found
