"""The questions that a bounds proof asks z3.

They are whether an access can leave its buffer, and with which numbers a routine is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pirkit.frontend.proof_terms import Unprovable
from pirkit.frontend.proof_values import Values
from pirkit.lowering.codegen.ir.element_types import LINE
from pirkit.lowering.codegen.ir.loop_ir import Bound, Loop, Nest, Word
from pirkit.lowering.codegen.ir.loop_tree import walk

EFFORT: Final = 2_000_000
"""The resource limit of z3 for one access, in its own units."""
CALLS: Final = 256
"""Combinations of numbers with which one routine may be called."""

Term = Any
"""A term of z3, whose package has no types, or a Python integer."""


def divided(a: Term, b: int) -> Term:
    """``a`` divided by a positive integer, rounded down."""
    return a // b if isinstance(a, int) else a / b


class Outside(Struct, frozen=True):
    """An access that leaves its buffer, and the loop variables at which it does."""

    access: str
    buffer: int
    begin: int
    size: int
    limit: int
    at: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        where = ", ".join(f"{name} = {value}" for name, value in self.at)
        return (
            f"`{self.access}`: {self.size} bytes from byte {self.begin:,} on of buffer"
            f" {self.buffer}, which has {self.limit:,} bytes, where {where or 'no loop runs'}"
        )


class Accesses(Struct):
    """The result for the accesses of a nest: how many are proved, or why one is not."""

    proved: int = 0
    outside: Outside | None = None
    open: list[str] = field(default_factory=list[str])


class ProofPoint(Struct, frozen=True):
    """An iteration, or a vector of them along ``axis``, in terms of the loop variables."""

    index: dict[int, Term]
    """The coordinate along each axis."""
    address: tuple[Term, ...]
    """The position in each buffer, in bytes."""
    holds: tuple[Term, ...] = ()
    """Known conditions on the variables."""
    linear: dict[tuple[int, ...], Term] = field(default_factory=dict[tuple[int, ...], Term])
    """The linear index along axes that one loop traverses."""
    blocks: dict[str, Term] = field(default_factory=dict[str, Term])
    """Where the present block of a loop begins."""
    ends: dict[str, Term] = field(default_factory=dict[str, Term])
    """Where it ends, in an aligned loop."""
    iterations: dict[str, Term] = field(default_factory=dict[str, Term])
    """The number of the present block."""
    lanes: int = 1
    axis: int = -1
    lane: Term = 0
    """The number of a lane."""
    active: Term = 1
    """The number of lanes that are active."""


class Refuted(Exception):
    """An access can leave its buffer."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self.outside = outside


class BoundsQuestions:
    """Asks about the accesses of a nest, and notes the answers."""

    def __init__(self, z3: Any, nest: Nest) -> None:
        self.z3, self.nest, self.found = z3, nest, Accesses()
        self.values = Values(z3, nest)
        self.lanes = max([n.lanes for n in walk(nest.body) if isinstance(n, Loop)], default=1)
        self.names: list[tuple[str, Term]] = []
        """The loop variables, for counterexamples."""
        self.asked = set[Any]()
        self.axes = [f"i{k}" for k in range(nest.rank)]
        self.axes += [f"r{k}" for k in range(len(nest.extents) - nest.rank)]

    def limit(self, number: int) -> int:
        """The bytes that a buffer has; scratch memory has padding (`NestState.start`)."""
        buffer = self.nest.buffers[number]
        if buffer.space != "scratch":
            return buffer.size
        root = buffer if buffer.shares is None else self.nest.buffers[buffer.shares]
        return (-(-root.size // LINE) + 1) * LINE

    @property
    def buffer_names(self) -> list[str]:
        return [f"b{k}" for k in range(len(self.nest.buffers))]

    def fresh(self, name: str, at: ProofPoint, *, shown: bool = True) -> tuple[Term, ProofPoint]:
        """An unknown integer of at least 0."""
        term = self.values.unknown(name)
        if shown:
            self.names.append((name, term))
        return term, replace(at, holds=(*at.holds, term >= 0))

    def bound(self, bound: Bound, at: ProofPoint) -> tuple[Term, ProofPoint]:
        """The value of a loop bound at a point. Raises Unprovable for one that a call gives."""
        if isinstance(bound, int):
            return bound, at
        if isinstance(bound, Word):
            raise Unprovable(f"`{bound.name}` is known when the nest is called")
        first, extent = at.blocks[bound.block], bound.extent
        if bound.within is not None:
            count, at = self.bound(bound.within, at)
            extent = at.blocks[bound.within.block] + count
        end = at.ends[bound.block] if bound.aligned else self.least(first + bound.size, extent)
        count = self.most(end - first, 0)
        if bound.multiple == 1:
            return count, at
        times, at = self.fresh("multiples", at, shown=False)
        rounded = bound.multiple * times
        holds = (*at.holds, rounded <= count, count < rounded + bound.multiple)
        return rounded, replace(at, holds=holds)

    def least(self, a: Term, b: Term) -> Term:
        known = isinstance(a, int) and isinstance(b, int)
        return min(a, b) if known else self.z3.If(a < b, a, b)

    def most(self, a: Term, b: Term) -> Term:
        known = isinstance(a, int) and isinstance(b, int)
        return max(a, b) if known else self.z3.If(a < b, b, a)

    def require(
        self, number: int, place: Term, size: Term, holds: Sequence[Term], access: str
    ) -> None:
        """Ask whether ``size`` bytes from ``place`` on lie in a buffer wherever ``holds`` holds.

        Raises Refuted if they do not.
        """
        z3, limit = self.z3, self.limit(number)
        place = z3.IntVal(place) if isinstance(place, int) else place
        wrong = z3.simplify(z3.Or(place < 0, place + size > limit))
        key = number, wrong, tuple([h for h in holds if not isinstance(h, bool)])
        if key in self.asked:
            return
        self.asked.add(key)
        if z3.is_false(wrong) or any(h is False for h in holds):
            self.found.proved += 1
            return
        ask = z3.Solver()
        ask.set("rlimit", EFFORT)
        ask.add(wrong, *holds)
        answer = ask.check()
        if answer == z3.unsat:
            self.found.proved += 1
            return
        if answer != z3.sat:
            self.found.open.append(f"{access}: z3 gives up")
            return
        model = ask.model()
        begin, length, *values = [
            model.eval(z3.IntVal(t) if isinstance(t, int) else t, model_completion=True).as_long()
            for t in (place, size, *[term for _, term in self.names])
        ]
        names = [name for name, _ in self.names]
        at = tuple(zip(names, values, strict=True))
        raise Refuted(Outside(access, number, begin, length, limit, at))

    def calls(self, numbers: Sequence[Term], holds: Sequence[Term]) -> Iterator[list[int]]:
        """The combinations of numbers that occur.

        Raises Unprovable if z3 gives up, or if there are more than `CALLS`.
        """
        z3, ask = self.z3, self.z3.Solver()
        ask.set("rlimit", EFFORT)
        unknown = [n for n in numbers if not isinstance(n, int)]
        ask.add(*[h for h in holds if not isinstance(h, bool)])
        for _ in range(CALLS):
            answer = ask.check()
            if answer == z3.unsat:
                return
            if answer != z3.sat:  # further combinations of numbers may exist
                raise Unprovable("z3 gives up on the numbers with which a routine is called")
            model = ask.model()
            found = {n.get_id(): model.eval(n, model_completion=True).as_long() for n in unknown}
            yield [n if isinstance(n, int) else found[n.get_id()] for n in numbers]
            if not unknown:
                return
            ask.add(z3.Or(*[n != found[n.get_id()] for n in unknown]))
        raise Unprovable(f"a routine is called with more than {CALLS} combinations of numbers")
