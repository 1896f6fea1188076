"""Builds the statements of a loop nest; equal ones are emitted once (value numbering)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Index,
    Load,
    RuntimeAssert,
    Statement,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.convert import constant
from pirkit.runtime.dtype import DType
from pirkit.runtime.native.data_assertions import DataAssertion


class NotLowerableError(Exception):
    """No loop nest computes this; the message is the reason that is reported."""


class StatementBuilder:
    """The statements of one body, or of what follows it.

    ``numbers`` supplies names, ``assertion_operand`` the flag of an assertion. With ``excess``
    results in float16 and bfloat16 stay in float32, in which they are computed.
    """

    def __init__(
        self, numbers: Iterator[int], flag: Callable[[DataAssertion], int], *, excess: bool = False
    ) -> None:
        self.numbers, self.assertion_operand, self.excess = numbers, flag, excess
        self.statements: list[Statement] = []
        self.known: dict[Any, str] = {}
        self.wide: dict[str, str] = {}
        """Rounded values and their value before rounding, which a store rounds in the same way."""

    def fresh(self) -> str:
        return f"n{next(self.numbers)}"

    def constant(self, value: Any, dtype: DType) -> str:
        """A constant; raises NotLowerableError for a complex one."""
        if dtype.is_complex:
            raise NotLowerableError("complex numbers have no native code")
        held = constant(value, dtype).item()
        number = float(held) if dtype.is_float else held
        # The key is the text: 0.0 and -0.0 are equal, and NaN equals nothing.
        key = ("constant", repr(number), dtype.name)
        return self._once(key, lambda name: Constant(name, dtype, number))

    def compute(self, op: str, args: Sequence[str], dtype: DType) -> str:
        """A primitive of names; equal ones are emitted once."""
        given = tuple(args)
        return self._once((op, given, dtype.name), lambda name: Compute(name, op, given, dtype))

    def cast(self, name: str, source: DType, dtype: DType) -> str:
        """A value converted to an element type; itself if it has that type."""
        return name if source is dtype else self.compute("cast", [name], dtype)

    def rounded(self, name: str, dtype: DType) -> str:
        """A float32 value rounded to float16 or bfloat16."""
        if self.excess:
            return name
        made = self.compute("cast", [name], dtype)
        self.wide[made] = name
        return made

    def index(self, axis: int, dtype: DType) -> str:
        return self._once(("index", axis, dtype.name), lambda name: Index(name, axis, dtype))

    def load(self, operand: int, at: str | None = None, limit: int = 0,
             predicate: str | None = None) -> str:  # fmt: skip
        """A load (see `loopnest.Load`)."""
        key = ("load", operand, at, limit, predicate)
        return self._once(key, lambda name: Load(name, operand, at, limit, predicate))

    def assert_holds(self, what: DataAssertion, holds: str, needed: str | None = None) -> None:
        """Assert a value at run time, at the iterations where it is ``needed``."""
        if needed is not None:
            holds = self.either(holds, self.compute("logical_not", [needed], dt.bool_))
        # Several reads at one index need one assertion.
        key = (what, holds)
        if key not in self.known:
            self.known[key] = holds
            self.statements.append(RuntimeAssert(self.assertion_operand(what), holds))

    def both(self, first: str | None, second: str) -> str:
        """The conjunction of two conditions."""
        if first is None:
            return second
        return self.compute("logical_and", [first, second], dt.bool_)

    def either(self, first: str, second: str) -> str:
        """The disjunction of two conditions."""
        return self.compute("logical_or", [first, second], dt.bool_)

    def _once(self, key: Any, make: Callable[[str], Statement]) -> str:
        if key not in self.known:
            name = self.known[key] = self.fresh()
            self.statements.append(make(name))
        return self.known[key]
