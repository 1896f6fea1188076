"""The input of the code generator: a loop nest over strided memory, as plain data.

A kernel runs its loop phases at every iteration of the ``outer`` axes, which are independent of
each other. A phase loops over the ``inner`` axes: its body runs at every inner iteration, `Reduce`
combines values across them, and the statements ``after`` run once after the loops. A row softmax
has three phases: the maximum; the exponentials and their sum; the quotients. An elementwise kernel
has no inner axes.

`Accumulate` reduces across outer iterations into a memory operand, for example a weight gradient;
the kernel cannot read its result.

Each statement defines a name, in order. A body may read what ``after`` of an earlier phase defined
(one value per outer iteration) and what an earlier body defined: such a value is saved for all
inner iterations. To recompute it instead, repeat its statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pirkit.diag.errors import InternalError
from pirkit.runtime.dtype import DType, int64

ReduceKind = Literal["sum", "prod", "max", "min"]


class Operand(Struct, frozen=True):
    """Strided memory: the element of an iteration is at ``offset + sum(index * stride)``, in bytes.

    A stride of 0 broadcasts. ``size`` is the size of the buffer in bytes. With ``stream`` stores
    are non-temporal if the buffer begins at a cache line: for results larger than the caches.
    """

    dtype: DType
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    size: int
    offset: int = 0
    stream: bool = False


class Load(Struct, frozen=True):
    """The element of an operand; fp16 and bf16 are widened to float32.

    With ``at`` the load is a gather: the element is ``at`` elements further on, where indices
    outside ``0 .. limit`` count as ``limit``. If ``predicate`` is false nothing is loaded and the
    value is 0; such an operand may leave its buffer at those iterations.
    """

    name: str
    operand: int
    at: str | None = None
    limit: int = 0
    predicate: str | None = None


class Constant(Struct, frozen=True):
    """A constant of the given element type."""

    name: str
    dtype: DType
    value: float | int | bool


class LaneConstants(Struct, frozen=True):
    """A constant of each lane of a vector; only rewrites of loops make it."""

    name: str
    dtype: DType
    values: tuple[float | int | bool, ...]


class Index(Struct, frozen=True):
    """The index along an axis, outer axes first, as int64 or int32."""

    name: str
    axis: int
    dtype: DType = int64


class Compute(Struct, frozen=True):
    """A primitive of `primitives.py` applied to names; ``dtype`` is that of the result."""

    name: str
    primitive: str
    args: tuple[str, ...]
    dtype: DType


class Reduce(Struct, frozen=True):
    """Reduces a value over the inner axes; only in a body, and readable only after the loops.

    A sum with ``times`` adds the product of two values by FMA; only rewrites of loops set it.
    """

    name: str
    kind: ReduceKind
    value: str
    times: str | None = None


class Store(Struct, frozen=True):
    """Stores a value to an operand, rounded once to its element type."""

    operand: int
    value: str


class Accumulate(Struct, frozen=True):
    """Combines a value with an element of an operand, over all iterations that address the element.

    They are the outer axes along which the operand has stride 0, the same axes for all
    accumulations of a kernel. The previous content of the operand is ignored. With ``block_size``
    so many consecutive iterations share an element, and the next ones use the element
    ``block_stride`` bytes further on.
    """

    operand: int
    kind: ReduceKind
    value: str
    block_size: int = 0
    block_stride: int = 0


class RuntimeAssert(Struct, frozen=True):
    """Stores 1 to an operand if a bool value is false, and nothing otherwise.

    All iterations may share the one byte, since they store the same value.
    """

    operand: int
    value: str


class Scatter(Struct, frozen=True):
    """Combines a value with the element of an operand that is ``at`` elements further on.

    Without a ``kind`` the value is assigned. Iterations run in order, so that duplicates are
    deterministic. Where ``at`` is outside of ``0 .. limit`` nothing is written. A kernel that
    scatters has only inner axes, and what it scatters into is not loaded.
    """

    operand: int
    kind: ReduceKind | None
    value: str
    at: str
    limit: int


Statement = (
    Load | Constant | LaneConstants | Index | Compute | Reduce | Store | Accumulate | Scatter
    | RuntimeAssert
)  # fmt: skip
Effect = (Store, Accumulate, Scatter, RuntimeAssert)
"""Statements that write memory; they define no name."""


class LoopPhase(Struct, frozen=True):
    """One loop over the inner axes, and the statements after it."""

    body: tuple[Statement, ...] = ()
    after: tuple[Statement, ...] = ()


class Kernel(Struct, frozen=True):
    """A loop nest. Two operands never overlap unless they are the same operand."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]
    operands: tuple[Operand, ...]
    loop_phases: tuple[LoopPhase, ...]

    @property
    def iterations(self) -> int:
        """Outer times inner iterations."""
        return math.prod(self.outer) * math.prod(self.inner)

    def statements(self) -> Iterator[Statement]:
        """All statements in order: for each phase its body, then what follows its loops."""
        for phase in self.loop_phases:
            yield from phase.body
            yield from phase.after

    def accumulations(self) -> list[Accumulate]:
        """The statements that reduce across outer iterations."""
        return [s for s in self.statements() if isinstance(s, Accumulate)]


def reads(statement: Statement) -> tuple[str, ...]:
    """The names that a statement reads."""
    match statement:
        case Compute(args=args):
            return args
        case Reduce(_, _, value, str(times)):
            return value, times
        case Reduce() | Store() | Accumulate() | RuntimeAssert():
            return (statement.value,)
        case Scatter(value=value, at=at):
            return value, at
        case Load(at=at, predicate=predicate):
            return tuple([name for name in (at, predicate) if name is not None])
        case Constant() | LaneConstants() | Index():
            return ()


def defines(statement: Statement) -> str | None:
    """The name that a statement defines, if any."""
    return None if isinstance(statement, Effect) else statement.name


def varying(kernel: Kernel, axis: int) -> set[str]:
    """Names whose values differ along an axis; axes count outer ones first."""
    found: set[str] = set()
    # A reduction is invariant along inner axes and varies with what it reduces along outer ones.
    inner = axis >= len(kernel.outer)
    for statement in kernel.statements():
        own = any(name in found for name in reads(statement))
        match statement:
            case Load(name, operand):
                o = kernel.operands[operand]
                own = own or (*o.outer, *o.inner)[axis] != 0
            case Index(name, of):
                own = of == axis
            case Reduce(name):
                own = own and not inner
            case Constant(name) | LaneConstants(name) | Compute(name):
                pass
            case Store() | Accumulate() | Scatter() | RuntimeAssert():
                continue
        if own:
            found.add(name)
    return found


def varying_inside(kernel: Kernel) -> set[str]:
    """Names whose values differ along some inner axis."""
    first = len(kernel.outer)
    found = [varying(kernel, first + k) for k in range(len(kernel.inner))]
    return set[str]().union(*found)


def with_numbered_names(kernel: Kernel) -> Kernel:
    """The kernel with numbers for names: kernels that differ in names alone become equal."""
    names: dict[str, str] = {}

    def number(name: str) -> str:
        return names.setdefault(name, f"{len(names)}")

    loop_phases = [
        LoopPhase(
            *(tuple([renamed(s, number) for s in place]) for place in (phase.body, phase.after))
        )
        for phase in kernel.loop_phases
    ]
    return replace(kernel, loop_phases=tuple(loop_phases))


def renamed(statement: Statement, number: Callable[[str], str]) -> Statement:
    """The statement with other names."""
    match statement:
        case Compute(name, primitive, args, dtype):
            numbers = tuple(number(arg) for arg in args)
            return Compute(number(name), primitive, numbers, dtype)
        case Reduce(name, kind, value):
            value = number(value)
            return Reduce(number(name), kind, value)
        case Store(operand, value):
            return Store(operand, number(value))
        case Accumulate() | RuntimeAssert():
            return replace(statement, value=number(statement.value))
        case Scatter(value=value, at=at):
            return replace(statement, value=number(value), at=number(at))
        case Load(name, operand, at, limit, predicate):
            at, predicate = (None if n is None else number(n) for n in (at, predicate))
            return Load(number(name), operand, at, limit, predicate)
        case Constant() | LaneConstants() | Index():
            return replace(statement, name=number(statement.name))


def saved_values(kernel: Kernel) -> tuple[str, ...]:
    """Values of a body that the body of a later phase reads, in order of definition."""
    found: list[str] = []
    bodies: set[str] = set()
    for phase in kernel.loop_phases:
        for statement in phase.body:
            found += [name for name in reads(statement) if name in bodies and name not in found]
        bodies |= {
            name
            for s in phase.body
            # A reduction is one value per outer iteration, a constant needs no storage.
            if (name := defines(s)) is not None and not isinstance(s, (Reduce, Constant))
        }
    return tuple(found)


def accumulated_axes(kernel: Kernel) -> tuple[int, ...]:
    """The outer axes whose iterations share the elements of an `Accumulate`."""
    # Axes with stride 0 are those that an accumulation reduces.
    found = {
        tuple(k for k, stride in enumerate(kernel.operands[s.operand].outer) if not stride)
        for s in kernel.accumulations()
    }
    _require(len(found) < 2, "accumulations share different axes")
    return next(iter(found), ())


def check(kernel: Kernel) -> None:
    """Verify that a kernel is well formed and stays inside its buffers. Raises InternalError.

    Predicated loads are trusted: `Load.predicate` guards them.
    """
    axes = (*kernel.outer, *kernel.inner)
    _require(all(extent >= 0 for extent in axes), "an extent is negative")
    accumulated_axes(kernel)
    further = _max_offsets(kernel)
    for number, operand in enumerate(kernel.operands):
        ranks = (len(operand.outer), len(operand.inner))
        _require(ranks == (len(kernel.outer), len(kernel.inner)), f"rank of operand {number}")
        if 0 in axes or number not in further:
            continue
        strides = (*operand.outer, *operand.inner)
        reach = [(extent - 1) * stride for extent, stride in zip(axes, strides, strict=True)]
        low = operand.offset + sum(r for r in reach if r < 0)
        high = operand.offset + sum(r for r in reach if r > 0)
        # A gather reaches up to its limit beyond the iteration's element.
        high += operand.dtype.itemsize * (1 + further[number])
        _require(low >= 0 and high <= operand.size, f"operand {number} leaves its buffer")
    known: set[str] = set()
    for phase in kernel.loop_phases:
        inside: set[str] = set()
        reductions: set[str] = set()
        for place in (phase.body, phase.after):
            # After the loops, values of single inner iterations no longer exist.
            if place is phase.after and kernel.inner:
                known -= inside
            for statement in place:
                _require(
                    set(reads(statement)) <= known - reductions, f"{statement}: undefined name"
                )
                _check_statement(kernel, statement, place is phase.body)
                name = defines(statement)
                _require(name not in known | inside, f"{name} is defined twice")
                known |= {name} if name is not None else set()
                if place is phase.body and name is not None:
                    (reductions if isinstance(statement, Reduce) else inside).add(name)
            reductions = set()
        known |= inside


def _max_offsets(kernel: Kernel) -> dict[int, int]:
    """For unconditionally accessed operands: the largest gather index, in elements."""
    found: dict[int, int] = {}
    for statement in kernel.statements():
        match statement:
            case Load(_, operand, at, limit, None):
                max_offset = limit if at is not None else 0
                found[operand] = max(found.get(operand, 0), max_offset)
            case Store(operand) | Accumulate(operand) | RuntimeAssert(operand):
                found.setdefault(operand, 0)
            case Scatter(operand, limit=limit):
                found[operand] = max(found.get(operand, 0), limit)
            case _:
                continue
    return found


def _check_statement(kernel: Kernel, statement: Statement, in_body: bool) -> None:
    if isinstance(statement, (Load, *Effect)):
        _require(0 <= statement.operand < len(kernel.operands), f"{statement}: no such operand")
        inner = kernel.operands[statement.operand].inner
        _require(
            in_body or not any(inner), f"{statement}: varies along inner axes whose loop has ended"
        )
    if isinstance(statement, Reduce):
        _require(in_body, f"{statement}: a reduction belongs in a loop body")
    if isinstance(statement, Scatter):
        _require(in_body and not kernel.outer, f"{statement}: a scatter needs iterations in order")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InternalError(f"loop nest: {message}")
