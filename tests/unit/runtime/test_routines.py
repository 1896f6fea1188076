"""The language of native routines, run and compared with Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from pirkit.diag.errors import InternalError
from pirkit.runtime.native.engine import compile_ir, load
from pirkit.runtime.native.routines import Language, RoutineModule, words
from pirkit.runtime.tensor.buffer import address_of

STRUCTS = {"Header": words(("count", "data", "total"), {"data"}), "Pair": words(("a", "b"))}


LANGUAGE = Language(STRUCTS, {"TWO": 2}, {"memcmp": "i32"})


def run(source: str, data: Any, *operands: int) -> tuple[int, list[int]]:
    """What `main` returns, and the header behind the call."""
    module = RoutineModule(source, LANGUAGE, ("main",))
    library = load(compile_ir(module.text()), ["main"])
    header = np.array([len(data), address_of(data), 7], np.int64)
    kinds = [ctypes.c_int64] * (1 + len(operands))
    main = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(library.addresses["main"])
    return main(address_of(header), *operands), header.tolist()


def test_loops_and_words_of_the_header() -> None:
    source = """
def main(header: Header, most: i64) -> i64:
    found = 0
    for k in range(1, count):
        if i64[data, k] == 5:
            continue
        if i64[data, k] > most or k == 6:
            break
        found += i64[data, k] * TWO
    header.total = found - 1
    while found > 100:
        found = found - 100
    return found if not found == total else header.total
"""
    data = np.array([9, 1, 5, 60, 2, 3, 4, 4])
    assert run(source, data, 99)[0] == 2 * (1 + 60 + 2 + 3) - 100
    assert run(source, data, 50) == (2, [8, address_of(data), 1])
    assert run(source, np.array([0, 54, 0]), 99)[0] == 8, "what `total` was at the beginning"


def test_calls_structures_and_small_types() -> None:
    source = """
@inline
def second(pair: Pair) -> i64:
    return pair.b

def halve(place: ptr):
    if i64[place] & 1 == 0:
        i64[place] = i64[place] - 3
        return
    i8[place] = i8(i64[place + 8] == 4)

def main(header: Header) -> i64:
    small = i32(-1)
    place = address_of(small)
    halve(data)
    halve(data + 16)
    copy(data + 32, data, 8)
    is_large = below(1, i64(i32[place])) and memcmp(data, data + 32, 8) == 0
    return second(data + 16) + i64(is_large) * 100
"""
    data = np.array([8, 4, 7, 4, 0])
    assert run(source, data)[0] == 104
    assert data.tolist() == [5, 4, 1, 4, 5]


@pytest.mark.parametrize("body", ["return count / 2", "return [1]", "return 1 < 2 < 3", "del k"])
def test_what_it_does_not_have_is_an_error(body: str) -> None:
    with pytest.raises(InternalError, match="routines have no"):
        run(f"def main(header: Header) -> i64:\n    {body}", np.zeros(1))


def test_a_variable_has_one_type() -> None:
    with pytest.raises(InternalError, match="`x` of routine `main` is no ptr"):
        run("def main(header: Header) -> i64:\n    x = 1\n    x = data\n    return x", np.zeros(1))
    with pytest.raises(InternalError, match="`count` of routine `main`"):
        run("def main(header: Header) -> i64:\n    x = count\n    count = x\n", np.zeros(1))
