"""Every rule on the samples of its op: decompositions compute the same, derivatives are slopes.

A new rule is tested here without being named. Where samples touch a kink, or the op draws random
numbers, the op is listed with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import numpy as np
import pytest
from xdsl.rewriter import Rewriter

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import RANDOM, OpDef, decompose, lookup, vjp
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN
from tests.ops.calls import Call, arrays, calls, sample_dtypes, table
from tests.prim.differentiation import Array, Shape
from tests.prim.rule_checks import (
    Program,
    complex_calls,
    derivative,
    difference_along,
    differences,
    directions,
    float_calls,
    gradient,
    height,
    in_double,
    program_of,
    real_parts,
    runner,
)
from tests.prim.test_closed import OPAQUE, is_refused
from tests.tolerance import difference

NOT_SMOOTH: Final[dict[str, str]] = {
    **{
        f"pd_op.{n}": "not every change of an element leaves it a function: test_factorizations.py"
        for n in ("cholesky", "qr", "svd", "eigh", "eigvalsh")
    },
    "pd_op.eig": "vectors have a phase of their own: test_factorizations.py",
    **{f"pd_op.{name}": "0 is a sample" for name in ("abs", "copysign", "heaviside")},
    "pd_op.logcumsumexp": "exclusive samples hold the least number, which weights overflow",
    "pd_op.bce_loss": "0 and 1 are samples",
    "pd_op.sigmoid_cross_entropy_with_logits": "a label to ignore is a sample",
    **{
        f"pd_op.{name}": "its kinks are samples: see test_kinks.py"
        for name in (
            "relu relu6 hardswish hardsigmoid hardtanh leaky_relu hardshrink softshrink elu celu "
            "selu thresholded_relu"
        ).split()
    },
    "pd_op.spectral_norm": "its vectors count as constants: test_spectral_norm.py",
    "pd_op.clip_by_norm": "a norm that just fits is a sample",
    "pd_op.unique_consecutive": "what is equal changes when elements change",
    "pd_op.mode": "what is most frequent changes when elements change",
    **{f"pd_op.{name}": "equal elements are samples" for name in ("cummax", "cummin")},
    **{
        f"pd_op.{name}": "integers are samples, where it jumps"
        for name in ("floor", "ceil", "trunc", "round", "sign")
    },
}
"""Ops whose samples lie where differences tell nothing."""

NEEDS_SIZES: Final = {
    "pd_op.warpctc": "its derivative is a result, which unrolls the steps: see test_ctc.py",
    "pd_op.yolo_loss": "it numbers the cells of a grid",
    "pd_op.lu_unpack": "it follows the exchanges of rows one by one",
    "pd_op.lstsq": "which results are empty depends on sizes",
}
"""Ops of which a sum of all results has no derivative without knowing sizes."""

COMPUTED = [d for d in table() if d.effects != RANDOM and not d.name.startswith("pir.")]
COMPOSITE = [d for d in COMPUTED if decompose.get(d) is not None]
DERIVED = [
    d
    for d in COMPUTED
    if (vjp.get(d) is not None or decompose.get(d) is not None)
    and d.name not in NOT_SMOOTH
    and not d.writes
]
COMPLEX = [d for d in DERIVED if dt.complex128 in d.dtypes]
LARGEST: Final = 64
"""Elements up to which differences are taken to each; beyond, they are taken along a direction."""

EXHAUSTIVE: Final = os.environ.get("PIRKIT_EXHAUSTIVE") == "1"


def has_derivative(call: Call) -> bool:
    p = in_double(program_of(call))
    return bool(p.smooth and p.wrt)


BENDS: Final = {"pd_op.softsign": "its second derivative jumps at 0, a sample"}
"""Ops whose samples lie where a second derivative jumps."""
SMOOTH_TO_THREE: Final = [
    d for d in DERIVED if d.name not in BENDS and any(map(has_derivative, float_calls(d)))
][:: 1 if EXHAUSTIVE else 3]

PINN: Final = (
    "tanh sin cos exp sigmoid gelu swish softplus erf pow matmul add multiply sum mean concat "
    "slice subtract divide log sqrt square scale reshape transpose stack expand gather bmm"
).split()


def name(definition: OpDef) -> str:
    return definition.name.partition(".")[2]


@pytest.mark.parametrize("definition", COMPOSITE, ids=name)
def test_a_decomposition_computes_what_the_reference_does(definition: OpDef) -> None:
    for dtype in sample_dtypes(definition):
        for call in calls(definition, dtype):
            p = program_of(call)
            found = p.traced.run({f"y{i}": v for i, v in enumerate(p.results)}, "decompose")
            expected = [a for v in call.compute() for a in (v if isinstance(v, list) else [v])]
            wanted = [a for a in expected if a is not None]
            for i, array in enumerate(wanted):
                wrong = difference(found[f"y{i}"], array)
                assert wrong is None, f"{call}: {wrong}"


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("definition", DERIVED, ids=name)
def test_a_derivative_is_the_slope_of_the_order_below(definition: OpDef, order: int) -> None:
    for call in (c for c in float_calls(definition) if not is_refused(c, OPAQUE)):
        compare_with_differences(call, order)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("definition", COMPLEX, ids=name)
def test_a_derivative_to_complex_numbers_is_the_slope(definition: OpDef, order: int) -> None:
    for call in complex_calls(definition):
        compare_with_differences(call, order)


@pytest.mark.parametrize("definition", SMOOTH_TO_THREE, ids=name)
def test_a_third_derivative_is_the_slope_of_the_second(definition: OpDef) -> None:
    """Along one direction, every third op on a small sample; all with `PIRKIT_EXHAUSTIVE=1`."""
    for call in smallest(definition, None if EXHAUSTIVE else 1):
        compare_along_a_direction(call, 3, bend=True)


@pytest.mark.parametrize("short", PINN)
def test_a_fourth_derivative_is_the_slope_of_the_third(short: str) -> None:
    """Ops of networks that solve differential equations, along one direction."""
    for call in smallest(lookup(f"pd_op.{short}"), None if EXHAUSTIVE else 2):
        compare_along_a_direction(call, 4, bend=True)


def compare_with_differences(call: Call, order: int) -> None:
    """Element by element, or for many elements along one direction."""
    p = in_double(program_of(call))
    inputs = p.traced.inputs
    if not p.smooth or not p.wrt:
        return
    if sum(a.size for a in inputs) > LARGEST:
        compare_along_a_direction(call, order)
        return
    found = runner(p, derivative(p, order))(inputs)
    below = in_double(program_of(call))
    run = runner(below, [height(below, order)])
    numeric = differences(lambda moved: float(run(moved)[0]), inputs, constant=p.constant)
    for exact, slope in zip(found, numeric, strict=True):
        np.testing.assert_allclose(exact, slope, rtol=2e-5, atol=2e-6, err_msg=str(call))


def compare_along_a_direction(call: Call, order: int, *, bend: bool = False) -> None:
    """One number for all elements: each has a weight of its own in it."""
    p = in_double(program_of(call))
    inputs = p.traced.inputs
    if not p.smooth or not p.wrt:
        return
    ways = directions(inputs, p.constant, np.random.default_rng(order))
    found = runner(p, derivative(p, order, bend=bend))(inputs)
    terms = [(g * w.conj()).real for g, w in zip(found, ways, strict=True)]
    below = in_double(program_of(call))
    run = runner(below, [height(below, order, bend=bend)])
    slope = difference_along(lambda moved: float(run(moved)[0]), inputs, ways, p.constant)
    bound = 2e-6 + 1e-5 * sum(float(np.abs(t).sum()) for t in terms)
    np.testing.assert_allclose(
        sum(t.sum() for t in terms), slope, rtol=1e-5, atol=bound, err_msg=str(call)
    )


def smallest(definition: OpDef, most: int | None) -> list[Call]:
    """The calls with the fewest elements, but those with hardly any last."""
    found = [*float_calls(definition)]
    sizes = [sum(a.size for a in arrays(call.args)) for call in found]
    order = sorted(range(len(found)), key=lambda i: (sizes[i] < 4, sizes[i]))
    return [found[i] for i in order[:most]]


@pytest.mark.parametrize("definition", COMPOSITE, ids=name)
def test_a_decomposition_does_not_need_to_know_sizes(definition: OpDef) -> None:
    for call in float_calls(definition):
        known, unknown = program_of(call), unknowing(call)
        if unknown is None:
            continue
        inputs = known.traced.inputs
        first, second = (
            runner(p, p.results, "decompose")([a.copy() for a in inputs]) for p in (known, unknown)
        )
        for one, other in zip(first, second, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=str(call))


@pytest.mark.parametrize("definition", COMPOSITE, ids=name)
def test_some_sizes_may_be_known(definition: OpDef) -> None:
    """Of each call three kinds: a dimension, a tensor, or an axis of all tensors is unknown."""
    rng = np.random.default_rng(5)
    for call in float_calls(definition):
        known = program_of(call)
        inputs = known.traced.inputs
        wanted = runner(known, known.results)([a.copy() for a in inputs])
        for shapes in partly_known([a.shape for a in inputs], rng):
            with suppress(ConstraintError):  # the op needs to know a size to be typed
                p = program_of(call, known=shapes)
                found = runner(p, p.results, "@default")([a.copy() for a in inputs])
                for one, other in zip(wanted, found, strict=True):
                    told = f"{call} {shapes}"
                    assert one.shape == other.shape, told
                    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-12, err_msg=told)


def partly_known(shapes: list[Shape], rng: np.random.Generator) -> Iterator[list[Shape]]:
    places = [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]
    if places:
        i, axis = places[rng.integers(len(places))]
        yield hidden(shapes, lambda k, a: (k, a) == (i, axis))
        yield hidden(shapes, lambda k, a: k == i)
        yield hidden(shapes, lambda k, a: a == axis)


def hidden(shapes: list[Shape], hides: Callable[[int, int], bool]) -> list[Shape]:
    return [
        tuple([UNKNOWN if hides(k, a) else n for a, n in enumerate(shape)])
        for k, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("definition", DERIVED, ids=name)
def test_a_derivative_does_not_need_to_know_sizes(definition: OpDef) -> None:
    if definition.name in NEEDS_SIZES:
        pytest.skip(NEEDS_SIZES[definition.name])
    for call in float_calls(definition):
        found: list[list[Array]] = []
        for p in (program_of(call), unknowing(call) or program_of(call)):
            if p.smooth and p.wrt:
                found.append(runner(p, gradient(p, curved(p)), "decompose")(p.traced.inputs))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-12, err_msg=str(call))


@pytest.mark.parametrize("definition", DERIVED, ids=name)
def test_a_derivative_has_the_sizes_of_inputs_where_only_results_are_known(
    definition: OpDef,
) -> None:
    """What reads a result may know its sizes, so that a cotangent has sizes that an input lacks."""
    rng = np.random.default_rng(11)
    for call in islice(float_calls(definition), 6):
        known = program_of(call)
        if definition.name in NEEDS_SIZES or not (known.smooth and known.wrt):
            continue
        inputs = known.traced.inputs
        wanted = runner(known, gradient(known, curved(known)), "decompose")(inputs)
        shapes = next(partly_known([a.shape for a in inputs], rng), None)
        with suppress(ConstraintError):  # the op needs to know a size to be typed
            p = program_of(call, known=shapes or False)
            types = [r.ssa.type for r in program_of(call).results]
            told = [
                p.traced.b.wrap(Rewriter.replace_value_with_new_type(r.ssa, t))
                for r, t in zip(p.results, types, strict=True)
            ]
            p = Program(p.traced, told, p.constant)
            found = runner(p, gradient(p, curved(p)), "decompose")(inputs)
            for one, other in zip(wanted, found, strict=True):
                assert one.shape == other.shape, f"{call} {shapes}"
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-10, err_msg=str(call))


def unknowing(call: Call) -> Program | None:
    """The program of a call that knows no sizes; None if the op needs to know one to be typed."""
    try:
        return program_of(call, known=False)
    except ConstraintError:
        return None


def curved(p: Program) -> Value:
    """A number that depends on each element of each result in its own way."""
    b, parts = p.traced.b, real_parts(p, p.smooth)
    terms = [b.sum(b.cast(b.sin(v * 0.7), dt.float64), range(v.rank)) for v in parts]
    return b.total(terms) or b.const(0.0, dt.float64)
