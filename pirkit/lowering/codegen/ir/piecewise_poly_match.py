"""Matches functions of functions that have a form of their own.

`gelu` takes tanh of a cubic, or erf of a multiple of x. As one function of x, such a composite
costs no more than the function alone and avoids the rounding of the polynomial. The match is on
computed values, so it does not depend on how the polynomial is written. `mish` takes tanh of
softplus, which is a quotient of polynomials in e**x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pirkit.lowering.codegen.ir.canonicalize import without_dead_values
from pirkit.lowering.codegen.ir.loopnest import (
    Compute,
    Constant,
    Kernel,
    LoopPhase,
    Statement,
    defines,
)
from pirkit.runtime.dtype import float32, float64
from pirkit.runtime.native.target import Target

_TOLERANCE: Final = 2.0**-22
"""Relative error up to which coefficients agree; products of float32 constants stay below it."""
_DEGREE: Final = 3
_MAX_COEFFICIENT: Final = 12
"""Values between the function and its argument at most."""
Polynomial = dict[int, float]


class CompositeFunction(Struct, frozen=True):
    """``primitive(x) = function(inner(x))``; ``inner`` has coefficients by power."""

    function: str
    inner: Mapping[int, float]
    primitive: str


_SCALE: Final = math.sqrt(2 / math.pi)
COMPOSITE_FUNCTIONS: Final = (
    CompositeFunction("tanh", {1: _SCALE, 3: 0.044715 * _SCALE}, "tanh_of_cubic"),
    CompositeFunction("erf", {1: math.sqrt(0.5)}, "erf_of_root"),
)
_FUNCTIONS: Final = frozenset(c.function for c in COMPOSITE_FUNCTIONS)


_SATURATED: Final = 20.0
"""From here on tanh is 1 in float64, and softplus need not be curved."""


def with_composite_functions(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with one primitive for composites: `COMPOSITE_FUNCTIONS` where the CPU has tables,
    and tanh of softplus.
    """
    has_tables = target.vector_bits >= 512 and target.has("avx512f")
    loop_phases = tuple(
        [
            LoopPhase(_replaced(s.body, has_tables), _replaced(s.after, has_tables))
            for s in kernel.loop_phases
        ]
    )
    if loop_phases == kernel.loop_phases:
        return kernel
    return replace(kernel, loop_phases=without_dead_values(loop_phases))


def _replaced(statements: Sequence[Statement], has_tables: bool) -> tuple[Statement, ...]:
    made = {s.name: s for s in statements if isinstance(s, (Compute, Constant))}
    names = {name for s in statements if (name := defines(s)) is not None}
    result: list[Statement] = []
    for statement in statements:
        found: Compute | None = None
        if isinstance(statement, Compute) and statement.primitive in _FUNCTIONS:
            found = _match_softplus(statement, made)
            if found is None and has_tables:
                found = _match(statement, made, names)
        result.append(found or statement)
    return tuple(result)


def _match_softplus(statement: Compute, made: Mapping[str, Compute | Constant]) -> Compute | None:
    """tanh(where(x > edge, x, log1p(exp(where(x > edge, edge, x))))) as a primitive of x."""

    def args(name: str, primitive: str) -> tuple[str, ...]:
        found = made.get(name)
        return found.args if isinstance(found, Compute) and found.primitive == primitive else ()

    match statement.primitive, args(statement.args[0], "where"):
        case "tanh", (above, x, curved) if statement.dtype in (float32, float64):
            (inside,) = args(curved, "log1p") or ("",)
            (bounded,) = args(inside, "exp") or ("",)
            compared = args(above, "greater_than")
            edge = made.get(compared[1]) if compared[:1] == (x,) else None
            if (
                isinstance(edge, Constant)
                and edge.value >= _SATURATED
                and args(bounded, "where") == (above, compared[1], x)
            ):
                return replace(statement, primitive="tanh_of_softplus", args=(x,))
        case _:
            pass
    return None


def _match(
    statement: Compute, made: Mapping[str, Compute | Constant], names: set[str]
) -> Compute | None:  # fmt: skip
    """The composite primitive that computes a statement; None if there is none."""
    polynomials = [c for c in COMPOSITE_FUNCTIONS if c.function == statement.primitive]
    if not polynomials or statement.dtype is not float32:
        return None
    (inner,) = statement.args
    operands = _operands_of(inner, made)
    # The argument of the table is some value below the polynomial: nearest first, so that the
    # polynomial of lowest degree is tried first.
    for below in operands:
        if below in names:
            found = _polynomial(inner, operands, made, {below: {1: 1.0}})
            for polynomial in polynomials:
                if _is_close(found, polynomial.inner):
                    return replace(statement, primitive=polynomial.primitive, args=(below,))
    return None


def _operands_of(name: str, made: Mapping[str, Compute | Constant]) -> list[str]:
    """The values that a value depends on through sums and products, nearest first."""
    found = [name]
    for operands in found:
        statement = made.get(operands)
        if isinstance(statement, Compute) and statement.primitive in _RULES:
            found += [arg for arg in dict.fromkeys(statement.args) if arg not in found]
        # More operands than any table's polynomial has: the search would be quadratic.
        if len(found) > _MAX_COEFFICIENT:
            break
    return found


def _polynomial(
    name: str, operands: Sequence[str], made: Mapping[str, Compute | Constant],
    known: dict[str, Polynomial | None],
) -> Polynomial | None:  # fmt: skip
    """A value as a polynomial in the candidate argument; None if it is none."""
    if name in known or name not in operands:
        return known.get(name)
    # Marks the value as visited; the recursion ends at it.
    known[name] = None
    statement = made.get(name)
    if isinstance(statement, Constant):
        known[name] = {0: float(statement.value)}
    elif statement is not None and statement.dtype is float32 and statement.primitive in _RULES:
        args = [_polynomial(arg, operands, made, known) for arg in statement.args]
        if (parts := [arg for arg in args if arg is not None]) and len(parts) == len(args):
            result = _RULES[statement.primitive](*parts)
            known[name] = result if result and max(result) <= _DEGREE else None
    return known[name]


def _sum(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """None if coefficients may cancel: for infinite arguments the original gives NaN then."""
    if any(p[k] * q[k] <= 0 for k in p.keys() & q.keys()):
        return None
    return {k: p.get(k, 0.0) + q.get(k, 0.0) for k in {*p, *q}}


def _difference(p: Polynomial, q: Polynomial) -> Polynomial | None:
    return _sum(p, _negative(q))


def _negative(p: Polynomial) -> Polynomial:
    return {k: -c for k, c in p.items()}


def _product(p: Polynomial, q: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for j, c in p.items():
        for k, d in q.items():
            result[j + k] = result.get(j + k, 0.0) + c * d
    return result


def _power(p: Polynomial, q: Polynomial) -> Polynomial | None:
    exponent = q.get(0, 0.0)
    if set(q) != {0} or exponent not in (1.0, 2.0, 3.0):
        return None
    result = p
    for _ in range(int(exponent) - 1):
        result = _product(result, p)
    return result


_RULES: Final[dict[str, Callable[..., Polynomial | None]]] = {
    "add": _sum,
    "subtract": _difference,
    "multiply": _product,
    "negative": _negative,
    "elementwise_pow": _power,
}


def _is_close(found: Polynomial | None, wanted: Mapping[int, float]) -> bool:
    return (
        found is not None
        and set(found) == set(wanted)
        and all(abs(found[k] - c) <= _TOLERANCE * abs(c) for k, c in wanted.items())
    )
