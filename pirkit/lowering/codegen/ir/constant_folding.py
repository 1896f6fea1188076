"""Folds integer constants while LLVM IR is written.

Extents are constants and so are most loop bounds. LLVM would fold them too, but only after parsing
every loop that never runs.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

_BINARY: Final = re.compile(
    r"(add|sub|mul|and|urem|udiv|icmp \w+) i64 (-?\d+|%\w+), (-?\d+|%\w+)\Z"
)
_ARITHMETIC: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": lambda a, b: a & b,
}
_UNSIGNED: Final[dict[str, Callable[[int, int], int]]] = {
    "urem": operator.mod,
    "udiv": lambda a, b: a // b,
}
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "icmp slt": operator.lt,
    "icmp sle": operator.le,
    "icmp sgt": operator.gt,
    "icmp sge": operator.ge,
    "icmp eq": operator.eq,
    "icmp ne": operator.ne,
}
_IDENTITIES: Final = frozenset({("add", 0), ("sub", 0), ("mul", 1), ("udiv", 1), ("and", -1)})
"""Instructions with a second operand that return the first one."""
_CONSTANT: Final = frozenset({("mul", 0), ("and", 0), ("urem", 1)})
"""Instructions with a second operand that return 0."""
_COMMUTE: Final = frozenset({"add", "mul", "and"})


def constant_of(text: str) -> int | None:
    """The integer of a constant operand; None for a register."""
    return None if text[:1] == "%" or not text.lstrip("-").isdigit() else int(text)


def fold_constant(text: str) -> str | None:
    """The operand that an i64 instruction reduces to; None if it does not."""
    match = _BINARY.match(text)
    if match is None:
        return None
    name, first, second = match.groups()
    a, b = constant_of(first), constant_of(second)
    if a is not None and b is not None:
        return _fold(name, a, b)
    # Move a constant first operand of a commutative instruction to the second place.
    if name in _COMMUTE and b is None:
        first, b = second, a
    if (name, b) in _IDENTITIES:
        return first
    return "0" if (name, b) in _CONSTANT else None


def _fold(name: str, a: int, b: int) -> str | None:
    """The result for two constants; None if it does not fit i64 or is undefined."""
    if name in _COMPARISONS:
        return str(_COMPARISONS[name](a, b)).lower()
    if name in _ARITHMETIC:
        made = _ARITHMETIC[name](a, b)
        # Out-of-range results wrap around in LLVM: leave these to it.
        return str(made) if -(1 << 63) <= made < 1 << 63 else None
    if name in _UNSIGNED and a >= 0 and b > 0:
        return str(_UNSIGNED[name](a, b))
    return None


def trip_count(start: str, stop: str, step: int) -> int | None:
    """The number of iterations of a loop with constant bounds; else None."""
    first, last = constant_of(start), constant_of(stop)
    if first is None or last is None:
        return None
    return len(range(first, last, step))
