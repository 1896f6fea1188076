"""Budgets: a split does not exceed its budget, and the reported minimum is the true one.

The choice is compared with all choices: every set of contents from which the rest can be computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

import pytest

from pirkit.diag.errors import PassError
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.split import forward_backward
from pirkit.split.add_gradients import differentiated
from pirkit.split.backward_reads import demand_of
from pirkit.split.costs import LIST, RecomputeCost
from pirkit.split.joint import joint_of, source_of
from pirkit.split.reorder import floated
from pirkit.split.save_or_recompute import FREE, MIN_CUT, Choice, Chooser
from pirkit.split.storage_versions import Contents, Need
from tests.execution import parsed
from tests.split.reference_tape import grow

SEEDS = range(60)
DEPTH = 5
MOST = 13
"""Contents of which all subsets are tried; larger programs are left out."""


def chooser_of(text: str) -> Chooser:
    """What `split` chooses with."""
    (program,) = [op for op in parsed(text).ops if isinstance(op, ProgramOp)]
    roles, _ = differentiated(program)
    joint = joint_of(program, roles)
    contents = Contents(joint)
    joint = floated(joint, contents, demand_of(joint, contents))
    contents = Contents(joint)
    return Chooser(joint, contents, demand_of(joint, contents))


def reachable(chooser: Chooser, effort: RecomputeCost) -> list[Need]:
    """All contents that the backward may compute with."""
    found = dict.fromkeys(chooser.demand.data)
    pending = list(found)
    while pending:
        op = chooser.producer(pending.pop(), effort)
        fresh = [n for n in chooser.wants(op) if n not in found] if op is not None else []
        found.update(dict.fromkeys(fresh))
        pending += fresh
    return list(found)


def is_enough(chooser: Chooser, effort: RecomputeCost, saved: frozenset[Need]) -> bool:
    """True if everything that the backward reads follows from what is saved."""
    pending, seen = list(chooser.demand.data), set(chooser.demand.data)
    while pending:
        need = pending.pop()
        if need in saved and chooser.contents.can_keep(need):
            continue
        op = chooser.producer(need, effort)
        if op is None:
            return False
        fresh = [n for n in chooser.wants(op) if n not in seen]
        seen.update(fresh)
        pending += fresh
    return True


def bytes_of(chooser: Chooser, saved: tuple[Need, ...]) -> int:
    held = {(need.stale, source_of(need.value) or need.value): need for need in saved}
    return sum(map(chooser.bytes_of, held.values()))


def least(chooser: Chooser, effort: RecomputeCost) -> int | None:
    """The fewest bytes that suffice; None if there are too many choices to try."""
    found = reachable(chooser, effort)
    free = [n for n in found if not chooser.bytes_of(n)]
    paid = [n for n in found if n not in free and not is_list(n)]
    if len(paid) > MOST:
        return None
    costs = (
        bytes_of(chooser, saved)
        for count in range(len(paid) + 1)
        for saved in combinations(paid, count)
        if is_enough(chooser, effort, frozenset((*free, *saved)))
    )
    return min(costs)


def is_list(need: Need) -> bool:
    """True for a list, which is never kept as such, but by its elements."""
    owner = need.value.owner
    return isinstance(owner, PirOp) and owner.name == LIST


@lru_cache
def tried() -> tuple[tuple[int, str, Chooser], ...]:
    held = ((seed, grow(seed, DEPTH).text) for seed in SEEDS)
    return tuple([(seed, text, chooser_of(text)) for seed, text in held])


def of_effort(effort: RecomputeCost) -> Iterator[tuple[int, str, int]]:
    for seed, text, chooser in tried():
        found = least(chooser, effort)
        if found is not None:
            yield seed, text, found


@pytest.mark.parametrize(
    ("mode", "effort"), [(FREE, RecomputeCost.FREE), (MIN_CUT, RecomputeCost.CHEAP)]
)
def test_no_choice_keeps_fewer_bytes(mode: str, effort: RecomputeCost) -> None:
    count = 0
    for seed, text, smallest in of_effort(effort):
        count += 1
        assert forward_backward(parsed(text), mode=mode).report.bytes == smallest, seed
    assert count > len(SEEDS) // 2


def test_the_smallest_budget_is_the_smallest_there_is() -> None:
    """It is enough; one byte less is refused, and the error tells it."""
    count = 0
    for seed, text, smallest in of_effort(RecomputeCost.EXPENSIVE):
        count += 1
        parts = forward_backward(parsed(text), budget=smallest)
        assert parts.report.bytes == smallest, seed
        if smallest:
            with pytest.raises(PassError) as caught:
                forward_backward(parsed(text), budget=smallest - 1)
            assert caught.value.code == "PK0807"
            assert told(caught.value) == smallest, seed
    assert count > len(SEEDS) // 2


@pytest.mark.parametrize("seed", [*SEEDS][::6])
def test_every_budget_is_kept(seed: int) -> None:
    """From the smallest one on; what is kept anyway takes no work."""
    module = parsed(grow(seed).text)
    most = forward_backward(module).report.bytes
    try:
        smallest = forward_backward(module, budget=0).report.bytes
    except PassError as error:
        smallest = told(error)
    for budget in range(smallest, most + 1, max(most // 6, 1)):
        assert smallest <= forward_backward(module, budget=budget).report.bytes <= budget
    assert not forward_backward(module, budget=most).report.recomputed


def test_no_price_of_a_byte_takes_less_work_within_a_budget() -> None:
    efforts, better = (RecomputeCost.FREE, RecomputeCost.CHEAP, RecomputeCost.EXPENSIVE), 0
    for seed in [*SEEDS][::2]:
        chooser = chooser_of(grow(seed).text)
        within = [(e, chooser._least(e)) for e in efforts]  # pyright: ignore[reportPrivateUsage]
        most, smallest = chooser._all().bytes, within[-1][1].bytes  # pyright: ignore[reportPrivateUsage]
        for budget in range(smallest, most, max((most - smallest) // 4, 1)):
            effort, first = next((e, c) for e, c in within if c.bytes <= budget)
            prices = (0, *(1 << k for k in range(20)))
            cuts = [chooser._cut(effort, p) for p in prices]  # pyright: ignore[reportPrivateUsage]
            work = work_in(chooser, chooser.choose(MIN_CUT, budget))
            assert all(work <= work_in(chooser, c) for c in cuts if c.bytes <= budget), seed
            better += work < work_in(chooser, first)
    assert better


def work_in(chooser: Chooser, choice: Choice) -> int:
    return sum(map(chooser.work_of, choice.again))


def told(error: PassError) -> int:
    """The smallest budget that an error names."""
    (found,) = re.findall(r"needs ([\d,]+) bytes", "".join(error.notes))
    return int(found.replace(",", ""))
