"""Guards of a copy: which of them hold at all indices of an axis, or at some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from pirkit.lowering.codegen.ir.delinearize import AffineIndex, SplitLoops, affine_forms_of, fits
from pirkit.lowering.codegen.ir.loopnest import Compute, Kernel, Load, Statement, renamed


def plain_loads(statements: Iterable[Statement]) -> bool:
    """Whether no load is a gather or has a guard."""
    loads = [s for s in statements if isinstance(s, Load)]
    return all(s.at is None and s.predicate is None for s in loads)


def loops_over(kernel: Kernel, axis: int = -1, low: int = 0, high: int = 0) -> SplitLoops:
    """The loops as they are; with an ``axis``, over its indices ``low`` to ``high`` only."""
    parts = {axis: [(axis, extent, 1)] for axis, extent in enumerate(kernel.outer)}
    loops = SplitLoops(kernel, parts, list(kernel.outer))
    if axis >= 0:
        loops.extents[axis], loops.lows[axis] = high - low, low
    return loops


def _bounds(
    kernel: Kernel, loops: SplitLoops, forms: Mapping[str, AffineIndex]
) -> dict[str, tuple[int, int]]:
    """The smallest and the largest value of each integer, and of quotients that are not affine."""
    found = {name: loops.bounds(form) for name, form in forms.items()}
    for s in kernel.statements():
        if not isinstance(s, Compute) or s.name in found or not found.keys() >= {*s.args}:
            continue
        given = [found[a] for a in s.args]
        if s.primitive == "add":
            total = given[0][0] + given[1][0], given[0][1] + given[1][1]
            found |= {s.name: total} if fits(total, s.dtype) else {}
        elif s.primitive == "quotient" and given[1][0] == given[1][1] > 0:
            found[s.name] = given[0][0] // given[1][0], given[0][1] // given[1][0]
    return found


def without_guards(kernel: Kernel, loops: SplitLoops) -> Iterator[Statement]:
    """The statements without comparisons that always hold or never, and what depends on these."""
    forms, known, same = affine_forms_of(kernel, loops), dict[str, bool](), dict[str, str]()
    bounds = _bounds(kernel, loops, forms)
    for statement in kernel.statements():
        s = renamed(statement, lambda name: same.get(name, name))
        match s:
            case Compute(name, "less_than" | "greater_equal" as order, (a, b)):
                if a in forms and b in forms:
                    low, high = loops.bounds(forms[a].plus(forms[b], -1))
                elif a in bounds and b in bounds:
                    low, high = bounds[a][0] - bounds[b][1], bounds[a][1] - bounds[b][0]
                else:
                    low, high = -1, 0
                if high < 0 or low >= 0:
                    known[name] = (high < 0) == (order == "less_than")
                yield s
            case Compute(name, "logical_and", (a, b)):
                if known.get(a) is False or known.get(b) is False:
                    known[name] = False
                elif known.get(a) and known.get(b):
                    known[name] = True
                yield s
            case Compute(name, "where", (condition, a, b)) if condition in known:
                same[name] = a if known[condition] else b
            case Load(predicate=str(guard)) if known.get(guard):
                yield replace(s, predicate=None)
            case _:
                yield s


def guard_changes(kernel: Kernel) -> Iterator[tuple[int, int]]:
    """Axes, and the indices along them at which a comparison changes that depends on one axis."""
    forms = affine_forms_of(kernel, loops_over(kernel))
    for s in kernel.statements():
        if not isinstance(s, Compute) or s.primitive not in ("less_than", "greater_equal"):
            continue
        a, b = (forms.get(name) for name in s.args)
        found = a.plus(b, -1) if a is not None and b is not None else None
        if found is None or len(found.factors) != 1:
            continue
        # a - b is factor * i + constant; it changes its sign at the root, rounded up.
        [(axis, factor)], constant = found.factors.items(), found.constant
        yield axis, -(constant // factor) if factor > 0 else constant // -factor + 1
