"""Casts there and back: every pair of element types gives what the reference gives, bit by bit.

A law may drop such a pair, and a kernel skip it, only where the type between holds every value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pirkit.frontend.compile import compile
from pirkit.frontend.files import Program
from pirkit.passes.rewrite_rules import HELD
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import DType
from tests.fusion.cases import Case

Array = np.ndarray[Any, Any]

_EDGES: Final = [
    2.0**k + d for k in (0, 7, 8, 10, 11, 15, 16, 24, 31, 32, 53, 63) for d in (-1, -0.5, 0, 0.5, 1)
]
_TIES: Final = [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 65519.999, 2.0**-25 + 2.0**-60]
"""Numbers that are rounded another way if they are rounded to float32 first."""


def values(dtype: DType) -> Array:
    """All values of a type, or those at which conversions change what they do."""
    if dtype is dt.bool_:
        return np.array([False, True])
    if dtype.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(dtype.np)
    if dtype.itemsize == 2:
        return np.arange(65536, dtype=np.uint16).view(dtype.np)
    signed = [s * x for s in (1, -1) for x in (0.0, *_EDGES, *_TIES)]
    if dtype.is_integer:
        limits = np.iinfo(dtype.np)
        exact = [int(x) for x in signed] + [2**24 + 1, 2**53 + 1, limits.max, limits.min]
        return np.array([x for x in exact if limits.min <= x <= limits.max], dtype.np)
    more = [np.inf, -np.inf, np.nan, 1e-40, 1e-310, 3.4e38, 3.5e38, 1e308, 65504, 65520, -1e-8]
    with np.errstate(over="ignore"):
        real = np.array(signed + more).astype(dt.REAL_OF.get(dtype, dtype).np)
    return np.stack([real, real[::-1]], -1).view(dtype.np)[:, 0] if dtype.is_complex else real


def same(a: Array, b: Array) -> bool:
    """The same bits, but those of NaN."""
    bits = f"u{a.dtype.itemsize // (2 if a.dtype.kind == 'c' else 1)}"
    parts = (a.view(bits), b.view(bits))
    real = a.view(dt.REAL_OF[dt.of_array(a)].np) if a.dtype.kind == "c" else a
    other = b.view(real.dtype)
    with np.errstate(all="ignore"):
        nan = (real != real) & (other != other)
    return bool(np.all((parts[0] == parts[1]) | nan))


@pytest.mark.parametrize("pipeline", ["@simplify", "@fused"])
@pytest.mark.parametrize("source", dt.ANY, ids=str)
def test_casts_there_and_back_are_those_of_the_reference(source: DType, pipeline: str) -> None:
    given = values(source)
    real = [d for d in dt.ANY if not d.is_complex]
    for group in (real, dt.COMPLEX):  # one complex number keeps a kernel from being native
        compare(source, given, group, pipeline)


def compare(source: DType, given: Array, types: Sequence[DType], pipeline: str) -> None:
    case = Case()
    x = case(*given.shape, dtype=source)
    for between in types:
        there = case.op("cast", x, dtype=between)
        case.b("pir.shadow_output", there, output_name=f"to {between}")
        back = case.op("cast", there, dtype=source)
        case.b("pir.shadow_output", back, output_name=f"back from {between}")
    program = Program(ModuleOp([case.program]), {}, "casts")
    want = compile(program, pipeline="", backend="reference")(x0=given)
    found = compile(program, pipeline=pipeline)(x0=given)
    wrong = [name for name, value in want.items() if not same(found[name], value)]
    assert not wrong


@pytest.mark.parametrize("between", dt.ANY, ids=str)
def test_types_hold_what_the_law_says(between: DType) -> None:
    """And no others: what the table lacks, a value shows."""
    for source in dt.ANY:
        if source is between:
            continue
        given = values(source)
        if {source, between} == {dt.int8, dt.uint8}:
            continue  # they wrap around, there and back
        exact = same(convert(convert(given, between), source), given)
        assert exact == (source.name in HELD.get(between.name, ())), (source, between)
