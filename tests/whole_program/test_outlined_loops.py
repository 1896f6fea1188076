"""Loops that are alike are written once, and called with other places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pirkit import ops
from pirkit.lowering.whole_program import batch_lanes
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.lane_tiling import tile_width
from pirkit.runtime.native.target import host
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    step,
    step_arguments,
)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is handed to LLVM."""
    found: list[str] = []
    made = batch_lanes.Draft

    def draft(text: str, *rest: Any) -> Any:
        found.append(text)
        return made(text, *rest)

    monkeypatch.setattr(batch_lanes, "Draft", draft)
    monkeypatch.setenv("PIRKIT_NATIVE_CACHE", "off")
    return found


def check(function: Any, arguments: Any) -> None:
    program = batch_lane_program(graph(function, arguments), host())
    assert_close(program(*leaves_of(arguments)), expected(function, arguments), 2e-5)


def normal(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype("float32") * 0.5


def test_more_layers_of_one_shape_are_no_more_functions(texts: list[str]) -> None:
    def functions(sizes: tuple[int, ...]) -> int:
        texts.clear()
        check(step, step_arguments(70, sizes))
        return sum(text.count("define internal") for text in texts)

    few = functions((1, 9, 9, 9, 9, 1))
    assert few > 0
    assert functions((1, 9, 9, 9, 9, 9, 9, 1)) == few


def test_more_terms_of_a_gradient_are_no_more_code(texts: list[str]) -> None:
    """Of a layer that is applied to more derivatives."""

    def reductions(terms: int) -> str:
        def function(x: Any, w: Any) -> Any:
            made = ops.matmul(x, w)
            pairs = [(ops.tanh(made * (k + 1.0)), ops.sin(made + k)) for k in range(terms)]
            sums = [ops.matmul(a, b, transpose_x=True) for a, b in pairs]
            return sum(sums[1:], start=sums[0])

        texts.clear()
        check(function, (normal(300, 3), normal(3, 7)))
        functions = "".join(texts).split("define ")
        (found,) = [f for f in functions if "load i64" in f and "fmuladd" in f]
        return found.partition("(")[2]

    assert reductions(5) == reductions(3)


def test_sums_of_rows_share_a_function_wherever_the_rows_are(texts: list[str]) -> None:
    """Those of the biases of a network's layers."""

    def sums(terms: int) -> int:
        def function(x: Any, w: Any) -> Any:
            made = ops.matmul(x, w)
            return [ops.tanh(made * (k + 1.0)).sum(axis=0) for k in range(terms)]

        texts.clear()
        check(function, (normal(300, 3), normal(3, 7)))
        functions = "".join(texts).split("define ")
        return sum("fadd" in f and "fmuladd" not in f and "@llvm.fma." not in f for f in functions)

    assert sums(5) == sums(3)


def test_moments_wait_for_their_gradients(texts: list[str]) -> None:
    """Nothing runs before the points if only the update of the weights reads it."""
    check(step, step_arguments(601, (1, 6, 1)))
    assert len(texts) == 2


def test_what_points_read_is_there_before_them(texts: list[str]) -> None:
    def function(x: Any, w: Any, c: Any) -> Any:
        scaled, shift = w * 0.5, ops.exp(c)
        made = ops.matmul(x, scaled)
        return (made + shift).mean(), scaled + shift, shift * 2.0, w - (made * made).mean()

    check(function, (normal(700, 3), normal(3, 4), normal(1)))
    assert len(texts) == 3


def test_chains_of_operations_call_nothing(texts: list[str]) -> None:
    check(lambda x: ops.tanh(x * 3.0) + x, (normal(40, 1),))
    assert not any("define internal" in text for text in texts)


@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_one_column_are_no_products(texts: list[str], transposed: bool) -> None:
    w = normal(7, 1) if transposed else normal(1, 7)
    check(lambda x, w, v: ops.matmul(ops.tanh(ops.matmul(x, w, transpose_y=transposed)), v),
          (normal(33, 1), w, normal(7, 2)))  # fmt: skip
    check(lambda x, w: ops.matmul(x, w, transpose_y=transposed), (normal(33, 1), w))


@pytest.mark.parametrize("rows", [1, 3, 5, 11])
@pytest.mark.parametrize(("inner", "columns"), [(2, 1), (17, 23)])
def test_rows_that_are_multiplied_by_one_matrix(rows: int, inner: int, columns: int) -> None:
    def function(x: Any, w: Any) -> Any:
        made = [ops.matmul(ops.tanh(x * float(k + 1)), w) for k in range(rows)]
        return made[0], made[-1], sum(m * m for m in made)

    check(function, (normal(35, inner), normal(inner, columns)))


def test_weights_that_are_read_again_are_not_written_in_place() -> None:
    """Loops over weights follow each other: what one writes in place no later one may read."""

    def update(x: Any, p: Any, q: Any) -> Any:
        mean = ops.matmul(x, p).mean()
        return q * mean, p + mean, p * mean, q - mean

    arguments = normal(600, 3), normal(3, 4), normal(3, 4) * 2.0
    native = batch_lane_program(graph(update, arguments))
    wanted = native(*arguments)
    for result, source in itertools.product(range(4), (1, 2)):
        held = [a.copy() for a in arguments]
        results = [np.empty_like(r) for r in wanted]
        results[result] = held[source]
        native.bind(held, results)()
        for found, other in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found, other)
    for first, second in ((0, 1), (1, 0), (2, 3), (3, 2)):  # each where the other is read
        held = [a.copy() for a in arguments]
        results = [np.empty_like(r) for r in wanted]
        results[first], results[second] = held[1], held[2]
        native.bind(held, results)()
        for found, other in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found, other)


@pytest.mark.parametrize(
    ("count", "usual", "widths", "width"),
    [
        (20, 4, range(4, 6), 4),  # no remainder as it is
        (50, 4, range(4, 6), 5),  # a wider tile leaves none
        (50, 20, range(10, 21), 10),  # the largest one of at most `usual`
        (33, 4, range(4, 6), 4),  # no width leaves none
    ],
)
def test_tiles_leave_no_remainder_where_a_width_allows_it(
    count: int, usual: int, widths: range, width: int
) -> None:
    assert tile_width(count, usual, widths) == width


@pytest.mark.parametrize("widths", [(50, 35), (15, 30)])
def test_widths_of_tiles_without_a_remainder_give_the_same_numbers(widths: tuple[int, int]) -> None:
    arguments = step_arguments(70, (1, *widths, 1), "float64")
    found = batch_lane_program(graph(step, arguments))(*leaves_of(arguments))
    assert_close(found, expected(step, arguments), 1e-10)
