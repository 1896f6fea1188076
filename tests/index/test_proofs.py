"""The laws of the normal form, proved for all numbers by z3.

A floor is what its definition says: ``floor(e / n)`` is the q with ``n * q <= e < n * q + n``. Each
law is stated for divisors that are unknowns too; z3 proves it by finding no counterexample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

z3 = pytest.importorskip("z3")

SECONDS = 20


class Claim:
    """Unknown integers, what is known of them, and what follows."""

    def __init__(self) -> None:
        self.known: list[Any] = []
        self.count = 0

    def number(self, least: int | None = None) -> Any:
        self.count += 1
        made = z3.Int(f"n{self.count}")
        if least is not None:
            self.known.append(made >= least)
        return made

    def floor(self, e: Any, by: Any) -> Any:
        q = self.number()
        self.known += [by * q <= e, e < by * q + by]
        return q

    def proves(self, goal: Any) -> bool:
        solver = z3.Solver()
        solver.set("timeout", 1000 * SECONDS)
        solver.add(*self.known, z3.Not(goal))
        return solver.check() == z3.unsat


REWRITE_RULES: dict[str, Callable[[Claim], Any]] = {}


def rewrite_rule(build: Callable[[Claim], Any]) -> Callable[[Claim], Any]:
    REWRITE_RULES[build.__name__.replace("_", " ")] = build
    return build


@rewrite_rule
def a_floor_is_one_number(c: Claim) -> Any:
    e, by = c.number(), c.number(1)
    return c.floor(e, by) == c.floor(e, by)


@rewrite_rule
def multiples_of_the_divisor_come_out(c: Claim) -> Any:
    q, r, by = c.number(), c.number(), c.number(1)
    return c.floor(by * q + r, by) == q + c.floor(r, by)


@rewrite_rule
def a_number_below_the_divisor_is_0(c: Claim) -> Any:
    by = c.number(1)
    e = c.number(0)
    c.known.append(e <= by - 1)
    return c.floor(e, by) == 0


@rewrite_rule
def a_negative_number_above_minus_the_divisor_is_minus_1(c: Claim) -> Any:
    by, e = c.number(1), c.number()
    c.known += [e >= -by, e <= -1]
    return c.floor(e, by) == -1


@rewrite_rule
def of_two_reflections_one_is_enough(c: Claim) -> Any:
    e, by = c.number(), c.number(1)
    return c.floor(e, by) == -c.floor(by - 1 - e, by)


@rewrite_rule
def halves_rounded_up_are_what_halves_leave(c: Claim) -> Any:
    e = c.number()
    return c.floor(e + 1, 2) == e - c.floor(e, 2)


@rewrite_rule
def two_values_lie_on_a_line(c: Claim) -> Any:
    a, k, shift, by = c.number(0), c.number(), c.number(), c.number(1)
    c.known.append(a <= 1)
    first, last = c.floor(shift, by), c.floor(shift + k, by)
    return c.floor(shift + z3.If(a == 1, k, 0), by) == first + z3.If(a == 1, last - first, 0)


@rewrite_rule
def a_low_part_below_a_common_factor_is_dropped(c: Claim) -> Any:
    high, step, times = c.number(), c.number(1), c.number(1)
    low = c.number(0)
    c.known.append(low <= step - 1)
    return c.floor(step * high + low, step * times) == c.floor(high, times)


@rewrite_rule
def floors_of_floors_are_one(c: Claim) -> Any:
    e, m, a, b = c.number(), c.number(), c.number(1), c.number(1)
    return c.floor(c.floor(e, a) + m, b) == c.floor(e + a * m, a * b)


@rewrite_rule
def a_remainder_lies_below_the_divisor(c: Claim) -> Any:
    e, by = c.number(), c.number(1)
    rest = e - by * c.floor(e, by)
    return z3.And(rest >= 0, rest < by)


@rewrite_rule
def digits_are_found_again(c: Claim) -> Any:
    outer, inner, by = c.number(0), c.number(0), c.number(1)
    c.known.append(inner <= by - 1)
    return c.floor(outer * by + inner, by) == outer


@rewrite_rule
def a_floor_lies_between_the_floors_of_its_bounds(c: Claim) -> Any:
    low, e, high, by = c.number(), c.number(), c.number(), c.number(1)
    c.known += [low <= e, e <= high]
    q = c.floor(e, by)
    return z3.And(c.floor(low, by) <= q, q <= c.floor(high, by))


@rewrite_rule
def a_floor_of_no_negative_number_is_not_larger(c: Claim) -> Any:
    e, by = c.number(0), c.number(1)
    return c.floor(e, by) <= e


@rewrite_rule
def a_place_within_an_axis_of_one_element_is_0(c: Claim) -> Any:
    n, e = c.number(1), c.number(0)
    c.known.append(e <= n - 1)
    return z3.If(n == 1, 0, e) == e


@rewrite_rule
def a_size_is_1_and_something_that_is_not_negative(c: Claim) -> Any:
    n, m = c.number(1), c.number(1)
    s, t = n - 1, m - 1
    return z3.And(n * m == s * t + s + t + 1, s >= 0, t >= 0)


@pytest.mark.parametrize("name", REWRITE_RULES)
def test_laws_hold_for_all_numbers(name: str) -> None:
    claim = Claim()
    assert claim.proves(REWRITE_RULES[name](claim))


def test_what_does_not_hold_is_not_proved() -> None:
    claim = Claim()
    e, by = claim.number(), claim.number(2)
    assert not claim.proves(claim.floor(e + 1, by) == claim.floor(e, by))
