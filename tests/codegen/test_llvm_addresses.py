"""Addresses and indices as they are written: what is known of them comes last, as a number."""

from __future__ import annotations

import re
from random import Random

import pytest

from pirkit.lowering.codegen.ir.llvm_text import I64, PTR, Builder, Value

LINE = re.compile(r"  (\S+) = (add|mul|getelementptr) (?:i8, ptr|i64) (\S+), (?:i64 )?(\S+)")
BASE = Value("%a", PTR)
FIRST, SECOND = Value("%i", I64), Value("%j", I64)


def values(b: Builder, given: dict[str, int]) -> dict[str, int]:
    """What each name of a text is."""
    known = dict(given)
    for line in b.lines:
        match = LINE.fullmatch(line)
        assert match, line
        name, how, left, right = match.groups()
        x, y = (known[v] if v.startswith("%") else int(v) for v in (left, right))
        known[name] = x * y if how == "mul" else x + y
    return known


def test_what_lies_some_elements_apart_is_one_address() -> None:
    b = Builder()
    places = [b.at(BASE, b.times(b.plus(FIRST, 16 * k), 4)) for k in range(3)]
    assert len(b.lines) == 2  # what nobody reads is not written
    first, second, third = [place.text for place in places]
    found = [line for line in b.lines if "getelementptr" in line]
    assert found == [
        f"  {first} = getelementptr i8, ptr %a, i64 %v1",
        f"  {second} = getelementptr i8, ptr {first}, i64 64",
        f"  {third} = getelementptr i8, ptr {first}, i64 128",
    ]


def test_a_number_goes_behind_what_is_counted() -> None:
    b = Builder()
    one = b.at(b.at(BASE, 64), b.times(FIRST, 4))
    other = b.at(b.at(BASE, b.times(FIRST, 4)), 64)
    assert one == other
    assert b.plus(b.plus(FIRST, 5), -5) == FIRST
    assert b.at(b.at(BASE, 64), -64) == BASE


@pytest.mark.parametrize("seed", range(20))
def test_addresses_are_what_they_would_be(seed: int) -> None:
    random, b = Random(seed), Builder()
    given = {"%a": 1 << 40, "%i": random.randint(-99, 99), "%j": random.randint(-99, 99)}
    whole = [(FIRST, given["%i"]), (SECOND, given["%j"]), (Value("7", I64), 7)]
    places = [(BASE, given["%a"])]
    for _ in range(60):
        (x, m), (y, n) = random.choice(whole), random.choice(whole)
        number = random.choice([0, 1, 4, -3, 64])
        (base, start) = random.choice(places)
        match random.randrange(5):
            case 0:
                whole.append((b.plus(x, y), m + n))
            case 1:
                whole.append((b.plus(x, number), m + number))
            case 2 if abs(m) < 1 << 30:
                whole.append((b.times(x, number), m * number))
            case 3:
                places.append((b.at(base, number), start + number))
            case _:
                places.append((b.at(base, x), start + m))
    written = [(value.text, meant) for value, meant in [*whole, *places]]
    known = values(b, given)
    for text, meant in written:
        assert (known[text] if text.startswith("%") else int(text)) == meant
