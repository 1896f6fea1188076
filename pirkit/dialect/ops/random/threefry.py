"""The cipher behind random numbers from keys (`pirkit.random`)."""

from __future__ import annotations

from collections.abc import Iterator

from pirkit.dialect.kinds import ELEMENTWISE
from pirkit.dialect.opdef import bad_samples, infer_meta, op, reference, require, samples
from pirkit.dialect.samples import Sample, SampleMaker
from pirkit.dialect.shapes import broadcast
from pirkit.runtime import dtype as dt
from pirkit.runtime.lazy_numpy import Array
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.threefry import threefry


@op
class Threefry:
    """One word of the cipher Threefry-2x32 with 20 rounds: of the counter `x`, `y` under a key.

    `key0`, `key1` and the counter are words of 32 bits, and so is the result: the first or the
    second one. Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
    SC 2011. The op is pirkit's own; Paddle has none like it.

    C1: the shapes broadcast.
    C2: `word` is 0 or 1.
    C3: the operands have 32 bits.
    """

    name = "pd_op.threefry"
    kind = ELEMENTWISE
    cost = 40
    signature = "key0, key1, x, y ; word: i32 = 0 -> out"
    dtypes = (dt.int32,)
    same_dtype = ("key0", "key1", "x", "y")


@infer_meta(Threefry)
def _(key0: TensorMeta, key1: TensorMeta, x: TensorMeta, y: TensorMeta, *, word: int) -> TensorMeta:
    require(word in (0, 1), "C2", f"there is no word {word}")
    require(key0.dtype is dt.int32, "C3", f"words of {key0.dtype}")
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
    yield "C3", s(*[s.tensor(2, dtype=dt.int16)] * 4)
