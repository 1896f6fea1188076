"""Every rule on the samples of its op: decompositions compute the same, derivatives are slopes.

A new rule is tested here without being named. Where samples touch a kink, or the op draws random
numbers, the op is listed with the reason.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from pirkit.diag.errors import ConstraintError
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import RANDOM, OpDef, decompose, vjp
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call, calls, sample_dtypes, table
from tests.prim.differentiation import Array
from tests.prim.rule_checks import (
    Program,
    complex_calls,
    derivative,
    differences,
    float_calls,
    gradient,
    height,
    program_of,
    real_parts,
    runner,
)
from tests.tolerance import difference

NOT_SMOOTH: Final[dict[str, str]] = {
    **{
        f"pd_op.{n}": "not every change of an element leaves it a function: test_factorizations.py"
        for n in ("cholesky", "qr", "svd", "eigh", "eigvalsh")
    },
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
    "pd_op.warpctc": "its derivative is a result, which unrolls the steps: see test_ctc.py"
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
"""Elements up to which differences are taken; bigger samples cost more than they tell."""


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
    for call in float_calls(definition):
        compare_with_differences(call, order)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("definition", COMPLEX, ids=name)
def test_a_derivative_to_complex_numbers_is_the_slope(definition: OpDef, order: int) -> None:
    for call in complex_calls(definition):
        compare_with_differences(call, order)


def compare_with_differences(call: Call, order: int) -> None:
    inputs = [a for v in call.args if v is not None for a in (v if isinstance(v, list) else [v])]
    p = program_of(call)
    coarse = any(v.dtype not in (dt.float64, dt.complex128) for v in (*p.smooth, *p.wrt))
    if coarse or sum(a.size for a in inputs) > LARGEST or not p.smooth or not p.wrt:
        return
    found = runner(p, derivative(p, order))(inputs)
    below = program_of(call)
    run = runner(below, [height(below, order)])
    numeric = differences(lambda moved: float(run(moved)[0]), inputs, constant=p.constant)
    for exact, slope in zip(found, numeric, strict=True):
        np.testing.assert_allclose(exact, slope, rtol=2e-5, atol=2e-6, err_msg=str(call))


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
