"""Solves for symbolic sizes, given the shapes of tensors and derivations between sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from pirkit.diag.errors import ConstraintError
from pirkit.index.extent import Extent, at, is_sized, names_of

UNKNOWN: Final = -1
"""The value of a size that is not known yet."""


class Derived(Struct, frozen=True):
    """A size derived from others: ``name = rule(*args)``."""

    name: str
    rule: str
    args: tuple[int, ...]

    @property
    def is_symmetric(self) -> bool:
        """True if the order of the arguments does not matter."""
        return self.rule in SYMMETRIC

    def value(self, sizes: Mapping[str, int]) -> int | None:
        """The size; None if an argument is unknown. Raises ConstraintError if the rule fails."""
        args = [at(n, sizes) for n in self.args]
        return None if any(map(is_sized, args)) else RULES[self.rule](args)

    def __str__(self) -> str:
        return f"{self.name} = {self.rule}({', '.join(map(repr, self.args))})"


def _broadcast(sizes: Sequence[int]) -> int:
    """The broadcast size of axes of these sizes."""
    wide = set(sizes) - {1}
    if len(wide) > 1:
        raise ConstraintError("sizes", f"axes of {sorted(wide)} elements are not equal")
    return wide.pop() if wide else 1


def _quotient(sizes: Sequence[int]) -> int:
    """The exact quotient of the sizes, as for the axis -1 of a reshape."""
    total, part = sizes
    if part and total % part:
        raise ConstraintError("sizes", f"{total} elements are no multiple of {part}")
    return total // part if part else 0


def _equal(sizes: Sequence[int]) -> int:
    """The common value of two sizes that must be equal."""
    if len(set(sizes)) > 1:
        raise ConstraintError("sizes", f"{sizes[0]} is not {sizes[1]}")
    return sizes[0]


def _steps(sizes: Sequence[int]) -> int:
    """The number of elements of a slice with a step: the quotient rounded up."""
    count, step = sizes
    return -(-max(count, 0) // step)


def _reduced_size(sizes: Sequence[int]) -> int:
    """The number of elements reduced to one, for a target axis of 1 or as many elements."""
    count, target = sizes
    if target not in (1, count):
        raise ConstraintError("sizes", f"{count} elements are not reduced to {target}")
    return count if target == 1 else 1


RULES: Final[dict[str, Callable[[Sequence[int]], int]]] = {
    "broadcast": _broadcast,
    "quotient": _quotient,
    "smaller": min,
    "larger": max,
    "equal": _equal,
    "steps": _steps,
    "folded": _reduced_size,
}
"""The derivation rules of sizes."""

SYMMETRIC: Final = frozenset({"broadcast", "smaller", "larger", "equal"})
"""The commutative rules."""


def solve(
    dims: Iterable[int], given: Iterable[int], derived: Sequence[Derived] = ()
) -> dict[str, int]:
    """The values of symbols, given the actual values of dimensions, and of derived sizes.

    ``UNKNOWN`` values are ignored, and symbols that are not determined are left out. Raises
    ConstraintError if the values contradict each other.
    """
    left = [(d, n) for d, n in zip(dims, given, strict=True) if n != UNKNOWN]
    known: dict[str, int] = {}
    count = -1
    while len(known) != count:
        count = len(known)
        for dim, number in left:
            name = _lone(dim, known.keys())
            if name is not None:
                rest, factor = at(dim, {**known, name: 0}), _factor(dim, name)
                if (number - rest) % factor or (number - rest) // factor < 0:
                    raise ConstraintError("sizes", f"{dim!r} is not {number} for any {name}")
                known[name] = (number - rest) // factor
    for size in derived:
        value = size.value(known)
        if value is not None and known.setdefault(size.name, value) != value:
            raise ConstraintError("sizes", f"{size} is {value}, not {known[size.name]}")
    for dim, number in left:
        found = at(dim, known)
        if not is_sized(found) and found != number:
            raise ConstraintError("sizes", f"an axis of {dim!r} = {found} elements has {number}")
    return known


def determined(dims: Sequence[int], derived: Sequence[Derived] = ()) -> set[str]:
    """The symbols that `solve` determines for any values of the dimensions."""
    known: set[str] = set()
    count = -1
    while len(known) != count:
        count = len(known)
        known |= {name for dim in dims if (name := _lone(dim, known)) is not None}
    for size in derived:
        if known.issuperset(names_of(size.args)):
            known.add(size.name)
    return known


def _lone(dim: int, known: AbstractSet[str]) -> str | None:
    """The only unknown symbol of a dimension, if it occurs as a single linear term."""
    left = [name for name in names_of((dim,)) if name not in known]
    if len(left) != 1 or not isinstance(dim, Extent):
        return None
    terms = [names for names, _ in dim.terms if left[0] in names]
    return left[0] if terms == [(left[0],)] else None


def _factor(dim: int, name: str) -> int:
    return dict(dim.terms)[(name,)] if isinstance(dim, Extent) else 0
