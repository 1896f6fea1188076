"""What is known of named sizes: those that tensors tell, and those that follow from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from pirkit.diag.errors import ConstraintError
from pirkit.index.extent import Extent, at, is_sized, names_of

UNKNOWN: Final = -1
"""Given for a size that is not known yet."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A size that follows from others: ``name = rule(*args)``."""

    name: str
    rule: str
    args: tuple[int, ...]

    @property
    def is_symmetric(self) -> bool:
        """True if the order of the arguments does not matter."""
        return self.rule in SYMMETRIC

    def value(self, sizes: Mapping[str, int]) -> int | None:
        """The size; None if one of its arguments is not known. ConstraintError if there is none."""
        args = [at(n, sizes) for n in self.args]
        return None if any(map(is_sized, args)) else RULES[self.rule](args)

    def __str__(self) -> str:
        return f"{self.name} = {self.rule}({', '.join(map(repr, self.args))})"


def _broadcast(sizes: Sequence[int]) -> int:
    """The size to which axes of these sizes are spread."""
    wide = set(sizes) - {1}
    if len(wide) > 1:
        raise ConstraintError("sizes", f"axes of {sorted(wide)} elements are not equal")
    return wide.pop() if wide else 1


def _quotient(sizes: Sequence[int]) -> int:
    """How often the second goes into the first: elements of an axis that takes what is left."""
    total, part = sizes
    if part and total % part:
        raise ConstraintError("sizes", f"{total} elements are no multiple of {part}")
    return total // part if part else 0


def _equal(sizes: Sequence[int]) -> int:
    """The size that two are, which have to be one."""
    if len(set(sizes)) > 1:
        raise ConstraintError("sizes", f"{sizes[0]} is not {sizes[1]}")
    return sizes[0]


def _steps(sizes: Sequence[int]) -> int:
    """How many elements there are in steps over some."""
    count, step = sizes
    return -(-max(count, 0) // step)


def _reduced_size(sizes: Sequence[int]) -> int:
    """How many elements of an axis are reduced to one of another, which has as many or 1."""
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
"""Ways in which a size follows from others."""

SYMMETRIC: Final = frozenset({"broadcast", "smaller", "larger", "equal"})
"""Those for which the order of the arguments does not matter."""


def solve(
    dims: Iterable[int], given: Iterable[int], derived: Sequence[Derived] = ()
) -> dict[str, int]:
    """The named sizes in dimensions that turn out to be numbers, and what follows from them.

    Raises ConstraintError where the numbers do not fit together. Those that are ``UNKNOWN`` tell
    nothing; names of which nothing is told are left out.
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
    """The names that `solve` finds once every dimension is known, whatever it is."""
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
    """The one name of a dimension that is not known, if only a number stands before it."""
    left = [name for name in names_of((dim,)) if name not in known]
    if len(left) != 1 or not isinstance(dim, Extent):
        return None
    terms = [names for names, _ in dim.terms if left[0] in names]
    return left[0] if terms == [(left[0],)] else None


def _factor(dim: int, name: str) -> int:
    return dict(dim.terms)[(name,)] if isinstance(dim, Extent) else 0
