"""Minimum cuts beside trying all of them."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from pirkit.split.maxflow import Network

Edges = list[tuple[int, int, int]]


def cut(edges: Edges, behind: frozenset[int]) -> int:
    return sum(c for a, b, c in edges if a not in behind and b in behind)


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_cheaper(seed: int) -> None:
    random = Random(seed)
    count = random.randint(2, 7)
    nodes = range(count)
    edges = [(a, b, random.randint(0, 9)) for a in nodes for b in nodes if a != b]
    edges = [e for e in edges if random.random() < 0.6]
    network = Network()
    for _ in nodes:
        network.node()
    for edge in edges:
        network.edge(*edge)
    found = network.sink_side(0, count - 1)
    assert 0 not in found
    assert count - 1 in found
    sides = (
        frozenset({count - 1, *(n for n, b in zip(range(1, count - 1), bits, strict=True) if b)})
        for bits in product((False, True), repeat=count - 2)
    )
    best = [(cut(edges, side), len(side)) for side in sides]
    assert (cut(edges, found), len(found)) == min(best), "nearest to the sink among the cheapest"


def test_a_long_chain() -> None:
    network = Network()
    nodes = [network.node() for _ in range(5000)]
    for number, (a, b) in enumerate(pairwise(nodes)):
        network.edge(a, b, 1 if number == 2500 else 5)
    assert len(network.sink_side(nodes[0], nodes[-1])) == 5000 - 2501
