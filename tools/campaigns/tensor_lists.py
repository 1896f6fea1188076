"""A step of random programs: an array of tensors is written, overwritten, read and joined."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from xdsl.ir import SSAValue

import pirkit
from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import lookup
from pirkit.dialect.operation import PirOp, create
from pirkit.dialect.types import TensorArrayType, type_of
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta

SMOOTH: Final = "tanh square exp abs sin sigmoid".split()
INPLACE: Final = "tanh_ exp_ square_ scale_".split()


class TensorList:
    """Emits ops on an array."""

    def __init__(self, b: Any, dtype: DType) -> None:
        self.b = b
        scalar: Any = type_of(TensorMeta((), dtype))
        self.type = TensorArrayType(scalar.element_type)
        self.ssa: SSAValue = self.put("create_array", (), self.type, dtype=dtype).results[0]

    def put(self, name: str, operands: Any, *types: Any, **attrs: Any) -> PirOp:
        kinds = lookup(f"pd_op.{name}").attr_kinds
        properties = {k: encode(kinds[k], v) for k, v in attrs.items()}
        return self.b.innermost.insert(create(f"pd_op.{name}", list(operands), types, properties))

    def value(self, found: SSAValue) -> Value:
        return self.b.innermost.wrap(found)

    def at(self, place: Any) -> SSAValue:
        return self.b.innermost.integers((place,)).ssa if isinstance(place, int) else place.ssa

    def write(self, x: Value, place: Any) -> None:
        self.put("array_write_", (self.ssa, x.ssa, self.at(place)), self.type)

    def read(self, like: Value, place: Any, name: str = "array_read") -> Value:
        return self.value(self.put(name, (self.ssa, self.at(place)), like.ssa.type).results[0])

    def pop(self, like: Value, index: int) -> Value:
        made = self.put("array_pop", (self.ssa,), self.type, like.ssa.type, index=index)
        return self.value(made.results[1])

    def length(self) -> Value:
        made = self.put("array_length", (self.ssa,), type_of(TensorMeta((1,), dt.int64)))
        return self.value(made.results[0])

    def joined(self, like: Value, axis: int, stacks: bool, count: int | None) -> list[Value]:
        """All tensors; the type tells their number if that is given, and not in Paddle."""
        shape = [*like.shape]
        each = 1 if stacks else shape[axis]
        shape[axis : axis + (not stacks)] = [-1 if count is None else count * each]
        held = TensorMeta((-1 if count is None else count,), dt.int32)
        metas = TensorMeta(tuple(shape), like.dtype), held
        types = [type_of(meta) for meta in metas]
        made = self.put("array_to_tensor", (self.ssa,), *types, axis=axis, use_stack=stacks)
        return [self.value(r) for r in made.results]


class ListMaker:
    """Draws what happens to an array, in the program of a `random_programs.Maker`."""

    def __init__(self, maker: Any, x: Value) -> None:
        self.maker, self.x, self.draw = maker, x, maker.random
        self.array = TensorList(maker.b, x.dtype)
        self.names = [f"pd_op.{self.draw.choice(SMOOTH)}" for _ in range(4)]
        self.values = [
            x if maker.flip() else self.changed(x) for _ in range(self.draw.choice((1, 2, 3)))
        ]
        for place, value in enumerate(self.values):
            self.array.write(value, place)
        self.count = len(self.values)
        self.found: list[Value] = []

    def changed(self, x: Value) -> Value:
        return self.maker.b(self.draw.choice(self.names), x) if x.dtype.is_float else x + x

    def place(self) -> int:
        return self.draw.randrange(self.count)

    def step(self) -> Value | None:
        words = ("loop", "branch", "write", "read", "pop", "end", "inplace", "length")
        return getattr(self, f"_{self.draw.choice(words)}")()

    def _loop(self) -> Value:
        turns, first, reads = self.draw.randint(0, 3), self.count, self.maker.flip()

        def turn(i: Any, state: Value) -> Value:
            before = self.array.read(self.x, i + (first - 1)) if reads else state
            made = self.changed(state) + before
            self.array.write(made, i + first)
            return made

        self.count += turns
        return pirkit.fori_loop(0, turns, turn, self.x)

    def _branch(self) -> Value:
        place, writes = self.place(), [self.maker.flip(), self.maker.flip()]

        def branch(state: Value, which: int) -> Value:
            if writes[which]:
                self.array.write(self.changed(state), place)
            return self.array.read(self.x, place)

        truth = self.maker._truth()
        return pirkit.cond(truth, partial(branch, which=0), partial(branch, which=1), self.x)

    def _write(self) -> None:
        self.array.write(self.changed(self.draw.choice([self.x, *self.alike()])), self.place())

    def alike(self) -> list[Value]:
        return [v for v in self.found if v.ssa.type == self.x.ssa.type]

    def _read(self) -> Value:
        return self.array.read(self.x, self.place())

    def _end(self) -> Value:
        place = self.draw.randrange(-self.count, self.count)
        return self.array.read(self.x, place, "slice_array_dense")

    def _pop(self) -> Value | None:
        if self.count < 2:
            return None
        index = self.draw.randrange(-1, self.count)
        self.count -= 1
        return self.array.pop(self.x, index)

    def _inplace(self) -> Value | None:
        """What was written or read is overwritten, and the array keeps what it has."""
        if self.maker.plain or not self.x.dtype.is_float:
            return None
        known = self.draw.choice([*self.alike(), *self.values])
        return self.maker.b(f"pd_op.{self.draw.choice(INPLACE)}", known)

    def _length(self) -> Value:
        return self.array.length()


def listed(maker: Any) -> tuple[Value, ...]:
    """The values that some steps with an array give."""
    made = ListMaker(maker, maker.pick())
    for _ in range(maker.random.randint(1, 4)):
        found = made.step()
        made.found += [] if found is None else [found]
    if maker.flip():
        stacks = maker.flip() or not made.x.rank
        axis = maker.random.randrange(made.x.rank + stacks)
        count = made.count if maker.random.random() < 0.7 else None
        made.found += made.array.joined(made.x, axis, stacks, count)
    return tuple(made.found)
