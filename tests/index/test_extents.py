"""Sizes without numbers: the algebra of indices holds for every size that they may be."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from math import prod

import pytest

from pirkit.index.expr import Expr, Iter, broadcast, const, floor, iterator, within
from pirkit.index.extent import (
    Undecided,
    at,
    divided,
    larger,
    least,
    named,
    shared,
    smaller,
)
from pirkit.index.index_maps import (
    Guard,
    Index,
    at_sizes,
    bindings,
    compose,
    digits,
    evaluate,
    flat,
    inverse,
    space,
    witness,
)
from pirkit.index.substitution import names_of, resized

N, M, K = named("n"), named("m"), named("k")
A, B, C = space((N, M, K))

REWRITE_RULES = {
    "a number below its size": (floor(A, N), const(0)),
    "the outer of two digits": (floor(A * M + B, M), A),
    "the inner of two digits": ((A * M + B) % M, B),
    "three digits put together": (flat(digits(A * M * K + B * K + C, (N, M, K)), (N, M, K)),
                                  A * M * K + B * K + C),
    "an inner digit decomposed": (floor((A * M + B) * 4 + iterator("q", 4), 2),
                                   (A * M + B) * 2 + floor(iterator("q", 4), 2)),
    "common factors": (floor(A * (4 * M) + B * 4, 4 * M), A),
    "a low part that is too small": (floor(A * (4 * M) + B * 4 + iterator("q", 4), 4 * M), A),
    "floors of floors": (floor(floor(iterator("p", N * M * K), K), M),
                         floor(iterator("p", N * M * K), M * K)),
    "reflections": (floor(N * M - 1 - (A * M + B), M), N - 1 - A),
    "a place along an axis of its own size": (broadcast(A, N), A),
    "a place along an axis of one element": (broadcast(A, 1), const(0)),
    "a place that is spread twice": (broadcast(broadcast(A, M), M), broadcast(A, M)),
    "cancellation": (A * N - A * (N - 1), A),
}  # fmt: skip


@pytest.mark.parametrize("name", REWRITE_RULES)
def test_laws_hold_by_identity(name: str) -> None:
    left, right = REWRITE_RULES[name]
    assert left is right


@pytest.mark.parametrize("name", REWRITE_RULES)
def test_laws_hold_for_every_size(name: str) -> None:
    for left in REWRITE_RULES[name]:
        for sizes in ({"n": 1, "m": 1, "k": 1}, {"n": 3, "m": 1, "k": 2}, {"n": 2, "m": 5, "k": 3}):
            expr = resized(left, sizes)
            assert not expr.sized
            assert expr is resized(REWRITE_RULES[name][1], sizes)


def movements(draw: random.Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], Index, int]:
    """A few movements of a tensor of unknown sizes; the shape, the map, what a roll moves by."""
    index = space(shape)
    for _ in range(draw.randint(1, 4)):
        axis, new = draw.randrange(len(shape)), list(shape)
        kind = draw.choice(("merge", "split", "transpose", "flip", "roll", "tile"))
        if kind == "merge" and axis + 1 < len(shape):
            new[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
            step = digits(flat(space(new), new), shape)
        elif kind == "split":
            by = draw.choice([n for n in (N, M, K, 2) if not divided(shape[axis], n)[1]] or [1])
            new[axis : axis + 1] = [divided(shape[axis], by)[0], by]
            step = digits(flat(space(new), new), shape)
        elif kind == "transpose":
            perm = draw.sample(range(len(shape)), len(shape))
            new = [shape[p] for p in perm]
            step = tuple([space(new)[perm.index(a)] for a in range(len(shape))])
        else:
            step = space(new)
            place = shape[axis] - 1 - step[axis]
            if kind == "roll":
                place = (step[axis] - 1) % shape[axis]
            elif kind == "tile":
                new[axis] = 2 * shape[axis]
                place = space(new)[axis] % shape[axis]
                step = space(new)
            step = (*step[:axis], place, *step[axis + 1 :])
        index = compose(index, bindings(space(shape), step))
        shape = tuple(new)
    return shape, index, len(shape)


def table(shape: tuple[int, ...], index: Index) -> list[tuple[int, ...]]:
    here = space(shape)
    found: list[tuple[int, ...]] = []
    for point in product(*map(range, shape)):
        values = {e.iter: n for e, n in zip(here, point, strict=True) if e.iter is not None}
        found.append(tuple(evaluate(e, values) for e in index))
    return found


SIZES = ({"n": 1, "m": 1, "k": 1}, {"n": 2, "m": 3, "k": 2}, {"n": 3, "m": 1, "k": 4})
BASES = ((N, M, K), (N * M, 4), (N, 2 * M, 2), (N * M * K,))


def test_movements_are_right_for_every_size_and_equal_ones_are_mostly_one_object() -> None:
    draw = random.Random(0)
    by_table: dict[object, Index] = {}
    equal = missed = 0
    for _ in range(400):
        base = draw.choice(BASES)
        shape, index, _ = movements(draw, base)
        tables: list[object] = [base, shape]
        for sizes in SIZES:
            known = tuple([at(n, sizes) for n in shape])
            if prod(known) > 600:
                break
            found = table(known, at_sizes(index, sizes))
            extents = [at(n, sizes) for n in base]
            assert all(0 <= e < n for row in found for e, n in zip(row, extents, strict=True))
            tables.append(tuple(found))
        else:
            if tuple(tables) in by_table:
                equal += 1
                missed += by_table[tuple(tables)] != index
            by_table.setdefault(tuple(tables), index)
    assert equal > 60
    assert missed == 0


def written(draw: random.Random, depth: int) -> tuple[Expr, Callable[[dict[str, int]], int]]:
    """A random expression, and what it is at a point, computed by Python."""
    if not depth:
        chosen = draw.choice((A, B, C))
        name = {A: "i0", B: "i1", C: "i2"}[chosen]
        return chosen, lambda p: p[name]
    left, value = written(draw, depth - 1)
    right, other = written(draw, depth - 1)
    number = draw.choice((N, M, N * M, 2, 3, 2 * K, N + 1))

    def size(p: dict[str, int]) -> int:
        return at(number, p)

    match draw.choice("+-*/%"):
        case "+":
            return left + right, lambda p: value(p) + other(p)
        case "-":
            return left - right, lambda p: value(p) - other(p)
        case "*":
            return left * number, lambda p: value(p) * size(p)
        case "/":
            return floor(left, number), lambda p: value(p) // size(p)
        case _:
            return left % number, lambda p: value(p) % size(p)


def test_simplified_expressions_have_the_values_and_limits_of_what_was_written() -> None:
    draw = random.Random(3)
    for _ in range(300):
        expr, value = written(draw, draw.randint(1, 3))
        for sizes in SIZES:
            known = resized(expr, sizes)
            low, high = [None if n is None else at(n, sizes) for n in expr.limits]
            extents = (sizes["n"], sizes["m"], sizes["k"])
            for point in product(*map(range, extents)):
                values: dict[Iter, int] = {
                    e.iter: n
                    for e, n in zip(space(extents), point, strict=True)
                    if e.iter is not None
                }
                want = value({**{f"i{k}": n for k, n in enumerate(point)}, **sizes})
                assert evaluate(known, values) == want
                assert low is None or low <= want
                assert high is None or want <= high


def test_quotients_and_shared_factors() -> None:
    draw = random.Random(4)
    factors = (1, 2, 3, N, M, N * M, N + 1, 4 * N, N * N)
    for _ in range(200):
        number = draw.choice(factors) * draw.choice(factors) + draw.choice(factors) - 2
        by = draw.choice(factors)
        quotient, rest = divided(number, by)
        assert by * quotient + rest == number
        assert divided(by * draw.choice(factors), by)[1] == 0
        assert divided(number, shared(number, by))[1] == 0


def test_comparisons_answer_what_holds_for_all_sizes_zero_included() -> None:
    assert N >= 0
    assert N + 1 > 0
    assert not N < 0
    assert (smaller(0, N), larger(0, N), larger(N, N + M)) == (0, N, N + M)
    for question in (lambda: N > 0, lambda: N < M, lambda: N >= 2, lambda: larger(2, N)):
        with pytest.raises(Undecided):
            question()
    assert (least(N * M - N), least(N * M - N, 0), least(N + 2)) == (0, None, 3)


def test_a_spread_place_is_zero_along_an_axis_of_one_element() -> None:
    (b,) = space((named("b"),))
    place = broadcast(b, N)
    assert place is not b
    assert within(place, N)
    assert not within(b, N)
    assert resized(place, {"n": 1, "b": 7}) is const(0)
    assert resized(place, {"n": 7, "b": 7}) is iterator("i0", 7)
    assert resized(place, {"n": 7, "b": 1}) is const(0)
    assert names_of(place) == ["n", "b"]


def test_inverses_undo_for_every_size() -> None:
    draw = random.Random(5)
    found = 0
    for _ in range(300):
        base = draw.choice(BASES)
        shape, index, _ = movements(draw, base)
        back = inverse(index, space(shape), base)
        if back is not None:
            found += 1
            assert compose(index, bindings(space(shape), back)) == space(base)
    assert found > 60


def test_guards_and_witnesses() -> None:
    assert Guard(A, N).is_true
    assert Guard(A - N, N).is_false
    assert Guard(A, 0).is_false
    assert not Guard(A, M).is_true
    assert not Guard(A, M).is_false
    a, b = space((N, N))
    point = witness((a, b), (b, a))
    assert point is not None
    assert {i.name: n for i, n in point.items()} == {"n": 5, "i0": 0, "i1": 1}
    assert evaluate(a * N + b, point) == 1
    assert witness((a, b), (a, b)) is None
