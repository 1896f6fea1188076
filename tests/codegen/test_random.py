"""Random loop nests: any axes, layouts, broadcasts, stages and kept values, against NumPy."""

from __future__ import annotations

import random

import pytest

from pirkit.lowering.codegen.ir.loopnest import (
    Constant,
    Kernel,
    Load,
    LoopPhase,
    Operand,
    Reduce,
    Statement,
    Store,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from tests.codegen.nests import check, compute, operand

EXTENTS = (1, 2, 3, 5, 8, 15, 16, 17, 31, 40, 64, 65)
ONE = ("tanh", "sin", "negative", "abs", "sigmoid", "erf")
TWO = ("add", "subtract", "multiply", "maximum", "minimum")
KERNELS = 150


class Maker:
    """Makes one kernel from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random
        self.dtype: DType = pick.choice([dt.float32, dt.float32, dt.float64])
        self.outer = tuple(pick.choice(EXTENTS) for _ in range(pick.randint(0, 3)))
        self.inner = tuple(pick.choice(EXTENTS) for _ in range(pick.randint(0, 2)))
        self.operands: list[Operand] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def operand(self, missing: list[int], dtype: DType | None = None) -> int:
        rank = len(self.outer) + len(self.inner)
        order = self.random.sample(range(rank), rank)
        gap = self.random.choice([0, 0, 0, 1])
        nest = (self.outer, self.inner)
        self.operands.append(operand(dtype or self.dtype, nest, order, missing, gap))
        return len(self.operands) - 1

    def load(self) -> Load:
        rank = len(self.outer) + len(self.inner)
        missing = [k for k in range(rank) if self.random.random() < 0.25]
        halves = [dt.float16, dt.bfloat16] if self.dtype is dt.float32 else []
        dtype = self.random.choice([self.dtype, self.dtype, *halves])
        return Load(self.name(), self.operand(missing, dtype))

    def some(self, names: list[str], count: int) -> list[Statement]:
        made: list[Statement] = []
        for _ in range(count):
            if self.random.random() < 0.5:
                statement = compute(
                    self.name(), self.random.choice(ONE), self.random.choice(names),
                    dtype=self.dtype,
                )  # fmt: skip
            else:
                pair = self.random.choice(names), self.random.choice(names)
                statement = compute(
                    self.name(), self.random.choice(TWO), *pair, dtype=self.dtype
                )  # fmt: skip
            made.append(statement)
            names.append(statement.name)
        return made

    def kernel(self) -> Kernel:
        loop_phases: list[LoopPhase] = []
        known: list[str] = []
        scalars: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            body: list[Statement] = [self.load() for _ in range(self.random.randint(1, 2))]
            if self.random.random() < 0.5:
                body.append(Constant(self.name(), self.dtype, self.random.uniform(-2, 2)))
            names = [s.name for s in body if not isinstance(s, Store)]
            kept = [n for n in known if self.random.random() < 0.3]
            names += kept + scalars
            body += self.some(names, self.random.randint(1, 4))
            last = names[-1]
            bounded = compute(self.name(), "tanh", last, dtype=self.dtype)
            body.append(bounded)
            if self.random.random() < 0.5 or not self.inner:
                body.append(Store(self.operand([]), bounded.name))
            after: list[Statement] = []
            if self.inner and self.random.random() < 0.8:
                kind = self.random.choice(["sum", "max", "min"])
                reduction = Reduce(self.name(), kind, bounded.name)  # type: ignore[arg-type]
                body.append(reduction)
                inner = len(self.inner)
                count = Constant(self.name(), self.dtype, 8.0)
                after += [count, compute(self.name(), "divide", reduction.name, count.name,
                                         dtype=self.dtype)]  # fmt: skip
                mean = after[-1]
                assert not isinstance(mean, Store)
                scalars.append(mean.name)
                missing = list(range(len(self.outer), len(self.outer) + inner))
                after.append(Store(self.operand(missing), mean.name))
            known += [s.name for s in body if not isinstance(s, (Store, Reduce, Constant))]
            loop_phases.append(LoopPhase(tuple(body), tuple(after)))
        return Kernel(self.outer, self.inner, tuple(self.operands), tuple(loop_phases))


@pytest.mark.parametrize("seed", range(KERNELS))
def test_native_code_equals_numpy(seed: int) -> None:
    check(Maker(seed).kernel(), rtol=2e-4, atol=2e-5, seed=seed)
