"""Random loop nests, as functions of a seed: any order, stride, type and phase that nests may have.

They are larger than what tests run, as only their code is looked at: beyond vectors, blocks, pages
and caches. What is no well-formed nest is refused by the code generator.
"""

from __future__ import annotations

import math
import random
from typing import Final, get_args

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.element_types import compute_type
from pirkit.lowering.codegen.ir.loopnest import (
    Accumulate,
    Compute,
    Constant,
    Index,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    ReduceKind,
    RuntimeAssert,
    Scatter,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt
from tests.codegen.nests import operand

SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 100, 128, 300, 1000, 4099, 40000)
DTYPES: Final = (*(dt.float32,) * 5, dt.float64, dt.float64, dt.bfloat16, dt.float16, dt.int32)
LIGHT: Final = ("add", "subtract", "multiply", "maximum")
HEAVY: Final = ("exp", "tanh", "log", "sqrt")
LARGEST: Final = 1 << 26
"""Iterations of a nest."""


class NestMaker:
    """Builds one nest."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"nest {seed}")
        self.product = seed % 4 == 1
        """Whether operands repeat along an outer axis each, as those of a matmul."""
        self.short = seed % 8 == 3
        """Whether rows are short."""
        self.scatters = seed % 16 == 7
        """Whether iterations write where an index says, so that all of them are in order."""
        self.nest = self.axes()
        self.dtype = self.random.choice(DTYPES)
        self.work = compute_type(self.dtype)
        self.operands: list[Operand] = []
        self.count = 0
        self.late: list[str] = []
        """Names that hold for a whole outer iteration."""
        self.kept: list[str] = []
        """Names of earlier bodies."""
        alone = self.product or self.scatters or not self.nest[1]
        count = 1 if alone else self.random.choice((1, 1, 1, 2, 3))
        phases = [self.phase(k == count - 1) for k in range(count)]
        self.kernel = Kernel(*self.nest, tuple(self.operands), tuple(phases))

    def axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        pick = self.random.choice
        while True:
            few = pick((2, 2, 3)) if self.product or self.short else pick((0, 1, 1, 2, 2, 3))
            outer = tuple([pick(SIZES) for _ in range(few)])
            inner = tuple([pick(SIZES) for _ in range(1 if self.product else pick((0, 0, 1, 2)))])
            if self.short:
                outer, inner = (*outer[:-1], pick(SIZES[:9])), ()
            if self.scatters:
                outer, inner = (), (*outer, *inner)
            if (outer or inner) and math.prod(outer) * math.prod(inner) < LARGEST:
                return outer, inner

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def placed(
        self, missing: list[int], stored: bool = False, dtype: dt.DType | None = None
    ) -> int:
        """A new operand, in any order of axes; a loaded one may have gaps, or overlap."""
        rank = len(self.nest[0]) + len(self.nest[1])
        order = self.random.sample(range(rank), rank)
        if self.random.random() < 0.6:
            order = sorted(order)
        gap = 0 if stored else self.random.choice((0, 0, 0, 1, 7))
        made = operand(dtype or self.dtype, self.nest, order, missing, gap)
        size = made.dtype.itemsize
        if not stored and self.nest[0] and self.nest[1] and self.random.random() < 0.25:
            strides = (
                *made.outer[:-1],
                made.inner[-1] or size,
            )  # neighbours read the same elements
            made = Operand(self.dtype, strides, made.inner, made.size + self.nest[0][-1] * size)
        if stored and self.random.random() < 0.2:
            made = Operand(made.dtype, made.outer, made.inner, made.size, 0, True)
        self.operands.append(made)
        return len(self.operands) - 1

    def missing(self) -> list[int]:
        """Axes along which an operand repeats."""
        if self.product:
            return [len(self.operands) % len(self.nest[0])]
        chance = self.random.choice((0.0, 0.3, 0.5))
        rank = len(self.nest[0]) + len(self.nest[1])
        return [k for k in range(rank) if self.random.random() < chance]

    def load(self, body: list[Statement]) -> str:
        old, rank = range(len(self.operands)), len(self.nest[0]) + len(self.nest[1])
        again = [k for k in old if not any(isinstance(s, Store) and s.operand == k for s in body)]
        number = (
            self.random.choice(again)
            if again and self.random.random() < 0.2
            else self.placed(self.missing())
        )
        predicate = None
        if self.random.random() < 0.15:
            at, end, predicate = self.new(), self.new(), self.new()
            body += [
                Index(at, self.random.randrange(rank)),
                Constant(end, dt.int64, self.random.choice(SIZES)),
                Compute(predicate, "less_than", (at, end), dt.bool_),
            ]
        at = None
        if self.random.random() < (0.4 if self.short else 0.06):
            place, at = self.new(), self.new()
            body.append(Index(place, self.random.randrange(rank)))
            body.append(Compute(at, "add", (place, place), dt.int64))
        limit = self.random.choice((0, 3))
        if at is not None:
            self.widen(number, limit)
        body.append(Load(self.new(), number, at, limit, predicate))
        return f"v{self.count}"

    def scatter(self, body: list[Statement], value: str) -> None:
        """Write a value at an index that varies along one axis, and repeats along others."""
        axis, at = self.random.randrange(len(self.nest[1])), self.new()
        body.append(Index(at, axis))
        kind = self.random.choice((None, "sum", "max"))
        number, limit = self.placed([axis], stored=True), self.nest[1][axis] - 1
        self.widen(number, limit)
        body.append(Scatter(number, kind, value, at, limit))

    def widen(self, number: int, elements: int) -> None:
        """Let a buffer end later."""
        o = self.operands[number]
        self.operands[number] = replace(o, size=o.size + elements * o.dtype.itemsize)

    def phase(self, is_last: bool) -> LoopPhase:
        body: list[Statement] = []
        names = [self.load(body) for _ in range(self.random.choice((1, 2, 2, 3)))]
        names += self.random.sample(self.late, min(len(self.late), 1))
        names += self.random.sample(self.kept, min(len(self.kept), 1))
        for _ in range(self.random.choice((0, 1, 1, 2, 3, 14))):
            heavy = self.work.is_float and self.random.random() < 0.4
            name, pair = self.new(), self.random.choices(names, k=1 if heavy else 2)
            primitive = self.random.choice(HEAVY if heavy else LIGHT)
            body.append(Compute(name, primitive, tuple(pair), self.work))
            names.append(name)
        after: list[Statement] = []
        value = names[-1]
        rank = len(self.nest[0])
        inner = list(range(rank, rank + len(self.nest[1])))
        ends = self.random.choices(
            ("reduce", "store", "accumulate"), (5, 1 if self.product else 3, 2)
        )[0]
        if self.scatters:
            self.scatter(body, value)
        elif self.nest[1] and (not is_last or ends == "reduce"):
            for _ in range(self.random.choice((1, 1, 1, 2))):
                total = self.new()
                kind = self.random.choice(get_args(ReduceKind))
                body.append(Reduce(total, kind, value))
                self.late.append(total)
            after.append(Store(self.placed(inner, stored=True), self.late[-1]))
        elif ends == "accumulate" and rank and self.nest[1]:
            shared = list(range(self.random.randrange(rank), rank))
            block = self.random.choice((0, 0, 4, 64))
            number = self.placed(shared, stored=True)
            step = self.operands[number].size if block else 0
            body.append(Accumulate(number, "sum", value, block, step))
            if self.random.random() < 0.4:  # another result, which may be wider
                dtype = self.random.choice((self.dtype, self.work))
                body.append(Accumulate(self.placed(shared, True, dtype), "sum", names[0]))
        else:
            body.append(Store(self.placed([], stored=True), value))
        if self.random.random() < 0.1:
            holds = self.new()
            body.append(Compute(holds, "less_than", (names[0], value), dt.bool_))
            self.operands.append(Operand(dt.bool_, (0,) * rank, (0,) * len(inner), 1))
            body.append(RuntimeAssert(len(self.operands) - 1, holds))
        self.kept.append(value)
        return LoopPhase(tuple(body), tuple(after))


def random_nest(seed: int) -> Kernel:
    return NestMaker(seed).kernel
