"""`viterbi_decode` against all paths, one by one."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from pirkit import ops

RNG = np.random.default_rng(11)
POTENTIALS, MOVES = RNG.normal(size=(3, 4, 3)), RNG.normal(size=(3, 3))
LENGTHS = np.array([4, 1, 3])


def score(path: tuple[int, ...], potentials: Any, tags: bool) -> float:
    moves = sum(float(MOVES[a, b]) for a, b in pairwise(path))
    ends = float(MOVES[-1, path[0]] + MOVES[-2, path[-1]]) if tags else 0.0
    return moves + ends + sum(float(potentials[t, at]) for t, at in enumerate(path))


@pytest.mark.parametrize("tags", [True, False])
def test_the_path_is_the_best_of_all(tags: bool) -> None:
    scores, path = ops.viterbi_decode(POTENTIALS, MOVES, LENGTHS, include_bos_eos_tag=tags)
    assert np.asarray(path).shape == (3, 4)
    for n, steps in enumerate(LENGTHS.tolist()):
        ways = product(range(3), repeat=steps)
        best = max(ways, key=lambda way: score(way, POTENTIALS[n], tags))
        assert np.asarray(path)[n].tolist() == [*best, *[0] * (4 - steps)]
        found = float(np.asarray(scores)[n])
        np.testing.assert_allclose(found, score(best, POTENTIALS[n], tags), rtol=1e-12)
