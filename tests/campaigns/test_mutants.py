"""The tool that plants defects: what it changes, and that its explanations are of mutants."""

from __future__ import annotations

import ast

from tools import mutants

SOURCE = """
LIMIT = 3
def f(a, b, c=1):
    if not a or b <= 2:
        raise ValueError(f"{a - b} is less than {1 + 2}")
    return [x + 1 for x, y in zip(a, b, strict=True)]
"""


def test_what_is_changed() -> None:
    found = mutants.places(ast.parse(SOURCE))
    assert [f"{ast.unparse(a)} -> {ast.unparse(b)}" for a, b in found] == [
        "not a or b <= 2 -> not a and b <= 2",
        "not a -> a",
        "b <= 2 -> b < 2",
        "2 -> 3",
        "x + 1 -> x - 1",
        "1 -> 2",
    ]


def test_what_is_explained_is_a_mutant() -> None:
    explained = mutants.explanations().keys()
    stems = {where.partition(".")[0] for where, _ in explained}
    changes = {change.partition(" -> ")[0] for _, change in explained}
    told: set[tuple[str, str]] = set()
    for room in mutants.ROOMS:
        for path in (p for p in mutants.files(room) if p.stem in stems):
            for k, (node, _) in enumerate(mutants.places_of(path)):
                if ast.unparse(node) in changes:
                    found = mutants.Mutant(room, path, k).told
                    told.add((found["in"], found["change"]))
    assert explained - told == set()


def test_scores_are_of_few_and_of_all_tests() -> None:
    verdicts = [
        {"is": "noticed a"}, {"is": "hang"}, {"is": "survived 3", "later": "noticed b"},
        {"is": "survived 3", "later": "survived 9"}, {"is": "unreached", "later": "died"},
        {"is": "none"}, {"is": "unreached"},
    ]  # fmt: skip
    done = [
        {"room": "split", "at": f"a.py:{k}", "in": "a.f", "change": "1 -> 2"} | verdict
        for k, verdict in enumerate(verdicts)
    ]
    told = mutants.report(done).splitlines()
    assert told[2] == "| split | 6 | 2 | 2 | 0 | 1 | 1 | 33 % | 67 % |"
    assert told[5:] == ["a.py:3 a.f: 1 -> 2 (survived)", "a.py:6 a.f: 1 -> 2 (unreached)"]
