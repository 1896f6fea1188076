"""The cipher behind random numbers from keys (`pirkit.random`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

Array = np.ndarray[Any, Any]

PARITY: Final = 0x1BD11BDA
ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Distances of a group of four rounds; groups alternate."""
GROUPS: Final = 5


@op
class Threefry:
    """One word of the cipher Threefry-2x32 with 20 rounds: of the counter `x`, `y` under a key.

    `key0`, `key1` and the counter are words of 32 bits, and so is the result: the first or the
    second one. Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
    SC 2011. The op is pirkit's own; Paddle has none like it.

    C1: the shapes broadcast.
    C2: `word` is 0 or 1.
    """

    name = "pd_op.threefry"
    kind = ELEMENTWISE
    cost = 40
    signature = "key0, key1, x, y ; word: i32 = 0 -> out"
    dtypes = (dt.int32,)


def cipher(
    words: tuple[Any, Any], counter: tuple[Any, Any], rotated: Callable[[Any, int], Any]
) -> tuple[Any, Any]:
    """Both words for a key and a counter, of any type with ``+`` and ``^`` on 32 bits."""
    schedule = (*words, words[0] ^ words[1] ^ PARITY)
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(GROUPS):
        for distance in ROTATIONS[group % 2]:
            x = x + y
            y = rotated(y, distance) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + (group + 1)
    return x, y


def threefry(key0: Array, key1: Array, x: Array, y: Array, word: int) -> Array:
    """What the op computes, with numpy."""
    given = [np.atleast_1d(v).view(np.uint32) for v in (key0, key1, x, y)]
    shape = np.broadcast_shapes(*(np.shape(v) for v in (key0, key1, x, y)))
    found = cipher((given[0], given[1]), (given[2], given[3]), _rotated)[word]
    return np.broadcast_to(found, shape if shape else (1,)).reshape(shape).view(np.int32)


def _rotated(x: Array, distance: int) -> Array:
    return x << np.uint32(distance) | x >> np.uint32(32 - distance)


@infer_meta(Threefry)
def _(key0: TensorMeta, key1: TensorMeta, x: TensorMeta, y: TensorMeta, *, word: int) -> TensorMeta:
    require(word in (0, 1), "C2", f"there is no word {word}")
    shape = key0.shape
    for other in (key1, x, y):
        shape = broadcast(shape, other.shape, constraint="C1")
    return key0.with_shape(shape)


@reference(Threefry)
def _(key0: Array, key1: Array, x: Array, y: Array, *, word: int) -> Array:
    return threefry(key0, key1, x, y, word)


@samples(Threefry)
def _(s: SampleMaker) -> Iterator[Sample]:
    word = 1 << 30
    for shapes in (((), (), (), ()), ((), (), (2, 3), (3,)), ((0,), (), (), (0,))):
        tensors = [s.tensor(*shape, low=-word, high=word) for shape in shapes]
        yield s(*tensors)
        yield s(*tensors, word=1)


@bad_samples(Threefry)
def _(s: SampleMaker) -> Iterator[tuple[str, Sample]]:
    yield "C1", s(s.tensor(), s.tensor(), s.tensor(2), s.tensor(3))
    yield "C2", s(s.tensor(), s.tensor(), s.tensor(2), s.tensor(2), word=2)
