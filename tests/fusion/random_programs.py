"""Random programs of ops that can be fused, as functions of a seed."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.runtime import dtype as dt
from pirkit.runtime.place import UNDEFINED

Array = np.ndarray[Any, Any]

UNARY = ("exp", "tanh", "abs", "sin", "floor", "sigmoid")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")


class Maker:
    """Builds one program; every value stays small in size."""

    def __init__(self, seed: int, depth: int) -> None:
        self.random = random.Random(seed)
        self.program = ProgramOp.build("random")
        self.b = Builder(self.program.block)
        self.inputs: dict[str, Array] = {}
        self.values: list[Value] = []
        for _ in range(self.random.randint(1, 3)):
            self.values.append(self.input(self.shape()))
        for _ in range(depth):
            self.values.append(self.step())
        users = [v for v in self.values if not v.ssa.uses] + [self.values[-1]]
        for k, value in enumerate(dict.fromkeys(v.ssa for v in users)):
            self.b("pir.shadow_output", self.b.wrap(value), output_name=f"y{k}")

    def shape(self) -> tuple[int, ...]:
        return tuple(self.random.choice((1, 2, 3, 4, 6)) for _ in range(self.random.randint(1, 3)))

    def input(self, shape: tuple[int, ...], integers: int = 0) -> Value:
        name = f"x{len(self.inputs)}"
        state = np.random.default_rng(self.random.randrange(1 << 30))
        if integers:
            self.inputs[name] = state.integers(0, integers, shape)
        else:
            self.inputs[name] = state.standard_normal(shape).astype(np.float32)
        dtype = dt.int64 if integers else dt.float32
        return self.b("pd_op.data", name=name, shape=shape, dtype=dtype, place=UNDEFINED)

    def step(self) -> Value:
        x = self.random.choice(self.values[-4:])
        kind = self.random.choice(
            (
                *("unary", "unary", "binary", "binary", "binary", "reduce", "reduce", "reshape"),
                *("transpose", "slice", "strided", "flip", "roll", "pad", "concat", "gather"),
                *("expand", "where", "normalize", "self", "tile", "scale"),
            )
        )
        return getattr(self, f"_{kind}")(x)

    def _unary(self, x: Value) -> Value:
        return self.b(f"pd_op.{self.random.choice(UNARY)}", x)

    def _scale(self, x: Value) -> Value:
        return self.b("pd_op.scale", x, scale=0.5, bias=1.0, bias_after_scale=True)

    def _partner(self, x: Value) -> Value:
        same = [v for v in self.values if v.shape == x.shape]
        if self.random.random() < 0.7:
            return self.random.choice(same)
        tail = x.shape[self.random.randint(0, x.rank) :]
        return self.input(tuple(self.random.choice((1, n)) for n in tail))

    def _binary(self, x: Value) -> Value:
        return self.b(f"pd_op.{self.random.choice(BINARY)}", x, self._partner(x))

    def _where(self, x: Value) -> Value:
        y = self._partner(x)
        if y.shape != x.shape:
            y = self.b.expand_like(y, x)
        return self.b.where(self.b("pd_op.greater_than", x, y), x, y)

    def _self(self, x: Value) -> Value:
        if x.rank < 2 or x.shape[-1] != x.shape[-2]:
            return self._unary(x)
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        return x + self.b("pd_op.transpose", x, perm=perm)

    def _axes(self, x: Value) -> tuple[int, ...]:
        count = self.random.randint(1, max(x.rank, 1))
        return tuple(sorted(self.random.sample(range(x.rank), min(count, x.rank))))

    def _reduce(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        keep = self.random.random() < 0.5
        if self.random.random() < 0.5:
            return self.b.sum(x, self._axes(x), keepdim=keep)
        return self.b("pd_op.max", x, axis=self._axes(x), keepdim=keep)

    def _normalize(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        axes = self._axes(x)
        e = self.b.exp(x - self.b("pd_op.max", x, axis=axes, keepdim=True))
        return e / self.b.sum(e, axes, keepdim=True)

    def _reshape(self, x: Value) -> Value:
        size, shape = prod(x.shape), list[int]()
        while size > 1 and len(shape) < 3:
            divisor = self.random.choice([d for d in range(1, size + 1) if size % d == 0])
            shape.append(divisor)
            size //= divisor
        return self.b.reshape(x, [*shape, size])

    def _transpose(self, x: Value) -> Value:
        return self.b("pd_op.transpose", x, perm=self.random.sample(range(x.rank), x.rank))

    def _slice(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        axis = self.random.randrange(x.rank)
        start = self.random.randrange(x.shape[axis])
        end = self.random.randint(start + 1, x.shape[axis])
        return self.b("pd_op.slice", x, axes=[axis], starts=[start], ends=[end])

    def _strided(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        axis = self.random.randrange(x.rank)
        keywords = {"axes": [axis], "starts": [0], "ends": [x.shape[axis]], "strides": [2]}
        return self.b("pd_op.strided_slice", x, **keywords)

    def _flip(self, x: Value) -> Value:
        return self.b("pd_op.flip", x, axis=self._axes(x)) if x.rank else self._unary(x)

    def _roll(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        axes = self._axes(x)
        return self.b("pd_op.roll", x, shifts=[self.random.randint(-3, 3) for _ in axes], axis=axes)

    def _pad(self, x: Value) -> Value:
        if not x.rank or x.rank > 3 or prod(x.shape) > 200:
            return self._unary(x)
        paddings = [self.random.randint(0, 2) for _ in range(2 * x.rank)]
        return self.b("pd_op.pad", x, paddings=paddings, pad_value=0.25)

    def _concat(self, x: Value) -> Value:
        if not x.rank or prod(x.shape) > 200:
            return self._unary(x)
        same = [v for v in self.values if v.shape == x.shape]
        pieces = [x, *(self.random.choice(same) for _ in range(self.random.randint(1, 2)))]
        return self.b("pd_op.concat", self.b.combine(pieces), axis=self.random.randrange(x.rank))

    def _gather(self, x: Value) -> Value:
        if not x.rank:
            return self._unary(x)
        axis = self.random.randrange(x.rank)
        return self.b("pd_op.gather", x, self.input((3,), x.shape[axis]), axis=axis)

    def _expand(self, x: Value) -> Value:
        if x.rank > 2 or prod(x.shape) > 100:
            return self._unary(x)
        return self.b("pd_op.expand", x, shape=(2, *x.shape))

    def _tile(self, x: Value) -> Value:
        if not x.rank or prod(x.shape) > 100:
            return self._unary(x)
        return self.b("pd_op.tile", x, repeat_times=[2] * x.rank)


class Turner(Maker):
    """Random programs of dear chains over tensors of equal extents, read in all orders."""

    def shape(self) -> tuple[int, ...]:
        if not hasattr(self, "extents"):
            n = self.random.choice((2, 3, 5, 17, 20, 33))
            self.extents = self.random.choice(((n, n), (n, n), (3, n, n), (2, 1, n, n), (4, 4, 4)))
        return self.extents

    def step(self) -> Value:
        x = self.random.choice(self.values[-4:])
        kind = self.random.choice(("dear", "dear", "self", "self", "turn", "both", "scale", "rare"))
        return getattr(self, f"_{kind}")(x)

    def _dear(self, x: Value) -> Value:
        return self.b("pd_op.tanh", self.b("pd_op.sin", self.b("pd_op.scale", x, scale=0.7)))

    def _perm(self, x: Value) -> list[int]:
        while True:
            perm = self.random.sample(range(x.rank), x.rank)
            if tuple(x.shape[p] for p in perm) == x.shape:
                return perm

    def _turn(self, x: Value) -> Value:
        return self.b("pd_op.transpose", x, perm=self._perm(x))

    def _self(self, x: Value) -> Value:
        return self.b(f"pd_op.{self.random.choice(('add', 'multiply'))}", x, self._turn(x))

    def _both(self, x: Value) -> Value:
        other = self.random.choice([v for v in self.values if v.shape == x.shape])
        return self._turn(x) - self._turn(other)

    def _rare(self, x: Value) -> Value:
        kind = self.random.choice(("reduce", "flip", "slice", "unary"))
        made = getattr(super(), f"_{kind}")(x)
        self.b("pir.shadow_output", made, output_name=f"r{len(self.values)}")
        return x + x
