"""Factors sums of products by the distributive law: ``a W + b W`` becomes ``(a + b) W``.

If a network is differentiated along several directions, the reverse sweep propagates one cotangent
for each, and they are summed only at the weights, as products with a common factor. Factoring there
moves the sum one layer up, where it is again a sum of products with a common factor, and so on: one
reverse sweep is left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.whole_program.op_graph import Graph, Op

_RANK: Final = {"matmul": 0, "sum": 1, "multiply": 2, "scale": 3}
"""Ops that are linear in an operand; the costliest are factored first."""


class _Factor(Struct, frozen=True):
    """The key of terms that can be factored: op, attributes, all operands but one.

    ``at`` is the position of the operand that differs; the last one for a commutative op.
    """

    name: str
    at: int
    others: tuple[int, ...]
    key: str


def without_common_factors(graph: Graph) -> Graph:
    """The graph with common factors taken out of its sums; unchanged if it has no matmul.

    The order of additions changes, and so may overflow and the treatment of infinities:
    ``0 f + b f`` is NaN where ``f`` is infinite, ``(0 + b) f`` is not.
    """
    if all(op.name != "matmul" for op in graph.ops):
        return graph
    settled: set[tuple[Op, ...]] = set()
    # each rewrite exposes sums one layer further up, until one reverse sweep is left
    while (ops := _once(graph, settled)) is not None:
        graph = replace(graph, ops=ops)
    return graph


def _once(graph: Graph, settled: set[tuple[Op, ...]]) -> list[Op] | None:
    """One rewrite of all sums; None if no sum has a common factor.

    ``settled`` are sums already known to have none; new ones are added.
    """
    uses = Counter([*graph.outputs, *(a for op in graph.ops for a in op.args)])
    # a term that others read is computed anyway, so factoring it out would add work
    alone = {op.out: op for op in graph.ops if uses[op.out] == 1}
    instead: dict[int, list[Op]] = {}
    seen: set[int] = set()
    # from the last sum on, so that a tree of additions is met at its root
    for op in reversed(graph.ops):
        if op.name != "add" or op.out in seen:
            continue
        terms, inner = terms_of(graph, op, alone)
        seen |= inner
        factored_terms = [alone[t] for t in terms if t in alone]
        if (op, *factored_terms) in settled:
            continue
        groups = _groups(graph, op.out, factored_terms)
        if not groups:
            settled.add((op, *factored_terms))
        else:
            gone = {member.out for factored_terms in groups.values() for member in factored_terms}
            left = [t for t in terms if t not in gone]
            for value in gone | inner:
                instead[value] = []
            instead[op.out] = list(_factored_sum(graph, op.out, left, groups))
    if not instead:
        return None
    return _with_merged_sums([new for op in graph.ops for new in instead.get(op.out, [op])], graph)


def _with_merged_sums(ops: list[Op], graph: Graph) -> list[Op]:
    """The ops with equal additions merged (CSE of `add`)."""
    merged_values: dict[int, int] = {}
    known: dict[tuple[int, ...], int] = {}
    left: list[Op] = []
    for old in ops:
        moved = not merged_values.keys().isdisjoint(old.args)
        op = replace(old, args=tuple([merged_values.get(a, a) for a in old.args])) if moved else old
        if op.name == "add" and op.out not in graph.outputs:
            # addition commutes
            first = known.setdefault(tuple(sorted(op.args)), op.out)
            if first != op.out and graph.metas[first] == graph.metas[op.out]:
                merged_values[op.out] = first
                continue
        left.append(op)
    return left


def terms_of(graph: Graph, total: Op, alone: dict[int, Op]) -> tuple[list[int], set[int]]:
    """The terms of a tree of additions, and its inner additions, which nobody else reads."""
    found: list[int] = []
    inner: set[int] = set()
    pending = [*reversed(total.args)]
    while pending:
        value = pending.pop()
        op = alone.get(value)
        if op is not None and op.name == "add" and graph.metas[value] == graph.metas[total.out]:
            inner.add(value)
            pending += reversed(op.args)
        else:
            found.append(value)
    return found, inner


def _groups(graph: Graph, total: int, terms: list[Op]) -> dict[_Factor, list[Op]]:
    """Groups of at least two terms with a common factor; each term is in at most one group."""
    found: dict[_Factor, list[Op]] = defaultdict(list)
    names = Counter(op.name for op in terms)
    for op in terms:
        shared = op.name in _RANK and names[op.name] > 1
        if shared and graph.metas[op.out] == graph.metas[total]:
            for factor in dict.fromkeys(_factors(graph, op)):
                found[factor].append(op)
    groups: dict[_Factor, list[Op]] = {}
    used_terms: set[int] = set()
    # a term that fits two groups joins that of the costlier op, then the larger one
    for factor in sorted(found, key=lambda f: (_RANK[f.name], -len(found[f]))):
        factored_terms = [op for op in found[factor] if op.out not in used_terms]
        if len(factored_terms) > 1:
            groups[factor] = factored_terms
            used_terms |= {op.out for op in factored_terms}
    return groups


def _factors(graph: Graph, op: Op) -> Iterator[_Factor]:
    """The factors that may be taken out of an op, one for each operand in which it is linear."""
    if op.name == "scale" and op.attrs["bias"]:
        return
    for at, operand in enumerate(op.args):
        if operand not in graph.fills:
            others = (*op.args[:at], *op.args[at + 1 :])
            meta_key = f"{sorted(op.attrs.items())} {graph.metas[operand]}"
            yield _Factor(op.name, 1 if op.name == "multiply" else at, others, meta_key)


def _operand(op: Op, factor: _Factor) -> int:
    """The operand of a term that is not part of the common factor."""
    is_swapped = op.name == "multiply" and op.args[0] not in factor.others
    return op.args[0 if is_swapped else factor.at]


def _factored_sum(
    graph: Graph, total: int, left: list[int], groups: dict[_Factor, list[Op]]
) -> Iterator[Op]:
    """Emit the factored sum: one product for each group, plus the terms without a group."""
    terms = list(left)
    for factor, factored_terms in groups.items():
        operands = [_operand(op, factor) for op in factored_terms]
        inner = graph.new(graph.metas[operands[0]])
        yield from additions(graph, operands, inner)
        args = (*factor.others[: factor.at], inner, *factor.others[factor.at :])
        is_all = not left and len(groups) == 1
        out = total if is_all else graph.new(graph.metas[total])
        yield replace(factored_terms[0], args=args, out=out)
        terms.append(out)
    if len(terms) > 1:
        yield from additions(graph, terms, total)


def additions(graph: Graph, terms: list[int], out: int) -> Iterator[Op]:
    """Emit the additions of some values, from left to right."""
    so_far = terms[0]
    for term in terms[1:-1]:
        made = graph.new(graph.metas[out])
        yield Op("add", (so_far, term), made)
        so_far = made
    yield Op("add", (so_far, terms[-1]), out)
