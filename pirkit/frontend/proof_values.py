"""The integers and conditions that statements of a nest compute, as terms for `proof_bounds.py`.

A term stands for the value in all runs: an element of memory is an unknown number of its type, and
so is whatever may have overflowed or has no term here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from pirkit.lowering.codegen.ir.element_types import types_of
from pirkit.lowering.codegen.ir.loop_ir import Nest
from pirkit.lowering.codegen.ir.loopnest import Compute, Constant, Index, Statement, defines
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType

Term = Any


class Known(NamedTuple):
    """An integer and its smallest and largest value."""

    term: Term
    low: int
    high: int


class Values:
    """Values by name; those of a loop body are forgotten after it."""

    def __init__(self, z3: Any, nest: Nest) -> None:
        self.z3, self.nest, self.types = z3, nest, types_of(nest.kernel)
        self.scopes: list[dict[str, Known | Term]] = [{}]
        self.count = 0

    @contextmanager
    def scope(self) -> Generator[None]:
        """Forget what is defined in the body of a ``with`` statement after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def unknown(self, name: str) -> Term:
        """An integer of which nothing is known."""
        self.count += 1
        return self.z3.Int(f"{name} {self.count}")

    def define(self, s: Statement, index: Mapping[int, Term], axis: int, lane: Term) -> None:
        """Note what a statement defines."""
        name = defines(s)
        if name is None:
            return
        match s:
            case Constant(dtype=dtype, value=value) if dtype is dt.bool_:
                found = self.z3.BoolVal(bool(value))
            case Constant(dtype=dtype, value=value) if dtype.is_integer:
                found = Known(self.z3.IntVal(int(value)), int(value), int(value))
            case Index(axis=of, dtype=dtype):
                place = index.get(of, 0) + (lane if of == axis else 0)
                # A masked lane may be beyond the extent, by less than a vector.
                found = Known(place, 0, self.nest.extents[of] - 1)
                found = found if found.high <= dt_limits(dtype)[1] else None
            case Compute():
                found = self._computed(s)
            case _:
                found = None
        if found is not None:
            self.scopes[-1][name] = found

    def _get(self, name: str) -> Any:
        return next((s[name] for s in reversed(self.scopes) if name in s), None)

    def integer(self, name: str) -> Term:
        """A value as an integer, an unknown one where nothing is known."""
        return self._known(name).term

    def _known(self, name: str) -> Known:
        found = self._get(name)
        if isinstance(found, Known):
            return found
        if found is not None:
            return Known(self.z3.If(found, 1, 0), 0, 1)
        dtype = self.types.get(name, dt.int64)
        low, high = dt_limits(dtype) if dtype.is_integer else dt_limits(dt.int64)
        return Known(self.unknown("value"), low, high)

    def truth(self, name: str) -> Term:
        """A value as a condition, an unknown one where nothing is known."""
        found = self._get(name)
        if isinstance(found, Known):
            return found.term != 0
        if found is not None:
            return found
        self.count += 1
        return self.z3.Bool(f"condition {self.count}")

    def _computed(self, s: Compute) -> Any:
        z3, kinds = self.z3, [self._type(a) for a in s.args]
        if s.primitive in _LOGIC and all(k is dt.bool_ for k in kinds):
            return _LOGIC[s.primitive](z3, [self.truth(a) for a in s.args])
        if not all(k is not None and k.is_integer for k in kinds):
            return None
        if s.primitive == "where" and s.dtype.is_integer and s.dtype is not dt.bool_:
            condition = self.truth(s.args[0])
            yes, no = (self._known(a) for a in s.args[1:])
            term = z3.If(condition, yes.term, no.term)
            return Known(term, min(yes.low, no.low), max(yes.high, no.high))
        args = [self._known(a) for a in s.args]
        if s.primitive in _COMPARE:
            return _COMPARE[s.primitive](args[0].term, args[1].term)
        if s.primitive not in _ARITHMETIC or not s.dtype.is_integer:
            return None
        found = _ARITHMETIC[s.primitive](z3, args)
        low, high = dt_limits(s.dtype)
        return found if found is not None and low <= found.low and found.high <= high else None

    def _type(self, name: str) -> DType | None:
        return self.types.get(name)


def dt_limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest number of an integer type."""
    if dtype is dt.bool_:
        return 0, 1
    bits = 8 * dtype.itemsize
    if dtype.name.startswith("u"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _product(z3: Any, args: Sequence[Known]) -> Known | None:
    a, b = args
    if a.low != a.high and b.low != b.high:
        return None  # not linear
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    term = a.low * b.term if a.low == a.high else a.term * b.low
    return Known(term, min(ends), max(ends))


def _quotient(z3: Any, args: Sequence[Known]) -> Known | None:
    a, b = args
    if b.low != b.high or b.low <= 0:
        return None
    return Known(a.term / b.low, a.low // b.low, a.high // b.low)  # z3's rounds down here


def _remainder(z3: Any, args: Sequence[Known]) -> Known | None:
    a, b = args
    return Known(a.term % b.low, 0, b.low - 1) if b.low == b.high > 0 else None


def _truncated(z3: Any, args: Sequence[Known]) -> Known | None:
    return _quotient(z3, args) if args[0].low >= 0 else None


_ARITHMETIC: Final[dict[str, Callable[[Any, Sequence[Known]], Known | None]]] = {
    "add": lambda _, g: Known(g[0].term + g[1].term, g[0].low + g[1].low, g[0].high + g[1].high),
    "subtract": lambda _, g: Known(
        g[0].term - g[1].term, g[0].low - g[1].high, g[0].high - g[1].low
    ),
    "multiply": _product,
    "floor_divide": _quotient,
    "quotient": _truncated,
    "remainder": _remainder,
    "negative": lambda _, g: Known(-g[0].term, -g[0].high, -g[0].low),
    "cast": lambda _, g: g[0],
    "maximum": lambda z3, g: Known(
        z3.If(g[0].term < g[1].term, g[1].term, g[0].term),
        max(g[0].low, g[1].low), max(g[0].high, g[1].high),
    ),
    "minimum": lambda z3, g: Known(
        z3.If(g[0].term < g[1].term, g[0].term, g[1].term),
        min(g[0].low, g[1].low), min(g[0].high, g[1].high),
    ),
}  # fmt: skip
"""Primitives of integers; None where the result has no term."""
_COMPARE: Final[dict[str, Callable[[Term, Term], Term]]] = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less_than": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater_than": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
_LOGIC: Final[dict[str, Callable[[Any, Sequence[Term]], Term]]] = {
    "logical_and": lambda z3, g: z3.And(*g),
    "logical_or": lambda z3, g: z3.Or(*g),
    "logical_not": lambda z3, g: z3.Not(g[0]),
    "logical_xor": lambda z3, g: z3.Xor(*g),
    "bitwise_and": lambda z3, g: z3.And(*g),
    "bitwise_or": lambda z3, g: z3.Or(*g),
    "bitwise_not": lambda z3, g: z3.Not(g[0]),
}
