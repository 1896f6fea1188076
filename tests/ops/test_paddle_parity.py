"""The op table against the installed Paddle, on the samples that the table declares."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("paddle", reason="compares with the paddle package, which is missing")

import pirkit
from pirkit.dialect.attrs import in_single
from pirkit.dialect.opdef import OpDef, find, reference, samples
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import compatible
from tests.ops.calls import Call, arrays, calls, plenty, sample_dtypes, table
from tests.ops.paddle_calls import NotComparable, eager, program_text, static_types, visible
from tests.ops.paddle_differences import (
    TYPE_DIFFERENCES,
    UNCOMPARED_TYPES,
    UNCOMPARED_VALUES,
    UNSAFE,
    VALUE_DIFFERENCES,
    Difference,
    avoided,
    intended,
)
from tests.tolerance import difference

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

CASES: Final = [
    (d, t)
    for d in table()
    if samples.get(d) is not None and reference.get(d) is not None
    for t in sample_dtypes(d)
]


def value_differences(call: Call, dtype: DType) -> list[str]:
    """What differs between the reference and Paddle's eager kernels; one line each."""
    if avoided(VALUE_DIFFERENCES, call):
        return []
    call = as_paddle_holds(call)
    expected = eager(call)
    actual = call.compute()
    numbers = visible(call.definition)
    if len(expected) == len(call.definition.results):
        numbers = list(range(len(expected)))
    if len(expected) != len(numbers):
        return [f"Paddle returns {len(expected)} results, the op declares {len(numbers)}"]
    found: list[str] = []
    for number, theirs in zip(numbers, expected, strict=True):
        slot, ours = call.definition.results[number], actual[number]
        if theirs is None or ours is None or intended(VALUE_DIFFERENCES, call, slot):
            continue
        for a, b in zip(arrays((ours,)), _listed(theirs), strict=True):
            wrong = None if b is None else difference(a, b, loosest=dtype)
            if wrong is not None:
                found.append(f"{slot.name}: {wrong}")
    return found


def as_paddle_holds(call: Call) -> Call:
    """The call with the attributes in single precision that Paddle holds so."""
    kinds = call.definition.attr_kinds
    rounded = {n: in_single(v) for n, v in call.attrs.items() if kinds[n] == "f32"}
    return replace(call, attrs={**call.attrs, **rounded})


def draws(call: Call) -> bool:
    """True if the results depend on random numbers; Paddle draws others."""
    if call.definition.effects != "random":
        return False
    first, *others = (list(arrays(call.compute(key=key))) for key in range(1, 9))
    same = (zip(first, other, strict=True) for other in others)
    return not all(np.array_equal(a, b, equal_nan=True) for pairs in same for a, b in pairs)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def type_differences(call: Call) -> list[str]:
    """What differs between infer_meta and the types of a Paddle program; one line each."""
    if avoided(TYPE_DIFFERENCES, call):
        return []
    expected = static_types(call)
    actual = call.infer()
    if len(expected) != len(actual):
        return [f"Paddle has {len(expected)} results, infer_meta {len(actual)}"]
    slots = call.definition.results
    return [
        f"{slot.name}: {ours}, Paddle has {theirs}"
        for slot, ours, theirs in zip(slots, actual, expected, strict=True)
        if not compatible(theirs, ours) and not intended(TYPE_DIFFERENCES, call, slot)
    ]


by_case = pytest.mark.parametrize(
    ("definition", "dtype"), CASES, ids=[f"{d.name}-{t.name}" for d, t in CASES]
)


@by_case
def test_values(definition: OpDef, dtype: DType) -> None:
    compared = 0
    for call in plenty(definition, dtype):
        if draws(call):
            continue
        try:
            wrong = value_differences(call, dtype)
        except NotComparable:
            continue
        compared += 1
        assert wrong == [], str(call)
    if not compared:
        pytest.skip("Paddle computes none of the samples on CPU, or draws other numbers")


@by_case
def test_result_types(definition: OpDef, dtype: DType) -> None:
    compared = 0
    for call in calls(definition, dtype):
        try:
            wrong = type_differences(call)
        except NotComparable:
            continue
        compared += 1
        assert wrong == [], str(call)
    if not compared:
        pytest.skip("Paddle builds none of the samples")


@by_case
def test_programs_load(definition: OpDef, dtype: DType) -> None:
    """With the types that Paddle declares, whatever its kernels produce."""
    loaded = 0
    for call in calls(definition, dtype):
        if avoided(TYPE_DIFFERENCES, call) or avoided(VALUE_DIFFERENCES, call):
            continue
        try:
            text = program_text(call)
        except NotComparable:
            continue
        loaded += 1
        pirkit.loads(text)
    if not loaded:
        pytest.skip("Paddle builds none of the samples")


COMPARED: Final = {d.name: [t for c, t in CASES if c is d] for d, _ in CASES}


def is_compared(
    name: str, compare: Callable[[Call], object], skipped: dict[str, Difference]
) -> bool:
    """True if Paddle has something to compare with for one sample of one element type."""
    definition = find(name)
    assert definition is not None
    every = (c for t in COMPARED[name] for c in calls(definition, t))
    return any(not avoided(skipped, c) and _succeeds(compare, c) for c in every)


def _succeeds(compare: Callable[[Call], object], call: Call) -> bool:
    try:
        compare(call)
    except NotComparable:
        return False
    return True


@pytest.mark.parametrize("name", COMPARED)
def test_paddle_computes_some_sample(name: str) -> None:
    definition = find(name)
    assert definition is not None
    first = next(calls(definition, COMPARED[name][0]))
    if not draws(first):
        assert is_compared(name, eager, VALUE_DIFFERENCES) == (name not in UNCOMPARED_VALUES)


@pytest.mark.parametrize("name", COMPARED)
def test_paddle_types_some_sample(name: str) -> None:
    assert is_compared(name, static_types, TYPE_DIFFERENCES) == (name not in UNCOMPARED_TYPES)


@pytest.mark.parametrize("differences", [UNSAFE, VALUE_DIFFERENCES, TYPE_DIFFERENCES])
def test_differences_name_ops_and_results(differences: dict[str, Difference]) -> None:
    for name, known in differences.items():
        definition = find(name)
        assert definition is not None, name
        assert set(known.results) <= {r.name for r in definition.results}, name
