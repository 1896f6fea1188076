"""Quotients of a row by its sum, as in softmax, taken after the products that they go into.

``sum_j (e_j / s) v_jk`` is ``(sum_j e_j v_jk) / s``: a quotient for each element of a row of the
product, instead of one for each element of a row of the kernel, and no sweep of the row that waits
for ``s``. What is linear in the quotients is computed of the ``e_j`` likewise.

This is done where ``e`` is the exponential of a value minus the largest one in its row: then ``s``
is NaN or lies between 1 and the length of the row. What is added up is ``e`` times the largest
power of 2 with which ``s`` is at most 1, so that no row of a product overflows that would not with
quotients. What sums over rows add up is multiplied with the reciprocal of that power: it overflows
from the largest float by the length of a row on.
If an element is NaN then so is ``s``, and all that is multiplied with its reciprocal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from pirkit.lowering.codegen.emit.vector_emit import types_of
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
"""Constants between these join the factor of a row."""
_LINEAR: Final = frozenset({"add", "subtract"})


def with_deferred_scales(group: RowBlocks, target: Target) -> RowBlocks:
    """The group with factors of rows at its products, where they were quotients before."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            group = _with_deferred_scale(group, number, step, target)
    return group


def _with_deferred_scale(group: RowBlocks, number: int, step: RowNest, target: Target) -> RowBlocks:
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
    made = range(len(group.tiles), len(group.tiles) + len(found.kernel.operands))
    operands = (*step.operands, *map(ScratchRows, made))[: len(found.kernel.operands)]
    tiles = (*group.tiles, *[1] * (len(operands) - len(step.operands)))
    nest = RowNest(found.kernel, operands)
    rows = prod(group.batch) * group.rows
    if not runs_by_rows(
        with_scratch_strides(nest, tiles, tile_shape(group.dtype, target)), rows, target
    ):
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
    """Whether a tile is the left factor of products, and nothing else but a result of a nest."""
    for number, step in enumerate(group.steps):
        if isinstance(step, RowNest):
            if step.operands.count(tile) != (number == nest):
                return False
        elif tile in (step.out, step.y):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Deferred:
    """A kernel without quotients by a sum of its row.

    ``scales`` are the operands, one element for each row, by which those are to be multiplied
    that the kernel writes without.
    """

    kernel: Kernel
    scales: dict[int, int]


def deferred(kernel: Kernel, results: frozenset[int], inside: bool) -> Deferred | None:
    """The kernel, of which the results ``results`` may lack a factor; None if there is none to
    take.

    Where something is not linear in the quotients they are products with the reciprocal, if nobody
    sees results of the kernel: it is ``inside`` a group.
    """
    numbering = _ValueNumbering(kernel)
    loaded = {s.operand for s in kernel.statements() if isinstance(s, Load)}
    stored = [s.operand for s in kernel.statements() if isinstance(s, Store)]
    if loaded.intersection(stored):
        return None
    once = frozenset(k for k in results if stored.count(k) == 1)
    for phase in kernel.loop_phases:
        for reduction in phase.body:
            if (
                isinstance(reduction, Reduce)
                and reduction.kind == "sum"
                and numbering.is_softmax_numerator(reduction.value)
            ):
                found = _Rewriter(kernel, reduction, numbering, once, inside).found()
                if found is not None:
                    return found
    return None


class _ValueNumbering:
    """What names stand for: names of equal values have one number."""

    def __init__(self, kernel: Kernel) -> None:
        self.of: dict[str, int] = {}
        self.numbers: dict[object, int] = {}
        self.made: list[tuple[str, tuple[int, ...]]] = []
        """The function and the arguments behind a number."""
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
                    self._note(name, f"fold {kind}", s)
                case _:
                    continue

    def _note(self, name: str, what: str, s: Statement, *more: object) -> None:
        args = tuple([self.of[n] for n in reads(s)])
        number = self.numbers.setdefault((what, args, more), len(self.made))
        if number == len(self.made):
            self.made.append((what, args))
        self.of[name] = number

    def is_softmax_numerator(self, name: str) -> bool:
        """Whether a value is the exponential of another one minus the largest in its row."""
        match self.made[self.of[name]]:
            case ("exp", (difference,)):
                what, args = self.made[difference]
                return what == "subtract" and self.made[args[1]] == ("fold max", args[:1])
            case _:
                return False


class _NotLinearError(Exception):
    """A quotient goes where its factor cannot follow."""


class _Rewriter:
    """The kernel with what is linear in the quotients computed without their divisor."""

    def __init__(
        self,
        kernel: Kernel,
        total: Reduce,
        numbering: _ValueNumbering,
        results: frozenset[int],
        inside: bool,
    ) -> None:
        self.given, self.total, self.results, self.inside = kernel, total, results, inside
        self.types = types_of(kernel)
        self.dtype = self.types[total.name]
        self.softmax_values = {
            n for n, what in numbering.of.items() if what == numbering.of[total.value]
        }
        self.part = 2.0 ** -(prod(kernel.inner) - 1).bit_length()
        self.unnormalized: dict[str, tuple[str, float]] = {}
        """Names without their factor, and the number that it has beside the reciprocal."""
        self.numbers: dict[str, float] = {}
        self.scales: dict[float, str] = {}
        self.stored: dict[int, float] = {}
        self.whole: dict[str, str] = {}
        """Names of values with their factor."""

    def found(self) -> Deferred | None:
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
        """Whether exponentials go only into the sum and the quotients, and the sum into these."""
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
        """What stands for a statement of a body, and what has to be behind the sweep."""
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
        number = Constant(f"{name} share", self.dtype, self.part)
        return [
            number,
            Compute(f"{name} part", "multiply", (name, number.name), self.dtype),
        ]

    def _linear(self, s: Statement, after: list[Statement]) -> Sequence[Statement]:
        match s:
            case Compute(name, "multiply", (x, y)) if (x in self.unnormalized) != (
                y in self.unnormalized
            ):
                unnormalized, other = (x, y) if x in self.unnormalized else (y, x)
                core, number = self.unnormalized[unnormalized]
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
        """A statement that needs the quotients themselves."""
        if not self.inside:
            raise _NotLinearError
        made: list[Statement] = []
        for name in dict.fromkeys(reads(s)):
            if name in self.unnormalized and name not in self.whole:
                core, number = self.unnormalized[name]
                self.whole[name] = f"{name} whole"
                args = core, self._factor(number)
                made.append(Compute(f"{name} whole", "multiply", args, self.dtype))
        return [*made, renamed(s, lambda name: self.whole.get(name, name))]

    def _computed(self, s: Compute, args: tuple[str, ...], number: float) -> Sequence[Statement]:
        if s.dtype is not self.dtype:
            raise _NotLinearError
        self.unnormalized[s.name] = s.name, number
        return [replace(s, args=args)]

    def _factor(self, number: float) -> str:
        """The name of a number by the sum."""
        return self.scales.setdefault(number, f"{self.total.name} factor {len(self.scales)}")

    def _reciprocals(self) -> Iterator[Statement]:
        for number, name in self.scales.items():
            yield Constant(f"{name} number", self.dtype, number)
            args = f"{name} number", self.total.name
            yield Compute(name, "divide", args, self.dtype)

    def _column(self) -> Operand:
        """One element for each row."""
        outer, size = self.given.outer, self.dtype.itemsize
        strides = [prod(outer[k + 1 :]) * size for k in range(len(outer))]
        return Operand(self.dtype, tuple(strides), (0,) * len(self.given.inner), prod(outer) * size)


def _fused(loop_phases: Sequence[LoopPhase], first: int) -> list[LoopPhase]:
    """Stages behind the first one as one sweep with those before, where nothing waits for it."""
    found = list(loop_phases[: first + 1])
    for phase in loop_phases[first + 1 :]:
        before = found[-1]
        defined = {s.name for s in before.body if isinstance(s, Reduce)}
        defined |= {name for s in before.after if (name := defines(s)) is not None}
        if any(defined.intersection(reads(s)) for s in phase.body):
            found.append(phase)
        else:
            found[-1] = LoopPhase((*before.body, *phase.body), (*before.after, *phase.after))
    return found


def _reloading(loop_phases: Sequence[LoopPhase], stored: Collection[int]) -> list[LoopPhase]:
    """Stages that read what an earlier one has stored anyway, instead of keeping it elsewhere."""
    reloaded: dict[str, int] = {}
    found: list[LoopPhase] = []
    for phase in loop_phases:
        names = {n: f"{n} {len(found)}" for s in phase.body for n in reads(s) if n in reloaded}
        loads = [Load(names[name], reloaded[name]) for name in names]
        body = [renamed(s, lambda name, names=names: names.get(name, name)) for s in phase.body]
        found.append(LoopPhase((*loads, *body), phase.after))
        for s in phase.body:
            if isinstance(s, Store) and s.operand in stored:
                reloaded[s.value] = s.operand
    return found
