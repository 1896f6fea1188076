"""Sums of products with a common factor become one product."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.factor_common_matmuls import without_common_factors
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    network,
    step_arguments,
)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def over(a: Any, b: Any) -> Any:
    return ops.matmul(a, b, transpose_x=True)


mm = ops.matmul
ROWS = (normal(35, 4), normal(35, 4)[::-1].copy(), normal(4, 5), normal(35, 5))

CASES: dict[str, tuple[Any, dict[str, int]]] = {
    "rows with the same weights": (
        lambda a, b, w, z: mm(a, w) + mm(b, w),
        {"matmul": 1, "add": 1},
    ),
    "sums over the same rows": (
        lambda a, b, w, z: over(z, a) + over(z, b) + over(z, ops.tanh(a)),
        {"matmul": 1, "add": 2},
    ),
    "sums of rows": (
        lambda a, b, w, z: mm(a, w).sum(0) + z.sum(0),
        {"sum": 1, "add": 1},
    ),
    "layer by layer": (
        lambda a, b, w, z: (
            over(z, mm(z * mm(a, w), w, transpose_y=True) * a)
            + over(z, mm(z * mm(b, w), w, transpose_y=True) * a)
        ),
        {"matmul": 3, "add": 1, "multiply": 2},
    ),
    "among other terms": (
        lambda a, b, w, z: z + mm(a, w) + (ops.exp(z) + mm(b, w)) + z,
        {"matmul": 1, "add": 4},
    ),
    "factors by turns": (
        lambda a, b, w, z: mm(a, w) * z + z * ops.exp(mm(b, w)) + mm(b, w),
        {"multiply": 1},
    ),
    "a square": (lambda a, b, w, z: mm(a, w) + z * z + mm(b, w) * z, {"multiply": 1, "add": 2}),
    "other weights": (
        lambda a, b, w, z: mm(a, w) + mm(b, ops.tanh(w)),
        {"matmul": 2, "add": 1},
    ),
    "factors at other places": (
        lambda a, b, w, z: over(a, b) + over(b, a),
        {"matmul": 2, "add": 1},
    ),
    "what others read": (
        lambda a, b, w, z: (lambda p, q: (p, p + q))(mm(a, w), mm(b, w)),
        {"matmul": 2, "add": 1},
    ),
    "a shift": (
        lambda a, b, w, z: ops.scale(mm(a, w), 2.0, 1.0) + ops.scale(z, 2.0, 1.0),
        {"scale": 2},
    ),
    "no products": (lambda a, b, w, z: a * 0.5 + b * 0.5, {"scale": 2, "add": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_taken_out(name: str) -> None:
    function, left = CASES[name]
    before = graph(function, ROWS)
    found = Counter(op.name for op in without_common_factors(before).ops)
    assert {k: found[k] for k in left} == left
    wanted = expected(function, ROWS)
    assert_close(batch_lane_program(graph(function, ROWS))(*ROWS), wanted, 2e-5)


def test_two_directions_have_one_reverse_pass() -> None:
    """Of 2 hidden layers: the value, `uxx` and its root, and `ut` in the row of `uxx`."""

    def heat(params: Any, x: Any, along: Any, later: Any) -> Any:
        zero = ops.full_like(x, 0.0)
        _, (_, uxx) = pirkit.jet(lambda y: network(params, y), (x,), ((along, zero),))
        _, (ut,) = pirkit.jet(lambda y: network(params, y), (x,), ((later,),))
        return ((ut - uxx) ** 2).mean()

    params, x = step_arguments(9, (2, 6, 6, 6, 1))[0], normal(35, 2)
    along, later = np.zeros_like(x), np.zeros_like(x)
    along[:, 0], later[:, 1] = 1, 1
    arguments = (params, x, along, later)
    made = without_common_factors(graph(pirkit.value_and_grad(heat), arguments))
    square = made.metas[made.inputs[2]]
    wide = [op for op in made.ops if op.name == "matmul" and made.metas[op.args[1]] == square]
    backward = [op for op in wide if op.attrs["transpose_y"]]
    assert (len(wide) - len(backward), len(backward)) == (6, 6)
    program = batch_lane_program(graph(pirkit.value_and_grad(heat), arguments))
    assert_close(
        program(*leaves_of(arguments)), expected(pirkit.value_and_grad(heat), arguments), 2e-5
    )


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45], np.float32)


def test_without_products_special_numbers_are_those_of_numpy() -> None:
    a, b, f = (v.reshape(-1).copy() for v in np.meshgrid(SPECIAL, SPECIAL, SPECIAL))
    call = batch_lane_program(graph(lambda a, b, f: a * f + b * f, (a, b, f)))
    with np.errstate(all="ignore"):
        wanted = a * f + b * f
    (found,) = call(a, b, f)
    np.testing.assert_array_equal(found, wanted)
    there = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(wanted)[there])


def test_with_products_a_factor_is_multiplied_by_the_sum() -> None:
    """What is said of zeros, infinities and overflow: it may differ, as the sum comes first."""
    one = np.ones((1, 1), np.float32)
    a, b, f = (v.reshape(-1, 1).copy() for v in np.meshgrid(SPECIAL, SPECIAL, SPECIAL))
    call = batch_lane_program(graph(lambda a, b, f, w: mm(a, w) * f + mm(b, w) * f, (a, b, f, one)))
    with np.errstate(all="ignore"):
        together, separate = (a + b) * f, a * f + b * f
    (found,) = call(a, b, f, one)
    np.testing.assert_array_equal(found, together)
    same = np.isfinite(together) & np.isfinite(separate)
    assert not same.all()
    np.testing.assert_allclose(found[same], separate[same], rtol=1e-6)
