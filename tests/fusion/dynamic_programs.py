"""Random programs whose inputs have sizes that are known only when they run, by seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.index.extent import at, is_sized, named, names_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from pirkit.runtime.place import UNDEFINED
from tests.fusion.random_programs import BINARY, UNARY

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

A, B, BOTH = named("a"), named("b"), named("both")
"""Two sizes, equal or one of them 1, and what axes of both are spread to."""

SIZES = ((3, 3), (1, 4), (4, 1), (5, 5), (1, 1), (0, 0), (0, 1))


def known(a: int, b: int) -> dict[str, int]:
    """The sizes by name."""
    return {"a": a, "b": b, "both": b if a == 1 else a}


class OpenMaker:
    """Builds one program, and knows the shape of each value in terms of the two sizes."""

    def __init__(self, seed: int, depth: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.program = ProgramOp.build("open")
        self.b = Builder(self.program.block)
        self.inputs: dict[str, tuple[Shape, int]] = {}
        self.shapes: dict[Value, Shape] = {}
        self.values: list[Value] = []
        self.cuts: dict[str, tuple[int, slice]] = {}
        self.preserves = False
        """Whether a reshape keeps dimensions; Paddle's does not keep those of no elements."""
        for _ in range(self.random.randint(1, 3)):
            self.values.append(self.input(self.shape()))
        for _ in range(depth):
            self.values.append(self.step())
        users = [v for v in self.values if not v.ssa.uses] + [self.values[-1]]
        for k, value in enumerate(dict.fromkeys(v.ssa for v in users)):
            self.b("pir.shadow_output", self.b.wrap(value), output_name=f"y{k}")

    def shape(self) -> Shape:
        rank = self.random.randint(1, 3)
        return tuple([self.random.choice((A, A, B, 1, 2, 4)) for _ in range(rank)])

    def input(self, shape: Shape, below: int = 0) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, below)
        dims = tuple([UNKNOWN if is_sized(n) else n for n in shape])
        dtype = dt.int64 if below else dt.float32
        made = self.b("pd_op.data", name=name, shape=dims, dtype=dtype, place=UNDEFINED)
        return self.enter(made, shape)

    def arrays(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """Inputs of these sizes."""
        found: dict[str, Array] = {}
        for k, (name, (shape, below)) in enumerate(self.inputs.items()):
            dims = [at(n, sizes) for n in shape]
            state = np.random.default_rng((self.seed, k, *dims))
            if below:
                found[name] = state.integers(0, below, dims)
            else:
                found[name] = state.standard_normal(dims).astype(np.float32)
        return found

    def enter(self, value: Value, shape: Shape) -> Value:
        self.shapes[value] = shape
        return value

    def step(self) -> Value:
        x = self.random.choice(self.values[-4:])
        kind = self.random.choice(
            (
                *("unary", "unary", "binary", "binary", "binary", "reduce", "reduce", "merge"),
                *("split", "transpose", "cut", "flip", "roll", "pad", "concat", "gather", "expand"),
                *("where", "normalize", "self", "tile", "scale", "last", "stack", "product"),
                *("ends", "ends", "folded"),
            )
        )
        return getattr(self, f"_{kind}")(x, self.shapes[x])

    def op(self, name: str, x: Value, made: Shape, /, **attrs: Any) -> Value:
        return self.enter(self.b(f"pd_op.{name}", x, **attrs), made)

    def _unary(self, x: Value, shape: Shape) -> Value:
        return self.op(self.random.choice(UNARY), x, shape)

    def _scale(self, x: Value, shape: Shape) -> Value:
        return self.op("scale", x, shape, scale=0.5, bias=1.0, bias_after_scale=True)

    def _partner(self, x: Value, shape: Shape) -> tuple[Value, Shape]:
        """A value that goes with another one, and the shape of both."""
        near = {A: (A, A, B, 1), B: (B, B, A, 1), BOTH: (A, B, 1)}
        same = [v for v in self.values if self.shapes[v] == shape]
        if self.random.random() < 0.6:
            return self.random.choice(same), shape
        tail = shape[self.random.randint(0, len(shape)) :]
        if any(is_sized(n) and n not in near for n in tail):
            return self.random.choice(same), shape
        wanted = [self.random.choice(near.get(n, (1, n))) for n in tail]
        both = [n if n == m or m == 1 else BOTH for n, m in zip(tail, wanted, strict=True)]
        return self.input(tuple(wanted)), (*shape[: len(shape) - len(tail)], *both)

    def _binary(self, x: Value, shape: Shape) -> Value:
        y, both = self._partner(x, shape)
        return self.enter(self.b(f"pd_op.{self.random.choice(BINARY)}", x, y), both)

    def _where(self, x: Value, shape: Shape) -> Value:
        y, both = self._partner(x, shape)
        return self.enter(self.b("pd_op.where", self.b("pd_op.greater_than", x, y), x, y), both)

    def _self(self, x: Value, shape: Shape) -> Value:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            return self._unary(x, shape)
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return self.enter(x + self.b("pd_op.transpose", x, perm=perm), shape)

    def _axes(self, shape: Shape) -> tuple[int, ...]:
        return tuple(
            sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape))))
        )

    def _reduce(self, x: Value, shape: Shape) -> Value:
        if not shape:
            return self._unary(x, shape)
        axes, keep = self._axes(shape), self.random.random() < 0.5
        left = [1 if k in axes else n for k, n in enumerate(shape) if keep or k not in axes]
        kind = self.random.choice(("sum", "sum", "max"))
        return self.op(kind, x, tuple(left), axis=axes, keepdim=keep)

    def _normalize(self, x: Value, shape: Shape) -> Value:
        if not shape:
            return self._unary(x, shape)
        axes = self._axes(shape)
        e = self.b.exp(x - self.b("pd_op.max", x, axis=axes, keepdim=True))
        return self.enter(e / self.b.sum(e, axes, keepdim=True), shape)

    def _merge(self, x: Value, shape: Shape) -> Value:
        """Two axes become one: the rest is named, or taken over."""
        if len(shape) < 2:
            return self._unary(x, shape)
        k = self.random.randrange(len(shape) - 1)
        if sum(map(is_sized, shape[:k] + shape[k + 2 :])) and any(
            is_sized(n) for n in shape[k + 2 :]
        ):
            return self._unary(x, shape)
        wanted = [0 if is_sized(n) else n for n in shape[:k]] + [-1, *shape[k + 2 :]]
        if 0 in shape:
            return self._unary(x, shape)
        made = (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])
        self.preserves |= 0 in wanted
        return self.op("reshape", x, made, shape=wanted)

    def _split(self, x: Value, shape: Shape) -> Value:
        """An axis becomes two, one of them of 2 elements."""
        whole = [k for k, n in enumerate(shape) if not is_sized(n) and n % 2 == 0 and n]
        if not whole or any(map(is_sized, shape[whole[0] + 1 :])):
            return self._unary(x, shape)
        k = whole[0]
        made = (*shape[:k], shape[k] // 2, 2, *shape[k + 1 :])
        wanted = [0 if is_sized(n) else n for n in made]
        self.preserves |= 0 in wanted
        return self.op("reshape", x, made, shape=wanted)

    def _transpose(self, x: Value, shape: Shape) -> Value:
        perm = self.random.sample(range(len(shape)), len(shape))
        return self.op("transpose", x, tuple([shape[p] for p in perm]), perm=perm)

    def _cut(self, x: Value, shape: Shape) -> Value:
        wide = [k for k, n in enumerate(shape) if not is_sized(n) and n > 1]
        if not wide:
            return self._unary(x, shape)
        axis = self.random.choice(wide)
        new = (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])
        return self.op("slice", x, new, axes=[axis], starts=[1], ends=[shape[axis]])

    def _last(self, x: Value, shape: Shape) -> Value:
        """The elements of an open axis from the first to the last but none."""
        if not shape:
            return self._unary(x, shape)
        axis = self.random.randrange(len(shape))
        return self.op("slice", x, shape, axes=[axis], starts=[0], ends=[2**31 - 1])

    def _ends(self, x: Value, shape: Shape) -> Value:
        """A part of an open axis, which may have fewer elements than are left out."""
        wide = [k for k, n in enumerate(shape) if n in (A, B, BOTH)]
        if not wide:
            return self._unary(x, shape)
        axis, size = self.random.choice(wide), named(f"cut{len(self.cuts)}")
        start, end = self.random.choice(((2, 2**31 - 1), (0, -1), (1, -1), (-2, 9), (1, 3), (0, 2)))
        step = self.random.choice((1, 1, 2))
        self.cuts[repr(size)] = (shape[axis], slice(start, end, step))
        new = (*shape[:axis], size, *shape[axis + 1 :])
        if step == 1:
            return self.op("slice", x, new, axes=[axis], starts=[start], ends=[end])
        attrs = {"axes": [axis], "starts": [start], "ends": [end], "strides": [step]}
        return self.op("strided_slice", x, new, **attrs)

    def _folded(self, x: Value, shape: Shape) -> Value:
        """What a gradient is put together to, where its operand was spread."""
        same = [v for v in self.values if self.goes(shape, self.shapes[v])]
        if not same:
            return self._unary(x, shape)
        target = self.random.choice(same)
        return self.enter(self.b("pd_op.reduce_as", x, target), self.shapes[target])

    def goes(self, shape: Shape, held: Shape) -> bool:
        near = {BOTH: (A, B, BOTH, 1)}
        tail = shape[len(shape) - len(held) :]
        return len(held) <= len(shape) and all(
            m in near.get(n, (n, 1)) for n, m in zip(tail, held, strict=True)
        )

    def _flip(self, x: Value, shape: Shape) -> Value:
        if not shape:
            return self._unary(x, shape)
        return self.op("flip", x, shape, axis=self._axes(shape))

    def _roll(self, x: Value, shape: Shape) -> Value:
        if not shape:
            return self._unary(x, shape)
        axes = self._axes(shape)
        shifts = [self.random.randint(-3, 3) for _ in axes]
        return self.op("roll", x, shape, shifts=shifts, axis=axes)

    def _pad(self, x: Value, shape: Shape) -> Value:
        if not shape or len(names_of((prod(shape),))) > 1:
            return self._unary(x, shape)
        around = [self.random.randint(0, 2) for _ in range(2 * len(shape))]
        new = [n + around[2 * k] + around[2 * k + 1] for k, n in enumerate(shape)]
        return self.op("pad", x, tuple(new), paddings=around, pad_value=0.25)

    def _concat(self, x: Value, shape: Shape) -> Value:
        if not shape:
            return self._unary(x, shape)
        same = [v for v in self.values if self.shapes[v] == shape]
        pieces = [x, *(self.random.choice(same) for _ in range(self.random.randint(1, 2)))]
        axis = self.random.randrange(len(shape))
        new = (*shape[:axis], shape[axis] * len(pieces), *shape[axis + 1 :])
        return self.enter(self.b("pd_op.concat", self.b.combine(pieces), axis=axis), new)

    def _stack(self, x: Value, shape: Shape) -> Value:
        if len(shape) > 2:
            return self._unary(x, shape)
        both = self.b.combine([x, self.b.exp(x)])
        return self.enter(self.b("pd_op.stack", both, axis=0), (2, *shape))

    def _gather(self, x: Value, shape: Shape) -> Value:
        wide = [k for k, n in enumerate(shape) if not is_sized(n) and n]
        if not wide:
            return self._unary(x, shape)
        axis = self.random.choice(wide)
        index = self.input((self.random.choice((A, 3)),), shape[axis])
        new = (*shape[:axis], *self.shapes[index], *shape[axis + 1 :])
        return self.enter(self.b("pd_op.gather", x, index, axis=axis), new)

    def _expand(self, x: Value, shape: Shape) -> Value:
        if len(shape) > 2:
            return self._unary(x, shape)
        wanted = [2, *(UNKNOWN if is_sized(n) else n for n in shape)]
        return self.op("expand", x, (2, *shape), shape=wanted)

    def _tile(self, x: Value, shape: Shape) -> Value:
        if not shape or len(names_of(shape)) > 1:
            return self._unary(x, shape)
        times = [self.random.choice((1, 2)) for _ in shape]
        new = tuple([n * t for n, t in zip(shape, times, strict=True)])
        return self.op("tile", x, new, repeat_times=times)

    def _product(self, x: Value, shape: Shape) -> Value:
        """A matmul: what is behind it has the rows of what is before."""
        if len(shape) < 2 or is_sized(shape[-1]):
            return self._unary(x, shape)
        y = self.input((shape[-1], 3))
        made = self.b("pd_op.matmul", x, y, transpose_x=False, transpose_y=False)
        return self.enter(made * 0.5, (*shape[:-1], 3))
