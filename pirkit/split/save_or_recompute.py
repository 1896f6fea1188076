"""Chooses which values the forward saves, and which the backward recomputes: a minimum cut.

The cut separates what only the forward program has from what the backward reads, as in min-cut
rematerialization of PyTorch's AOTAutograd. Saving a version costs its bytes; recomputing an
operation costs its work; lists and constants are free. An operation with regions is one node.
Recomputation reads only versions that nothing has overwritten. docs/why/015 gives the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field
from xdsl.ir import SSAValue

from pirkit.diag.errors import ArgumentError, PassError
from pirkit.diag.once import cached_property
from pirkit.diag.span import Span
from pirkit.dialect.kinds import PARAMETER
from pirkit.dialect.operation import PirOp, declares, span_of
from pirkit.dialect.type_sizes import bytes_of, is_token
from pirkit.split.backward_reads import Demand, reads_data
from pirkit.split.costs import LIST, RecomputeCost, recompute_cost_of, work_of
from pirkit.split.joint import Joint, source_of, stored_values
from pirkit.split.maxflow import INFINITE, Network
from pirkit.split.recompute import gives, reads
from pirkit.split.storage_versions import Contents, Need

SAVE_ALL: Final = "save-all"
FREE: Final = "free"
MIN_CUT: Final = "min-cut"
MODES: Final = (SAVE_ALL, FREE, MIN_CUT)

_EFFORTS: Final = {FREE: RecomputeCost.FREE, MIN_CUT: RecomputeCost.CHEAP}
_STEPS: Final = 12
"""Bisection steps over the price of a byte, in search of less work within a budget."""


class Choice(Struct, frozen=True):
    """The values that the backward program takes, and those that it recomputes."""

    saved: frozenset[Need]
    """The versions whose data it takes."""
    again: tuple[PirOp, ...]
    """The operations that it repeats, in the order of the forward program."""
    bytes: int


class Chooser(Struct, frozen=True, dict=True):
    """Computes choices for one joint program."""

    joint: Joint
    contents: Contents
    demand: Demand

    @cached_property
    def stored(self) -> dict[SSAValue, SSAValue]:
        """The values that an input or parameter holds when the forward is over."""
        return stored_values(self.joint)

    def choose(self, mode: str, budget: int | None) -> Choice:
        """The choice of a mode; with a budget, a choice within it that recomputes little work.

        Raises ArgumentError (PK0701) for an unknown mode, PassError (PK0807) with the smallest
        possible budget if ``budget`` is too small.
        """
        require_mode(mode)
        if budget is not None:
            return self._within(budget)
        return self._all() if mode == SAVE_ALL else self._least(_EFFORTS[mode])

    def _all(self) -> Choice:
        """Everything that the backward reads, as Paddle saves it; for a list, its elements."""
        return self._made(frozenset(self.demand.data), RecomputeCost.NOTHING)

    def _least(self, effort: RecomputeCost) -> Choice:
        """The fewest bytes; among those choices, the least work.

        One byte costs more than the work of the whole forward program, so bytes decide first.
        """
        return self._cut(effort, 1 + sum(map(self.work_of, self.joint.forward)))

    def _within(self, budget: int) -> Choice:
        found = self._all()
        if found.bytes <= budget:
            return found
        # The cheapest class first: expensive operations are repeated only if the budget needs it.
        for effort in (RecomputeCost.FREE, RecomputeCost.CHEAP, RecomputeCost.EXPENSIVE):
            found = self._least(effort)
            if found.bytes <= budget:
                return self._with_less_work(found, effort, budget)
        raise PassError(
            f"a budget of {budget:,} bytes is too small",
            code="PK0807",
            span=_place(self.joint),
            notes=(f"the backward needs {found.bytes:,} bytes at least",),
            help="raise the budget, or make the batch smaller",
        )

    def _with_less_work(self, best: Choice, effort: RecomputeCost, budget: int) -> Choice:
        """Bisect the price of a byte, for a choice within the budget that recomputes less work."""
        high = 1 + sum(map(self.work_of, self.joint.forward))
        low = 0
        for _ in range(_STEPS):
            price = (low + high) // 2
            found = self._cut(effort, price)
            if found.bytes > budget:
                low = price
                continue
            high = price
            if sum(map(self.work_of, found.again)) < sum(map(self.work_of, best.again)):
                best = found
        return best

    def _cut(self, effort: RecomputeCost, price: int) -> Choice:
        cut = _Cut(self, effort, price)
        return self._made(cut.saved(), effort)

    def _made(self, saved: frozenset[Need], effort: RecomputeCost) -> Choice:
        """The choice for saved versions: reads are followed backward until they reach one.

        A version that cannot be recomputed is saved in any case.
        """
        taken: set[Need] = set()
        again: set[PirOp] = set()
        pending = list(self.demand.data)
        seen = set(pending)
        while pending:
            need = pending.pop()
            op = self.producer(need, effort)
            if op is None or (need in saved and op.name != LIST):
                taken.add(need)
                continue
            again.add(op)
            fresh = [n for n in self.wants(op) if n not in seen]
            seen.update(fresh)
            pending += fresh
        order = [op for op in self.joint.forward if op in again]
        # Values that are the same input or parameter share its storage, and are counted once.
        held = {(need.stale, source_of(need.value) or need.value): need for need in taken}
        return Choice(frozenset(taken), tuple(order), sum(map(self.bytes_of, held.values())))

    def producer(self, need: Need, effort: RecomputeCost) -> PirOp | None:
        """The operation that the backward may repeat to recompute a version, or None."""
        op = need.value.owner
        if not isinstance(op, PirOp):
            return None
        if recompute_cost_of(op) > effort and op not in self.joint.floating:
            return None
        if self.contents.made(need.value) != need:
            return None  # a later in-place operation has written this version
        if not gives(op, need.value):
            return None
        for user, index in reads(op):
            if reads_data(user, index) and not self.contents.can_be_had(user, index):
                return None
        return op

    def wants(self, op: PirOp) -> list[Need]:
        """The versions whose data an operation reads when it is repeated."""
        found = [
            self.contents.read(user, index) for user, index in reads(op) if reads_data(user, index)
        ]
        return list(dict.fromkeys(found))

    def bytes_of(self, need: Need) -> int:
        """The bytes that saving a version costs: 0 for a parameter, which is in memory anyway."""
        if is_token(need.value.type):
            return self.push_cost(need.value)
        value = need.value
        source = None if need.stale else source_of(value) or self.stored.get(value)
        owner = None if source is None else source.owner
        is_parameter = declares(owner, PARAMETER)
        return 0 if is_parameter else bytes_of(need.value.type)

    def work_of(self, op: PirOp) -> int:
        """The cost of running an operation in the backward: 0 if only the backward needs it."""
        return 0 if op in self.joint.floating else work_of(op)

    def push_cost(self, token: SSAValue) -> int:
        """The bytes that one iteration of a loop pushes onto a stack.

        They are counted once, for the token from which the backward pops; 0 for other tokens.
        """
        stack = token.owner
        if not isinstance(stack, PirOp) or token is not stack.results[-1]:
            return 0
        pushes = [use.operation for use in stack.results[1].uses]
        values = [v for push in pushes for v in push.operands[1:]]
        return sum(self.push_cost(v) if is_token(v.type) else bytes_of(v.type) for v in values)


class _Cut(Struct):
    """The network of a cut: each version has an entry and an exit node, each operation one node.

    The edge from entry to exit costs the bytes, the edge from the source to an operation its work.
    """

    chooser: Chooser
    effort: RecomputeCost
    price: int
    network: Network = field(default_factory=Network)
    gates: dict[Need, tuple[int, int]] = field(default_factory=dict[Need, tuple[int, int]])
    work: dict[PirOp, int] = field(default_factory=dict[PirOp, int])

    def saved(self) -> frozenset[Need]:
        source, sink = self.network.node(), self.network.node()
        pending = self.enter(self.chooser.demand.data)
        for _, exit_node in self.gates.values():
            self.network.edge(exit_node, sink, INFINITE)
        while pending:
            need = pending.pop()
            op = self.chooser.producer(need, self.effort)
            enter, _ = self.gates[need]
            if op is None:
                self.network.edge(source, enter, INFINITE)
                continue
            if op not in self.work:
                self.work[op] = self.network.node()
                self.network.edge(source, self.work[op], self.chooser.work_of(op))
                wanted = self.chooser.wants(op)
                pending += self.enter(wanted)
                for other in wanted:
                    self.network.edge(self.gates[other][1], self.work[op], INFINITE)
            # Infinite edges lead from the versions that an op reads to the op, and on to its
            # result. So a cut crosses a version (which is saved) or the edge from the source to
            # an op (which is repeated).
            self.network.edge(self.work[op], enter, INFINITE)
        after_cut = self.network.sink_side(source, sink)
        return frozenset(
            need
            for need, (enter, exit_node) in self.gates.items()
            if exit_node in after_cut and enter not in after_cut
        )

    def enter(self, needs: Iterable[Need]) -> list[Need]:
        """Add nodes for versions that have none; returns those versions."""
        fresh = [n for n in dict.fromkeys(needs) if n not in self.gates]
        for need in fresh:
            enter, exit_node = self.network.node(), self.network.node()
            can_keep = self.chooser.contents.can_keep(need)
            price = self.price * self.chooser.bytes_of(need) if can_keep else INFINITE
            self.network.edge(enter, exit_node, price)
            self.gates[need] = (enter, exit_node)
        return fresh


def require_mode(mode: str) -> None:
    """Raise ArgumentError (PK0701) for an unknown mode."""
    if mode not in MODES:
        raise ArgumentError(f"there is no mode `{mode}`", help=f"modes are {', '.join(MODES)}")


def _place(joint: Joint) -> Span | None:
    return span_of(joint.backward[0]) if joint.backward else span_of(joint.program)
