"""The normal form against enumeration."""

from __future__ import annotations

import random
from itertools import product

import pytest

from pirkit.index.expr import Expr, Iter, const, floor, iterator, read
from pirkit.index.index_maps import (
    Guard,
    bindings,
    compose,
    digits,
    evaluate,
    flat,
    image_size,
    inverse,
    space,
    witness,
)
from tests.index.chains import chain, table

BASES = [(2, 3, 4), (6, 4), (24,), (4, 6), (12, 2), (2, 2, 6)]

REWRITE_RULES = {
    "unit iterators are 0": (iterator("u", 1), const(0)),
    "a number over its range": (floor(iterator("i", 8), 8), const(0)),
    "digits put together": (flat(digits(iterator("i", 24), (2, 3, 4)), (2, 3, 4)), "i24"),
    "digits of a number put together": (digits(flat(space((4, 6)), (4, 6)), (4, 6))[1], "i1"),
    "floors of floors": (floor(floor(iterator("i", 24), 2), 3), floor(iterator("i", 24), 6)),
    "a low part that is too small": (
        floor(iterator("i", 4) * 8 + iterator("j", 8), 16),
        floor(iterator("i", 4), 2),
    ),
    "common factors": (floor(iterator("i", 9) * 6, 4), floor(iterator("i", 9) * 3, 2)),
    "reflections": (floor(7 - iterator("i", 8), 4), 1 - floor(iterator("i", 8), 4)),
    "halves": (floor(iterator("i", 8) + 1, 2), iterator("i", 8) - floor(iterator("i", 8), 2)),
    "a remainder of a remainder": (iterator("i", 24) % 12 % 4, iterator("i", 24) % 4),
}


@pytest.mark.parametrize("name", REWRITE_RULES)
def test_laws_hold_by_identity(name: str) -> None:
    left, right = REWRITE_RULES[name]
    if isinstance(right, str):
        right = iterator("i", 24) if right == "i24" else space((4, 6))[1]
    assert left is right


@pytest.mark.parametrize("seed", range(3))
def test_equal_chains_are_one_object_and_different_ones_are_two(seed: int) -> None:
    draw = random.Random(seed)
    by_table: dict[object, object] = {}
    by_form: dict[object, object] = {}
    equal = missed = 0
    for _ in range(1000):
        base = draw.choice(BASES)
        shape, index = chain(draw, base)
        key = (base, shape, table(shape, index))
        assert by_form.setdefault((base, shape, index), key) == key  # sound: no exception
        if key in by_table:
            equal += 1
            missed += by_table[key] != index
        by_table.setdefault(key, index)
    assert equal > 200
    assert missed <= equal // 100


def random_expr(draw: random.Random, iters: list[Expr], depth: int) -> tuple[Expr, str]:
    """An expression, and the same as Python code for the oracle's sake."""
    if depth == 0:
        chosen = draw.choice(iters)
        return chosen, repr(chosen)
    left, text = random_expr(draw, iters, depth - 1)
    kind = draw.choice("+-*/%")
    if kind in "+-":
        right, other = random_expr(draw, iters, depth - 1)
        return (left + right if kind == "+" else left - right), f"({text}{kind}{other})"
    n = draw.randint(2, 7)
    if kind == "*":
        return left * (n - 4), f"({text}*{n - 4})"
    return (left // n if kind == "/" else left % n), f"({text}{'//' if kind == '/' else kind}{n})"


def value(text: str, point: dict[str, int]) -> int:
    """What the code says: integers, + - * // % and names, left to right by brackets."""
    import ast

    def walk(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            return int(str(node.value))
        if isinstance(node, ast.Name):
            return point[node.id]
        if isinstance(node, ast.UnaryOp):
            return -walk(node.operand)
        assert isinstance(node, ast.BinOp)
        a, b = walk(node.left), walk(node.right)
        match node.op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv():
                return a // b
            case _:
                return a % b

    return walk(ast.parse(text, mode="eval").body)


def test_simplified_expressions_have_the_values_and_bounds_of_what_was_written() -> None:
    draw = random.Random(1)
    for _ in range(400):
        extents = [draw.randint(2, 7) for _ in range(3)]
        iters = list(space(extents))
        expr, text = random_expr(draw, iters, draw.randint(1, 4))
        for point in product(*map(range, extents)):
            named = {f"i{k}": n for k, n in enumerate(point)}
            at: dict[Iter, int] = {
                e.iter: n for e, n in zip(iters, point, strict=True) if e.iter is not None
            }
            found = evaluate(expr, at)
            assert found == value(text, named), text
            assert expr.bounds[0] <= found <= expr.bounds[1], text


def test_inverses_undo() -> None:
    draw = random.Random(2)
    found = 0
    for _ in range(500):
        base = draw.choice(BASES)
        shape, index = chain(draw, base)
        here = space(shape)
        back = inverse(index, here, base)
        is_bijective = len(set(table(shape, index))) == len(table(shape, index)) == 24
        if back is None:
            continue
        assert is_bijective
        assert compose(index, bindings(here, back)) == space(base)
        found += 1
    assert found > 100


def test_a_map_that_repeats_or_leaves_out_elements_has_no_inverse() -> None:
    (i,) = space((4,))
    assert inverse((i % 2,), (i,), (2,)) is None
    assert inverse((i * 2,), (i,), (8,)) is None
    assert inverse((i, i), (i,), (2, 2)) is None


def test_reads_are_equal_if_tensor_and_place_are() -> None:
    i, j = space((4, 5))
    assert read(0, (i,), 7) is read(0, (i,), 7)
    assert read(0, (i,), 7) is not read(0, (j,), 7)
    assert read(1, (i,), 7) is not read(0, (i,), 7)
    assert floor(read(0, (i,), 7), 7) is const(0)


def test_a_witness_is_a_point_where_maps_differ() -> None:
    i, j = space((8, 8))
    point = witness((i, j), (j, i))
    assert point is not None
    assert evaluate(i, point) != evaluate(j, point)
    assert witness((i, j), (i, j)) is None


def test_guards_know_what_always_or_never_holds() -> None:
    (i,) = space((4,))
    assert Guard(i, 4).is_true
    assert Guard(i - 4, 4).is_false
    assert not Guard(i - 1, 4).is_true
    assert not Guard(i - 1, 4).is_false


def test_images_are_counted() -> None:
    i, j = space((4, 6))
    assert image_size((i, j), (4, 6)) == 24
    assert image_size((i, const(0)), (4, 6)) == 4
    assert image_size((j,), (6,)) == 6


def test_what_is_printed_does_not_depend_on_what_was_made_before() -> None:
    late, early = iterator("made_b", 5), iterator("made_a", 5)
    floors = floor(late + 1, 3), floor(early + 1, 3)
    assert repr(late + early) == "made_a + made_b"
    assert repr(floors[0] + floors[1]) == "(made_a + 1) / 3 + (made_b + 1) / 3"
    assert list(witness((late,), (early,)) or {}) == [early.iter, late.iter]
