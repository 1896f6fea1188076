"""Programs with the batch in lanes give what the reference rules give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import pirkit
from pirkit import ops
from pirkit.lowering.whole_program.batch_lanes import batch_lane_program
from pirkit.lowering.whole_program.loop_fusion import fuse_loops
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.lowering.whole_program.scheduling import schedule_of
from pirkit.runtime.native.target import host
from tests.whole_program.networks import (
    assert_close,
    expected,
    graph,
    leaves_of,
    network,
    step,
    step_arguments,
)

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def check(function: Any, arguments: Any, tolerance: float = 2e-5, bits: int | None = None) -> None:
    target = host() if bits is None else replace(host(), vector_bits=bits)
    program = batch_lane_program(graph(function, arguments), target)
    found = program(*leaves_of(arguments))
    assert_close(found, expected(function, arguments), tolerance)


def sliced(x: Any, axis: int, start: int, end: int) -> Any:
    return ops.slice(x, axes=[axis], starts=[start], ends=[end], infer_flags=[1], decrease_axis=[])


def padded(x: Any, *paddings: int) -> Any:
    return ops.pad(x, paddings=list(paddings), pad_value=0.5)


def normal(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("points", [2, 5, 16, 37, 300])
def test_a_training_step(points: int) -> None:
    check(step, step_arguments(points, (1, 5, 7, 1)))


def test_widths_that_are_as_many_as_points() -> None:
    check(step, step_arguments(5, (1, 5, 5, 1)))


@pytest.mark.parametrize("bits", [128, 256])
def test_narrow_vectors(bits: int) -> None:
    if bits <= host().vector_bits:
        check(step, step_arguments(21, (1, 6, 5, 1)), bits=bits)


def test_double_precision() -> None:
    check(step, step_arguments(19, (1, 6, 5, 1), "float64"), TOLERANCE["float64"])


def test_several_columns_of_input_and_output() -> None:
    params = step_arguments(9, (3, 13, 4))[0]
    check(network, (params, normal(33, 3)))


def test_wide_products_are_cut_into_tiles() -> None:
    check(
        lambda x, w, v: ops.matmul(ops.matmul(x, w), v, transpose_y=True),
        (normal(20, 29), normal(29, 31), normal(3, 31)),
    )


def test_products_with_one_matrix_are_one_loop() -> None:
    arguments = step_arguments(40, (1, 9, 9, 1))
    schedule = schedule_of(graph(step, arguments))
    (loops,) = fuse_loops(schedule, 16).groups
    items = [item for item in loops.body if item.first.kind == "matmul"]
    keys = [(n.op.args[1], n.op.attrs["transpose_y"]) for item in items for n in item.nodes]
    assert len(items) == len(set(keys))
    assert [keys.count(key) for key in dict.fromkeys(keys)] == [len(i.nodes) for i in items]
    assert max(len(item.nodes) for item in items) == 3


def test_products_of_rows_of_several_kinds() -> None:
    """Inputs, rows that sums read, rows that nobody else reads, results; one matrix, both ways."""

    def several(x: Any, y: Any, w: Any) -> Any:
        a, b = ops.tanh(x) * 0.5, ops.sin(y)
        found = [ops.matmul(v, w) for v in (a, b, a * b)]
        transposed = [ops.matmul(v, w, transpose_y=True) for v in (b, found[1], a + b)]
        return (
            found[0],
            found[1] + found[2],
            ops.matmul(a, sum(transposed), transpose_x=True),
            *transposed,
        )

    check(several, (normal(45, 5), normal(45, 5)[::-1].copy(), normal(5, 5)))


def test_columns_that_move() -> None:
    def parts(x: Any) -> Any:
        left = ops.slice(x, axes=[1], starts=[1], ends=[3], infer_flags=[1], decrease_axis=[])
        return (
            ops.pad(ops.tanh(left), paddings=[0, 0, 2, 1], pad_value=0.5),
            left.sum(1),
            (x * x).sum(0),
        )

    check(parts, (normal(21, 4),))


@pytest.mark.parametrize(
    ("axis", "start", "end"),
    [(1, -2, 1000), (1, -1, 4), (-1, 1, 3), (-1, -3, -1), (1, -9, 3), (-1, 2, 99), (1, -99, 99)],
)
def test_slices_count_as_numpy_does(axis: int, start: int, end: int) -> None:
    def part(x: Any) -> Any:
        return sliced(ops.tanh(x), axis, start, end) * 2.0, sliced(x, axis, start, end).sum(0)

    check(part, (normal(21, 4),))
    np.testing.assert_array_equal(
        batch_lane_program(graph(part, (normal(21, 4),)))(normal(21, 4))[1].shape,
        normal(21, 4)[:, start:end].shape[1:],
    )


def test_sums_that_are_results_and_summands() -> None:
    def sums(x: Any, y: Any) -> Any:
        a, b = x.sum(0), (x * y).sum(0)
        return a, b, a + b, x * y

    def products(x: Any, y: Any) -> Any:
        a, b = (ops.matmul(x, z, transpose_x=True) for z in (y, x * y))
        return a, a + b

    for function in (sums, products):
        check(function, (normal(21, 4), normal(21, 4) + 1))


def test_rounding_to_whole_numbers() -> None:
    check(lambda x: ops.round(x * 3.0), (normal(8, 3),))


@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
def test_powers(exponent: float) -> None:
    x = normal(40, 3) * 10.0 ** np.arange(-19, 21, dtype="float32")[:, None]
    x[0], x[1] = [0.0, -0.0, np.inf], [-np.inf, np.nan, 1.0]
    program = batch_lane_program(graph(lambda x: ops.pow(x, exponent) * 1.0, (x,)))
    with np.errstate(all="ignore"):
        wide = x.astype("float64")
        exact = np.power(wide, np.full(x.shape, exponent))  # no short cuts but the one of numpy
        exact = np.sqrt(wide) if exponent == 0.5 else exact
        wanted = exact.astype("float32")
        ulp = np.spacing(np.abs(wanted))
        found = program(x)[0]
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        assert (same | (np.abs(found - exact) <= 1.6 * ulp)).all()
    np.testing.assert_array_equal(np.signbit(found[:1]), np.signbit(wanted[:1]))


def test_sums_of_all_elements() -> None:
    check(lambda x, w: ((x * x).sum() + (w * w).sum(), w * x.sum()), (normal(21, 4), normal(3, 5)))


@pytest.mark.parametrize("points", [5, 37, 203])
def test_lanes_that_hold_no_point_do_not_count(points: int) -> None:
    x = 1 + abs(normal(points, 3))
    check(lambda x: (1.0 / x).sum(0) + ops.log(x).sum(0), (x,))
    check(lambda x: ops.matmul(ops.log(x), 1.0 / x, transpose_x=True), (x,))


def test_not_a_number_stays_one() -> None:
    x = normal(40, 3)
    x[17, 1], x[3, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        found = batch_lane_program(graph(lambda x: (x * 2.0, x.sum(0)), (x,)))(x)
    assert [np.isnan(found[0][17, 1]), np.isinf(found[0][3, 0])] == [True, True]
    assert [np.isinf(found[1][0]), np.isnan(found[1][1]), np.isfinite(found[1][2])] == [True] * 3


def test_a_result_that_is_an_input_a_constant_or_twice_the_same() -> None:
    def same(x: Any, w: Any) -> Any:
        y = ops.tanh(x)
        return x, y, y, w, ops.full_like(ops.matmul(x, x, transpose_x=True), 4.0), w.sum() * 1.0

    check(same, (normal(6, 2), normal(3)))


def test_a_chain_of_small_ops_is_one_function() -> None:
    def chain(x: Any, a: Any, b: Any) -> Any:
        for _ in range(50):
            x = x * a + b
        return x

    x, a, b = normal(16), 1 + 0.01 * normal(16), 0.01 * normal(16)
    program = batch_lane_program(graph(chain, (x, a, b)))
    assert program.summary.startswith("one function: 100 ops")
    for _ in range(50):
        x = x * a + b
    found = program(normal(16), a, b)[0]
    np.testing.assert_array_equal(found, x)  # not fused: numpy's bits


@pytest.mark.skipif(host().x86 and not host().has("fma"), reason="this CPU has no FMA")
def test_rows_of_programs_with_products_are_rounded_once() -> None:
    x, y = normal(40, 3), normal(40, 3)[::-1].copy()
    w = np.eye(3, dtype="float32")
    program = batch_lane_program(graph(lambda x, y, w: ops.matmul(x, w) * y + x, (x, y, w)))
    exact = x.astype("float64") * y + x
    np.testing.assert_array_equal(program(x, y, w)[0], exact.astype("float32"))


@pytest.mark.parametrize("points", [129, 515, 1100])
def test_vectors_in_blocks(points: int) -> None:
    """A part is some blocks of vectors and a narrower one; only the last vector has a tail."""
    check(step, step_arguments(points, (1, 9, 6, 1)), 1e-4)


@pytest.mark.parametrize("points", [40, 515, 1100])
def test_rows_of_a_block_lie_beside_each_other(points: int) -> None:
    """What sums read is there for all vectors of a block, the rest once; a page lies behind."""
    schedule = schedule_of(graph(step, step_arguments(points, (1, 9, 6, 1))))
    order = fuse_loops(schedule, 16)
    (loops,) = order.groups
    read = {v for s in schedule.sums for pair in s.terms for v in pair} & order.rows.keys()
    assert read == (order.blocks.keys() if loops.sums else set())
    places = {v: range(p, p + 64 * schedule.columns(v)) for v, p in order.rows.items()}
    for value in order.blocks:
        size = 64 * loops.column_stride * schedule.columns(value)
        places[value] = range(order.rows[value], order.rows[value] + size)
    assert max(p.stop for p in places.values()) + 4096 <= loops.scratch
    ends = [p.stop for v, p in places.items() if v not in order.blocks]
    starts = sorted((p.start, p.stop) for v, p in places.items() if v in order.blocks)
    bounds = [max(ends), *[bound for pair in starts for bound in pair]]
    assert bounds == sorted(bounds)
    assert loops.column_stride >= loops.block
    assert loops.column_stride % 2 == 1


def test_much_behind_a_slow_function_has_a_loop_of_its_own() -> None:
    def long(x: Any, w: Any) -> Any:
        z = ops.tanh(ops.matmul(x, w) * 0.5)
        for _ in range(8):
            z = z * x - z * 0.25
        return z

    check(long, (normal(50, 4), normal(4, 4)), 1e-4)


def test_updates_may_be_in_place() -> None:
    arguments = step_arguments(10, (1, 5, 7, 1))
    program = batch_lane_program(graph(step, arguments))
    arrays = leaves_of(arguments)
    wanted = program(*arrays)
    held = [a.copy() for a in arrays]
    results = [np.empty_like(r) for r in wanted]
    count = len(arguments[0]) * 2
    for k in range(count):
        results[1 + count + k] = held[k]  # weights
        results[1 + 2 * count + k] = held[count + k]  # moments
    assert {(1 + count + k, k) for k in range(2 * count)} <= program.in_place
    call = program.bind(held, results)
    call()
    for a, b in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    call()
    again = program(*[held[k] if k < 2 * count else arrays[k] for k in range(len(arrays))])
    assert not np.array_equal(wanted[0], results[0])
    assert float(again[0]) < float(results[0]) < float(wanted[0])


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (lambda x: x - x.mean(0), (normal(8, 3),), "a row depends on a sum over all rows"),
        (lambda x: ops.matmul(x, x, transpose_y=True), (normal(8, 3),), "rows read each other"),
        (lambda x: ops.tanh(x), (normal(8, 300),), "a row has 300 columns"),
        (lambda x: ops.cumsum(x, 0), (normal(8, 3),), "`cumsum` has no native form"),
        (lambda x: ops.cast(x, "float64") * 2.0, (normal(8, 3),), "element types"),
        (
            lambda x: ops.round(x, decimals=2),
            (normal(8, 3),),
            "attributes of `round` have no",
        ),
        (
            lambda x: ops.round(x.sum(0), decimals=2),
            (normal(8, 3),),
            "attributes of `round` have no",
        ),
        (
            lambda x: ops.exp(sliced(x, 0, 5, 15) * 2.0) + 1.0,
            (normal(21, 4),),
            "makes batch rows",
        ),
        (
            lambda x: ops.exp(sliced(x, -2, -10, 99) * 2.0) + 1.0,
            (normal(21, 4),),
            "makes batch rows",
        ),
        (lambda x: x[1:] - x[:-1], (normal(21, 4),), "makes batch rows"),
        (lambda x: padded(x, 1, 1, 0, 0) * 2.0, (normal(21, 4),), "makes batch rows"),
        (
            lambda x, y: padded(ops.full_like(x, 2.0), 1, 1, 0, 0) * y,
            (normal(2000, 4), normal(2002, 4)),
            "`pad` moves rows",
        ),
        (lambda x: ops.dropout(x, p=0.5), (normal(8, 3),), "random numbers"),
        (
            lambda x, w, b: ops.relu(ops.matmul(x, w) + b),
            (normal(999, 30), normal(30, 20), normal(20)),
            "little arithmetic",
        ),
    ],
)
def test_why_a_program_has_none(function: Any, arguments: Any, reason: str) -> None:
    with pytest.raises(NotNativeError, match=reason):
        batch_lane_program(graph(function, arguments))


UNARY = ("tanh", "exp", "sin", "sigmoid", "sqrt_abs", "square", "scale")


def moved(z: Any, pick: int) -> Any:
    """Some columns of rows, at other places among as many columns."""
    width = z.shape[1]
    start, end = pick % width, width + pick // 8 % 3
    spelled = start - width if pick // 64 % 2 else start
    left = pick // 128 % (start + 1)
    part = sliced(z, 1 - 2 * (pick // 1024 % 2), spelled, end)
    return padded(part, 0, 0, left, start - left)


def random_function(rng: Any, widths: tuple[int, ...], is_odd: bool = False) -> Any:
    """Some function of rows `x` and matrices `w`, and of sums over the rows.

    With ``is_odd`` also what may be refused: rows that move, numbers rounded to some decimals.
    """
    picks = rng.integers(0, 1 << 30, 48)

    def function(x: Any, y: Any, weights: Any, bias: Any) -> Any:
        rows, at = [x, y], iter(picks.tolist())
        for w, b in zip(weights, bias, strict=True):
            same = [r for r in rows if r.shape[1] == w.shape[0]]
            z = ops.matmul(same[next(at) % len(same)], w)
            z = z + b if next(at) % 2 else z * b
            match UNARY[next(at) % len(UNARY)]:
                case "sqrt_abs":
                    z = ops.sqrt(ops.abs(z) + 0.25)
                case "square":
                    z = z * z * 0.125
                case "scale":
                    z = ops.scale(z, 0.75, 0.5, bool(next(at) % 2))
                case name:
                    z = getattr(ops, name)(z * 0.5)
            equal = [r for r in rows if r.shape[1] in (1, z.shape[1])]
            if equal and next(at) % 2:
                z = z * equal[next(at) % len(equal)] - z.sum(1, keepdim=True) * 0.1
            if next(at) % 2:
                z = z + moved(z, next(at))
            if is_odd:
                pick, points = next(at), z.shape[0]
                match pick % 4:
                    case 0:
                        z = ops.round(z, decimals=pick // 4 % 3)
                    case 1:
                        z = padded(sliced(z, pick // 4 % 2 * -2, -points + 1, points), 0, 1, 0, 0)
                    case 2:
                        z = padded(sliced(z, 0, 0, -1), 1, 0, 0, 0) * z
                    case _:
                        z = z * sliced(z, 0, pick // 4 % points, points).sum(0)
            rows.append(z)
        last = rows[-1]
        inner = ops.matmul(rows[next(at) % len(rows)], last, transpose_x=True)
        total = inner + ops.matmul(rows[next(at) % 2], last, transpose_x=True).sum()
        a, b = (last * last).sum(0), last.sum(0)
        sums = [(a, a + b), (a + b, b), (a, b, a + b), (a + b,)][next(at) % 4]
        return last, total, ops.tanh(total * 0.01) * total, last.sum(), *sums

    return function


def random_case(seed: int, is_odd: bool) -> tuple[Any, Any]:
    """A function and its arguments."""
    rng = np.random.default_rng(seed)
    widths = tuple(rng.integers(1, 9, 4).tolist())
    points = int(rng.integers(2, 60))
    shapes = [(widths[0], widths[1]), (widths[1], widths[2]), (widths[2], widths[3])]
    weights = [rng.standard_normal(s).astype("float32") for s in shapes]
    bias = [rng.standard_normal(s[1]).astype("float32") for s in shapes]
    x, y = (rng.standard_normal((points, w)).astype("float32") for w in (widths[0], 1))
    return random_function(rng, widths, is_odd), (x, y, weights, bias)


@pytest.mark.parametrize("seed", range(14))
def test_random_programs(seed: int) -> None:
    check(*random_case(seed, False), 1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_agree_or_are_refused(seed: int) -> None:
    function, arguments = random_case(seed, True)
    try:
        program = batch_lane_program(graph(function, arguments))
    except NotNativeError:
        return
    assert_close(program(*leaves_of(arguments)), expected(function, arguments), 1e-4)


def test_gradients_of_a_field_with_two_coordinates() -> None:
    def burgers(params: Any, x: Any, along: Any, later: Any) -> Any:
        zero = ops.full_like(x, 0.0)
        u, (ux, uxx) = pirkit.jet(lambda y: network(params, y), (x,), ((along, zero),))
        _, (ut,) = pirkit.jet(lambda y: network(params, y), (x,), ((later,),))
        return ((ut + u * ux - uxx * 0.003) ** 2).mean()

    params = step_arguments(9, (2, 6, 6, 1))[0]
    x = normal(35, 2)
    along, later = np.zeros_like(x), np.zeros_like(x)
    along[:, 0], later[:, 1] = 1, 1
    check(pirkit.value_and_grad(burgers), (params, x, along, later))
