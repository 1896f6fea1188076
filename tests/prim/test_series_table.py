"""The series of every op against nested reverse mode, on the samples of the op table.

A new op has a series, or is listed with the reason.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

from pirkit.diag.errors import UnsupportedError
from pirkit.dialect.build import Value
from pirkit.dialect.opdef import OpDef
from pirkit.dialect.series_algebra import powers
from pirkit.passes.taylor_series import prepared, push
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call
from tests.prim.differentiation import Traced
from tests.prim.rule_checks import (
    DOUBLE,
    Program,
    bent,
    constants_of,
    emitted,
    float_calls,
    runner,
    tensors_of,
    weighted,
)
from tests.prim.test_rules import DERIVED, EXHAUSTIVE, smallest

ORDER: Final = 4 if EXHAUSTIVE else 3

NO_SERIES: Final[dict[str, str]] = {
    **dict.fromkeys(("eigvals", "lstsq", "svdvals", "lu"), "factors of matrices"),
    **dict.fromkeys(
        ("segment_pool", "send_u_recv", "send_ue_recv", "put_along_axis"),
        "extrema and products of what is written to one place",
    ),
    "prod": "a product of no elements",
}
"""Ops of which some call has no series: `jet` says so, `jvp` and `grad` work."""


def along_a_line(call: Call) -> tuple[Program, Value, Value] | None:
    """A number that depends on all results of a call whose operands move along a line, and on t."""
    rng = np.random.default_rng(7)
    traced = Traced([np.zeros(()), *tensors_of(call)])
    t, *args = traced.args
    constant = constants_of(call)
    for i, x in enumerate(args):
        if x.dtype is dt.float64 and i not in constant:
            draws = [float(v) for v in rng.uniform(-1, 1, x.meta.numel)]
            args[i] = x + t * traced.b.assign_value(shape=x.shape, dtype=x.dtype, values=draws)
    results = [r for r in emitted(call, traced.b, args) if r.dtype in DOUBLE]
    p = Program(traced, results)
    return (p, weighted(p, bent(p), rng), t) if p.smooth else None


def nested(call: Call) -> list[float]:
    found = along_a_line(call)
    assert found is not None
    p, value, t = found
    values: list[Value] = []
    while len(values) < ORDER:
        (slope,) = p.traced.grad(value, [t])
        value = p.traced.b.const(0.0, dt.float64) if slope is None else slope
        values.append(value)
    return [float(a) for a in runner(p, values)(p.traced.inputs)]


def by_series(call: Call) -> list[float]:
    found = along_a_line(call)
    assert found is not None
    p, value, t = found
    b = p.traced.b
    ops, (target,) = prepared([value.ssa], [t.ssa])
    start = {t.ssa: [b.ones_like(t), *[None] * (ORDER - 1)]}
    series = push(b, ops, start, powers(ORDER)).get(target, [None] * ORDER)
    zero = b.const(0.0, dt.float64)
    values = [zero if v is None else v * math.factorial(k) for k, v in enumerate(series, 1)]
    return [float(a) for a in runner(p, values)(p.traced.inputs)]


@pytest.mark.parametrize(
    "definition", DERIVED[:: 1 if EXHAUSTIVE else 3], ids=lambda d: d.name.partition(".")[2]
)
def test_a04_a_series_is_what_nested_sweeps_give(definition: OpDef) -> None:
    """Orders 1 to 3, every third op on a small sample.

    With `PIRKIT_EXHAUSTIVE=1` orders 1 to 4 of all samples of all ops.
    """
    for call in smallest(definition, None if EXHAUSTIVE else 1):
        if along_a_line(call) is None:
            continue
        try:
            found = by_series(call)
        except UnsupportedError:
            assert definition.name.partition(".")[2] in NO_SERIES
            continue
        expected = nested(call)
        scale = 1 + np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * scale, err_msg=str(call))


@pytest.mark.parametrize("short", NO_SERIES)
def test_what_is_listed_has_no_series(short: str) -> None:
    (definition,) = [d for d in DERIVED if d.name == f"pd_op.{short}"]
    calls = [c for c in float_calls(definition) if along_a_line(c) is not None]
    assert any(map(lacks_a_series, calls))


def lacks_a_series(call: Call) -> bool:
    try:
        by_series(call)
    except UnsupportedError:
        return True
    return False
