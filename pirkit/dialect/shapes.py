"""Shape rules that many ops share. A dimension is an int or ``UNKNOWN`` (-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.meta import UNKNOWN, TensorMeta

Shape = tuple[int, ...]


def unchanged(x: TensorMeta, *_: object, **__: object) -> TensorMeta:
    """The first operand's meta."""
    return x


def elementwise_meta(*operands: TensorMeta | None, **_: object) -> TensorMeta:
    """The meta of an elementwise result: operands broadcast, and have one element type."""
    first, *others = (x for x in operands if x is not None)
    for x in others:
        if x.dtype is not first.dtype:
            raise ConstraintError("C1", f"element types {first.dtype} and {x.dtype} differ")
    return first.with_shape(broadcast(first.shape, *(x.shape for x in others)))


def broadcast(*shapes: Sequence[int], constraint: str = "C1") -> Shape:
    """Trailing-aligned broadcast. Raises ConstraintError naming the two sizes that disagree."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            out[i] = join_dims(out[i], d, lambda a, b: broadcast_error(shapes, constraint, a, b))
    return tuple(out)


def join_dims(a: int, b: int, error: Callable[[int, int], Exception]) -> int:
    """The broadcast of two dimensions; an unknown one yields to a known one other than 1."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a == UNKNOWN:
        return b
    if b == UNKNOWN:
        return a
    raise error(a, b)


def broadcast_error(
    shapes: Sequence[Sequence[int]], constraint: str, a: int, b: int
) -> ConstraintError:
    """The error of shapes that do not broadcast: dimension ``a`` against ``b``."""
    text = " and ".join(show(s) for s in shapes)
    return ConstraintError(
        constraint, f"shapes {text} do not broadcast: {a} against {b}",
        help="sizes are equal or 1, from the last axis on: `x[:, None]` adds an axis",
    )  # fmt: skip


def normalize_axis(axis: int, rank: int, constraint: str = "C1", what: str = "axis") -> int:
    """``axis`` counted from the front. Raises ConstraintError outside ``[-rank, rank)``.

    A 0-D tensor accepts axis 0 and -1, as in Paddle.
    """
    bound = max(rank, 1)
    if not -bound <= axis < bound:
        raise ConstraintError(
            constraint, f"{what} {axis} is out of range for a tensor of rank {rank}"
        )
    return axis + rank if axis < 0 and rank else max(axis, 0)


def normalize_axes(
    axes: Iterable[int], rank: int, constraint: str = "C1", what: str = "axis"
) -> tuple[int, ...]:
    """Every axis counted from the front. Raises ConstraintError on a duplicate."""
    out = tuple(normalize_axis(a, rank, constraint, what) for a in axes)
    if len(set(out)) != len(out):
        raise ConstraintError(constraint, f"{what} {list(out)} names a dimension twice")
    return out


def check_offset(offset: int) -> None:
    """An offset of a diagonal is not the one that numpy cannot negate: it reads foreign memory."""
    if not -(2**31) < offset < 2**31:
        raise ConstraintError("bounds", f"there is no diagonal at offset {offset}")


def reduced(
    shape: Shape, axes: Sequence[int | None] | None, keepdim: bool, constraint: str = "C1"
) -> Shape:
    """Shape after reducing ``axes`` (all when empty); every dim unknown if an axis is."""
    rank = len(shape)
    if axes is None or any(a is None for a in axes):
        if keepdim or not rank:
            return (UNKNOWN,) * rank
        return (UNKNOWN,) * (rank - len(axes)) if axes is not None else ()
    known = normalize_axes([a for a in axes if a is not None], rank, constraint)
    gone = set(known) if known else set(range(rank))
    if keepdim:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def numel(shape: Sequence[int]) -> int:
    """Number of elements, or UNKNOWN (a zero dimension makes it 0 in any case)."""
    if 0 in shape:
        return 0
    return UNKNOWN if UNKNOWN in shape else prod(shape)


def same_dim(a: int, b: int) -> bool:
    """True unless both are known and differ."""
    return a == b or a == UNKNOWN or b == UNKNOWN


def add_dims(*dims: int) -> int:
    """Sum, unknown if one is."""
    return UNKNOWN if UNKNOWN in dims else sum(dims)


def mul_dims(*dims: int) -> int:
    """Product, unknown if one is."""
    return UNKNOWN if UNKNOWN in dims else prod(dims)


def show(shape: Sequence[int]) -> str:
    """A shape as messages print it: ``[2, ?]``."""
    return "[" + ", ".join("?" if d == UNKNOWN else str(d) for d in shape) + "]"


def requested(sizes: Sequence[int | None] | None, constraint: str = "C1", least: int = 0) -> Shape:
    """The shape that an ``intarray`` describes, with None for sizes that are not known yet.

    A list of unknown length counts as one unknown size, as in Paddle. Raises ConstraintError for a
    size below ``least``: a negative number is no size, but for -1 where it takes the rest.
    """
    if sizes is None:
        return (UNKNOWN,)
    for d in sizes:
        if d is not None and d < least:
            raise ConstraintError(constraint, f"requested shape has the negative size {d}")
    return tuple(UNKNOWN if d is None else d for d in sizes)


def stored(made: TensorMeta, output: TensorMeta, constraint: str = "C2") -> TensorMeta:
    """The meta of a value written over ``output``, which has the same shape and dtype."""
    same = made.rank == output.rank and all(map(same_dim, made.shape, output.shape))
    if not same or made.dtype is not output.dtype:
        raise ConstraintError(constraint, f"{made} does not fit into the storage of {output}")
    return made
