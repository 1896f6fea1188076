"""Limits: profiles, the context they live in, and the error they raise."""

from __future__ import annotations

import dataclasses
import threading
from typing import get_args

import pytest

from pirkit.diag.codes import CODES
from pirkit.diag.errors import LimitError
from pirkit.diag.limits import (
    DEFAULT,
    OFF,
    STRICT,
    Knob,
    Limits,
    check,
    current_limits,
    use_limits,
)
from pirkit.diag.span import Span
from tests.execution import parsed

FIELDS = dataclasses.fields(Limits)


def test_every_field_is_a_knob() -> None:
    assert get_args(Knob) == tuple(field.name for field in FIELDS)


@pytest.mark.parametrize("field", FIELDS, ids=lambda f: f.name)
def test_profiles_are_ordered(field: dataclasses.Field[int]) -> None:
    strict, default, off = (getattr(x, field.name) for x in (STRICT, DEFAULT, OFF))
    assert field.metadata["floor"] <= strict <= default <= off
    assert strict in (default // 10, field.metadata["floor"])


@pytest.mark.parametrize("name", get_args(Knob))
def test_value_at_the_limit_is_admitted_and_one_more_is_not(name: Knob) -> None:
    limit = getattr(DEFAULT, name)
    check(name, limit)
    with pytest.raises(LimitError, match=f"`{name}`") as caught:
        check(name, limit + 1, Span("a.mlir", 3))
    assert CODES[caught.value.code].error is LimitError
    assert caught.value.span == Span("a.mlir", 3)


def test_message_names_count_and_limit() -> None:
    with pytest.raises(LimitError) as caught:
        check("rank", 65)
    assert caught.value.message == ("65 dimensions of one tensor, more than the limit `rank` of 32")
    assert caught.value.code == "PK0305"


def test_value_that_python_refuses_to_print_is_described() -> None:
    with pytest.raises(LimitError, match="a 33220-bit number of elements"):
        check("dimension", 10**10_000)


def test_limits_are_in_force_for_the_body_only() -> None:
    with use_limits(STRICT) as limits:
        assert current_limits() is limits is STRICT
        with pytest.raises(LimitError), use_limits(OFF):
            check("rank", 2**64)
        assert current_limits() is STRICT
    assert current_limits() is DEFAULT


def test_threads_have_limits_of_their_own() -> None:
    seen: list[Limits] = []
    with use_limits(OFF):
        thread = threading.Thread(target=lambda: seen.append(current_limits()))
        thread.start()
        thread.join()
    assert seen == [DEFAULT]


def nested(levels: int) -> str:
    return f"""
        pir.program @main(%x "x" : tensor<2xf32>) {{
          %y = pd_op.exp(%x) {{test.note = {"[" * levels}{"]" * levels}}}
            : (tensor<2xf32>) -> tensor<2xf32>
        }}"""


def test_deep_attributes_are_refused_by_default() -> None:
    parsed(nested(DEFAULT.nesting // 2))
    with pytest.raises(LimitError) as refused:
        parsed(nested(100))
    assert refused.value.code == "PK0301"
