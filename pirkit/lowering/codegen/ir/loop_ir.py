"""The loop IR: a nest with its loops, vectors, accumulators and scratch memory written out.

`plain_loops.py` writes a `Kernel` as plain loops; the rewrites of `loop_rewrites.py` transform
them, and what they give is still a program: `interpret_loops.py` executes it with numpy,
`loop_text.py` prints it, `nest_writer.py` writes it as LLVM IR.

The index along an axis is the sum of the variables of all enclosing loops over this axis. So a tile
is a loop with a step around a loop over the tile, and no index has to be rewritten.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.lowering.codegen.ir.loopnest import Effect, Kernel, Reduce, Statement
from pirkit.lowering.codegen.ir.routine import Routine
from pirkit.runtime.dtype import DType

LoopKind = Literal["serial", "parallel", "vector", "unroll", "interleave"]


class Count(Struct, frozen=True):
    """Iterations of a block that begins at the loop variable ``block``, rounded down.

    They are ``min(size, extent - block)``, rounded down to a multiple of ``multiple``. Of
    ``aligned`` blocks (`Loop.align`) the first one is shorter. A block of a block ends ``within``
    that one.
    """

    block: str
    extent: int
    size: int
    multiple: int = 1
    aligned: bool = False
    within: Count | None = None


class Word(Struct, frozen=True):
    """A number that is known when the nest is called: int64 ``number`` of the buffer `Nest.words`.

    It is rounded down to a multiple of ``multiple``, and 0 if it is below ``least``.
    """

    number: int
    name: str
    multiple: int = 1
    least: int = 0


class Table(Struct, frozen=True):
    """Offsets in place of a stride: that of index i is word ``first + i * step`` of a call.

    ``offsets`` are those of a nest for one call. One loop alone runs along such an axis.
    """

    first: int
    step: int
    offsets: tuple[int, ...] = ()


Bound = int | Count | Word


class Iteration(Struct, frozen=True):
    """The present value of a loop variable in steps of its loop.

    Of a loop ``of`` some iterations: 0 for the first one, 2 for the last one, 1 between them.
    """

    var: str
    of: int = 0

    def at(self, number: Any, least: Any = min, most: Any = max) -> Any:
        """The number at an iteration, with the arithmetic of integers or that of a solver."""
        if not self.of:
            return number
        return least(number, 1) + most(number - (self.of - 2), 0)


class Window(Struct, frozen=True):
    """Which taps of a window lie on an axis of an image with ``length`` elements.

    Tap t of the window at index i of ``axis`` lies at ``i * stride - before + t * dilation``. The
    number is that of the first one on the image, or how many of ``taps`` there are if ``counts``.
    """

    axis: int
    taps: int
    stride: int
    dilation: int
    before: int
    length: int
    counts: bool = False

    def at(
        self, index: Any, least: Any = min, most: Any = max, divided: Any = int.__floordiv__
    ) -> Any:
        """The number at an index, with the arithmetic of integers or that of terms of a solver."""
        top = index * self.stride - self.before
        # ceil(-top / dilation): the first tap that does not lie before the image.
        first = divided(most(self.dilation - 1 - top, 0), self.dilation)
        if not self.counts:
            return first
        end = divided(most(self.length - 1 + self.dilation - top, 0), self.dilation)
        return most(least(end, self.taps) - first, 0)


Number = Bound | Iteration | Window
"""A numeric argument of a routine."""


class Buffer(Struct, frozen=True):
    """Memory: the element of an iteration is at ``offset + sum(index * stride)``, in bytes.

    ``strides`` has a stride for each axis, outer ones first. ``space`` says where the buffer is:
    memory of the caller, ``scratch`` memory of the thread, which is written in whole vectors, or
    ``register``: vectors, of which constant indices of unrolled loops pick one.
    Loops in ``outside`` do not move the address: scratch memory starts again at each iteration.
    ``per_block`` adds bytes per iteration of loops, for accumulators of their own.
    ``shares`` is the buffer before this one whose memory it is. With ``image`` there is a tile of
    so many bytes for each of `Images`, and this buffer is that of this image of the present one.
    ``lanes`` are the offsets of the lanes of a vector in place of a stride; a lane without one is
    not accessed.
    ``dynamic`` has further strides, by axis, and ``size_word`` is the number of the word that has
    the size, where both are known when the nest is called.
    """

    dtype: DType
    strides: tuple[int, ...]
    size: int
    offset: int = 0
    stream: bool = False
    space: Literal["memory", "scratch", "register"] = "memory"
    outside: tuple[str, ...] = ()
    per_block: tuple[tuple[str, int], ...] = ()
    shares: int | None = None
    image: tuple[int, int] | None = None
    dynamic: tuple[tuple[int, Word | Table], ...] = ()
    size_word: int | None = None
    lanes: tuple[int | None, ...] | None = None

    def blocks_of(self, var: str) -> list[tuple[str, int]]:
        """The offsets that an iteration of a loop adds, besides strides."""
        return [block for block in self.per_block if block[0] == var]


class Block(Struct, frozen=True):
    """Statements in order, at one iteration of the enclosing loops (at all lanes of a vector)."""

    statements: tuple[Statement, ...]


class Prefetch(Struct, frozen=True):
    """Prefetches the line ``distance`` bytes after the element of a buffer, into L2 or L1."""

    buffer: int
    distance: int
    near: bool = False
    write: bool = False


class Pack(Struct, frozen=True):
    """Copies ``rows`` by ``columns`` elements of a buffer into scratch, transposed in registers.

    They begin at the element of the enclosing loops, along the axes ``row_axis`` (contiguous in
    the source) and ``column_axis`` (contiguous in scratch). The elements ``ahead`` rows further on
    are prefetched. Without ``columns`` there is one for each active lane. A copy into registers is
    one vector for each of ``rows``.
    """

    source: int
    dest: int
    row_axis: int
    column_axis: int
    rows: Bound
    columns: Bound | None = None
    ahead: int = 0


class PrefetchTile(Struct, frozen=True):
    """Prefetches the tile of ``lanes`` rows and columns that lies ``ahead`` columns further on.

    After the last of ``columns`` it prefetches the first ones, ``rows`` further on.
    """

    buffer: int
    row_axis: int
    column_axis: int
    columns: Count
    lanes: int
    ahead: int
    rows: int


class Loop(Struct, frozen=True):
    """``for var in range(start, stop, step)`` over the row-major product of ``axes``.

    ``parallel``: iterations are independent, and shared by threads.
    ``vector``: up to ``lanes`` iterations at once; the others of the lanes are masked off.
    ``unroll``: one copy of the body per iteration; ``interleave``: their instructions alternate.
    With ``own`` each copy has accumulators of its own, with ``tree`` the copies are reduced as a
    tree before they reach the accumulator; else they accumulate in order.
    With ``align`` all blocks but the first begin where vectors of a buffer do not cross a line: the
    first one ends there. Where that is, is only known at run time; there is one block more.
    With ``moved_back`` the last iteration begins early enough to end at ``stop``, which is at least
    ``step``: it repeats some of the iteration before, so that no body is partial.
    """

    var: str
    axes: tuple[int, ...]
    start: Bound
    stop: Bound
    step: int
    body: tuple[Node, ...]
    kind: LoopKind = "serial"
    lanes: int = 1
    copies: Literal["in order", "own", "tree"] = "in order"
    align: int | None = None
    moved_back: bool = False


class Reducing(Struct, frozen=True):
    """Accumulators in registers for the `Reduce` statements of the body; afterwards the results.

    They begin with the identity, or with the values of their names if ``resumed``.
    """

    reductions: tuple[Reduce, ...]
    body: tuple[Node, ...]
    resumed: bool = False


class NonTemporal(Struct, frozen=True):
    """A body whose stores to some buffers bypass the caches, if these begin at cache lines."""

    buffers: tuple[int, ...]
    body: tuple[Node, ...]


class Invoke(Struct, frozen=True):
    """Calls a routine, such as a microkernel, on the elements of buffers at this iteration.

    In place of the address of a buffer in registers it gets the vectors of that.
    """

    routine: Routine
    buffers: tuple[int, ...]
    numbers: tuple[Number, ...]


class OnChange(Struct, frozen=True):
    """A body that a thread skips while the loops ``vars`` stand where they did at its last block.

    It comes first in the innermost of parallel loops, of which ``vars`` are the outermost: so what
    it packs into scratch memory serves all blocks that a thread takes along the other loops.
    """

    vars: tuple[str, ...]
    body: tuple[Node, ...]


class CallRows(Struct, frozen=True):
    """Runs ``count`` rows of another nest: iterations of its parallel loops, numbered in order.

    The number of the first one is that of the present iteration over ``axes``. ``buffers`` are
    those of its operands. Of one whose pitch is not 0 there are only these rows, so many bytes
    apart.
    """

    nest: Nest
    buffers: tuple[int, ...]
    pitches: tuple[int, ...]
    axes: tuple[int, ...]
    count: Bound


class OncePerOrbit(Struct, frozen=True):
    """A body that runs only where the block comes first among its images (see `Images`)."""

    images: tuple[tuple[int, ...], ...]
    body: tuple[Node, ...]


class Images(Struct, frozen=True):
    """The body at each distinct image of a block: permutations of its indices.

    At image ``p`` the block begins along axis ``k`` where the present one does along ``p[k]``;
    ``blocks`` are the variables of the loops over blocks, one for each axis.
    """

    images: tuple[tuple[int, ...], ...]
    blocks: tuple[str, ...]
    body: tuple[Node, ...]

    def moves(self) -> list[Loop]:
        """Loops whose variables an image changes."""
        return [Loop(var, (axis,), 0, 0, 1, ()) for axis, var in enumerate(self.blocks)]

    def composed(self, image: int) -> list[int]:
        """For each image the number of that image of it."""
        first = self.images[image]
        return [self.images.index(tuple([other[a] for a in first])) for other in self.images]


Node = (
    Block | Prefetch | PrefetchTile | Pack | Invoke | CallRows | Loop | Reducing | NonTemporal
    | OnChange | OncePerOrbit | Images
)  # fmt: skip
NESTED: Final = (Loop, Reducing, NonTemporal, OnChange, OncePerOrbit, Images)
"""Nodes with a body."""

Path = tuple[tuple[int, int], ...]
"""Copies of unrolled loops: the axis of each loop, and the index of the copy."""


class Nest(Struct, frozen=True):
    """A program over buffers: first the operands of ``kernel``, then scratch memory.

    ``words`` is the operand with the numbers of a call (`call_words.py`), if it has any.
    """

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    words: int | None = None

    @property
    def rank(self) -> int:
        """The number of outer axes; the others are reduced."""
        return len(self.kernel.outer)

    @property
    def extents(self) -> tuple[int, ...]:
        return (*self.kernel.outer, *self.kernel.inner)

    def with_buffer(self, buffer: Buffer) -> tuple[Nest, int]:
        """The nest with one more buffer, and the number of that."""
        return replace(self, buffers=(*self.buffers, buffer)), len(self.buffers)


def rounded(bound: Bound, multiple: int) -> Bound:
    """A bound rounded down to a multiple."""
    if isinstance(bound, int):
        return bound // multiple * multiple
    return replace(bound, multiple=multiple)


def is_multiple(bound: Bound, multiple: int) -> bool:
    """Whether a bound is a multiple of a number in all blocks."""
    if isinstance(bound, int):
        return bound % multiple == 0
    if bound.multiple % multiple == 0 or isinstance(bound, Word):
        return bound.multiple % multiple == 0
    sizes_fit = bound.extent % multiple == 0 and bound.size % multiple == 0
    return sizes_fit and not bound.aligned


def most(bound: Bound) -> int:
    """The largest value of a bound. Raises InternalError if only the call knows it."""
    if isinstance(bound, Word):
        raise InternalError(f"loop IR: {bound.name} has no largest value")
    return bound if isinstance(bound, int) else min(bound.size, bound.extent)


def require(holds: bool, rewrite: str, why: str) -> None:
    """Raise InternalError unless a rewrite is legal."""
    if not holds:
        raise InternalError(f"loop rewrite `{rewrite}`: {why}")


def pure(statement: Statement) -> bool:
    """Whether a statement may run elsewhere: it only defines a value."""
    return not isinstance(statement, (*Effect, Reduce))
