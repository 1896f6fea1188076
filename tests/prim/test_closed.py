"""Closedness over the whole table and the whole corpus: after `decompose` there are primitives.

What `verify-primitive` lets through runs on primitive kernels alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from pirkit.dialect.opdef import OpDef, decompose
from pirkit.dialect.primitives import PRIMITIVES
from pirkit.frontend.cases import check_case
from tests.ops.calls import Call, arrays, table
from tests.prim.rule_checks import complex_calls, derivative, finish, float_calls, program_of

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "paddle"
CASES: Final = sorted(p for p in CORPUS.iterdir() if p.is_dir())
PIPELINE: Final = "functionalize,decompose,verify-primitive"

RULED: Final = [
    d for d in table() if not d.writes and (d.name in PRIMITIVES or decompose.get(d) is not None)
]
EXHAUSTIVE: Final = os.environ.get("PIRKIT_EXHAUSTIVE") == "1"
PARTS: Final = 8
OPAQUE: Final = frozenset({("pd_op.warpctc", "norm_by_times", True)})
"""Calls that are not decomposed, because their gradient op is not the derivative of the result."""
REFUSED: Final = OPAQUE | {
    ("pd_op.svd", "full_matrices", True),
    ("pd_op.qr", "mode", "complete"),
    ("pd_op.qr", "mode", "r"),
}
"""Calls that have no derivative: parts of their results are not unique, or missing."""
REAL: Final = frozenset({"pd_op.svd"})
"""Ops that have a derivative of real numbers only."""


def name(definition: OpDef) -> str:
    return definition.name.partition(".")[2]


def is_refused(call: Call, refused: Container[tuple[str, str, Any]] = REFUSED) -> bool:
    return any((call.definition.name, n, v) in refused for n, v in call.attrs.items() if _plain(v))


def _plain(value: object) -> bool:
    return isinstance(value, str | bool)


def test_a18_no_op_is_opaque() -> None:
    """What is neither a primitive nor decomposed is a gradient op, which its forward op serves."""
    others = {d.name for d in table() if d.dialect == "pd_op"} - {d.name for d in RULED}
    assert {n for n in others if "_grad" not in n} <= {d.name for d in table() if d.writes}


@pytest.mark.parametrize("definition", RULED, ids=name)
def test_a02_an_op_and_its_derivatives_are_primitives(definition: OpDef) -> None:
    """The op, its vjp, and the vjp of that."""
    for call in (c for c in float_calls(definition) if not is_refused(c, OPAQUE)):
        for order in (0, 1, 2):
            p = program_of(call)
            if order and (is_refused(call) or not (p.smooth and p.wrt)):
                break
            values = derivative(p, order) if order else p.results
            finish(p, values, PIPELINE)


def is_smooth(call: Call) -> bool:
    p = program_of(call)
    return bool(p.smooth and p.wrt) and not is_refused(call)


def elements(call: Call) -> float:
    return sum(a.size for a in arrays(call.args)) or math.inf


@pytest.mark.cpu_seconds(900 if EXHAUSTIVE else 120)
@pytest.mark.parametrize("part", range(PARTS))
def test_a02_third_and_fourth_derivatives_are_primitives(part: int) -> None:
    """Of the smallest call of every third op, along its first operand.

    With `PIRKIT_EXHAUSTIVE=1` of all calls of all ops, to all operands.
    """
    ops = RULED[part::PARTS] if EXHAUSTIVE else RULED[3 * part :: 3 * PARTS]
    for definition in ops:
        given = [*float_calls(definition)]
        if definition.name not in REAL:
            given += complex_calls(definition)
        calls = [c for c in given if is_smooth(c)]
        for call in calls if EXHAUSTIVE else sorted(calls, key=elements)[:1]:
            p = program_of(call)
            if not EXHAUSTIVE:
                first = p.traced.args.index(p.wrt[0])
                p = replace(p, constant=frozenset(range(len(p.traced.args))) - {first})
            finish(p, derivative(p, 4, bend=True), PIPELINE)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a02_the_corpus_trains_on_primitives(case: Path) -> None:
    """Forward, pirkit's backward and two steps give Paddle's numbers without any other op."""
    report = check_case(case, "main", pipeline=PIPELINE)
    assert report.status == "pass", report.message
