"""Possible values of a gradient op's dynamic attribute, inferred from the declared shapes.

In a backward program that is compiled on its own, an attribute such as the axis of a `concat_grad`
is an input of the program. The shapes of the other operands leave few values, most often one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, Final, cast

from msgspec.structs import replace

from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opcall import DynamicAttribute, OpCall
from pirkit.dialect.ops.gradient.gradients import SOURCES
from pirkit.dialect.rules.reduction.reduction import from_front
from pirkit.dialect.windows import CHANNELS_LAST, Slide, slides
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

Choice = int | tuple[int, ...]

MOST: Final = 9
"""Most candidates among which the program selects at run time; with more, inference fails."""


def dynamic_attribute(c: OpCall) -> DynamicAttribute | None:
    """The only attribute that is known at run time and can be inferred here, or None."""
    found = [c.operand(s.name) for s in c.definition.operands if s.kind is not None]
    dynamic = [v for v in found if isinstance(v, DynamicAttribute)]
    return dynamic[0] if len(dynamic) == 1 and dynamic[0].name in _DOMAINS else None


def possible(c: OpCall, dynamic: DynamicAttribute) -> Iterator[Choice]:
    """The values of the attribute that agree with the static shapes; none if a shape is dynamic."""
    shapes = [_shape(c, s.name) for s in c.definition.operands if s.kind is None]
    if all(s is not None and UNKNOWN not in s for s in shapes):
        yield from _DOMAINS[dynamic.name](c, dynamic)


def is_value(b: Builder, dynamic: DynamicAttribute, value: Choice, x: Value) -> Value:
    """A boolean tensor: whether the attribute equals ``value`` at run time."""
    held = b.cast(b.reshape(dynamic, (-1,)), dt.int64)
    wanted = value if isinstance(value, tuple) else (value,)
    if dynamic.name == "axis":  # in any order: compare the sets of axes as bit masks
        powers = b.integers([1 << i for i in range(x.rank)])
        held = b.gather(powers, from_front(b, held, x), axis=0)
        held, wanted = b.sum(held, (0,), keepdim=True), (sum(1 << a for a in wanted),)
    return b.all(b.equal(held, b.integers(wanted)), axis=(0,))


def _shape(c: OpCall, name: str) -> tuple[int, ...] | None:
    """The sizes of an operand, those of a list concatenated; () if absent, None if no tensors."""
    value = c.op.operand_named(name)
    if value is None:
        return ()
    meta = Value(c.b, value).any_meta
    items = meta.items if isinstance(meta, VecMeta) else (meta,)
    if not all(isinstance(i, TensorMeta) for i in items):
        return None
    return tuple([d for i in items for d in cast(TensorMeta, i).shape])


def differentiated(c: OpCall) -> Value:
    """The forward operand that the gradient op differentiates, or the first element of a list."""
    source = next(iter(SOURCES[c.definition.name].values()))
    value: Any = c.operand(source)
    return cast("tuple[Value, ...]", value)[0] if isinstance(value, tuple) else value


def _axes(c: OpCall, dynamic: DynamicAttribute) -> Iterator[Choice]:
    rank = differentiated(c).rank
    slot = next(s for s in c.definition.operands if s.name == dynamic.name)
    if slot.kind != "intarray":
        yield from range(rank)
    elif dynamic.shape and dynamic.shape[0] != UNKNOWN:
        yield from combinations(range(rank), dynamic.shape[0])


def _windows(c: OpCall, dynamic: DynamicAttribute) -> Iterator[Choice]:
    """Window sizes that give the declared output shape with these strides and paddings."""
    x, out = differentiated(c), c.out_grad
    first = 1 if c.data_format in CHANNELS_LAST else 2
    lengths, counts = (v.shape[first : first + v.rank - 2] for v in (x, out))
    if c.adaptive or c.global_pooling:
        yield counts
    elif c.padding_algorithm in ("EXPLICIT", "VALID"):
        sizes = (1,) * len(lengths)
        moves = slides(lengths, sizes, c.strides, c.paddings, c.padding_algorithm, None, "C4")
        ways = zip(moves, lengths, counts, strict=True)
        yield from product(*[list(_sizes(*way, ceil=c.ceil_mode)) for way in ways])


def _sizes(move: Slide, length: int, count: int, *, ceil: bool) -> Iterator[int]:
    for size in range(1, length + move.before + move.after + 1):
        if replace(move, size=size).positions(length, ceil) == count:
            yield size


_DOMAINS: Final = {"axis": _axes, "kernel_size": _windows}
