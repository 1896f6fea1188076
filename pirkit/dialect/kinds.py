"""The kinds of ops by what they compute, and the costs and traits of their records.

The record of an op (`opdef.py`) declares its kind, its scalar cost and its traits, or its family
declares the kind for all of its ops (``KIND = "reduction"`` at the top of the file). Passes, split,
fusion and code generation read the record, so an op of a plug-in is treated like pirkit's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecomputeCost(IntEnum):
    """How expensive an operation is; the split recomputes operations up to a given cost."""

    NOTHING = 0
    """Building a list: no data moves."""
    FREE = 1
    """Constants, casts, broadcasts, views: as fast as reading the result."""
    CHEAP = 2
    """One traversal of the elements, or a few."""
    EXPENSIVE = 3
    """Contractions, sorting, regions, and everything that is not classified."""
    NEVER = 4
    """Operations with an effect, and random ones: a second draw gives other numbers."""


UNSTATED: Final = ""
CONSTANT: Final = "constant"
VIEW: Final = "view"
ELEMENTWISE: Final = "elementwise"
MOVEMENT: Final = "movement"

KINDS: Final[dict[str, RecomputeCost]] = {
    UNSTATED: RecomputeCost.EXPENSIVE,
    CONSTANT: RecomputeCost.FREE,
    VIEW: RecomputeCost.FREE,
    ELEMENTWISE: RecomputeCost.CHEAP,
    MOVEMENT: RecomputeCost.CHEAP,
    "reduction": RecomputeCost.CHEAP,
    "scan": RecomputeCost.CHEAP,
    "gather": RecomputeCost.CHEAP,
    "scatter": RecomputeCost.CHEAP,
    "window": RecomputeCost.CHEAP,
    "normalization": RecomputeCost.CHEAP,
    "contraction": RecomputeCost.EXPENSIVE,
    "sort": RecomputeCost.EXPENSIVE,
    "factorization": RecomputeCost.EXPENSIVE,
    "transform": RecomputeCost.EXPENSIVE,
    "random": RecomputeCost.EXPENSIVE,
    "update": RecomputeCost.EXPENSIVE,
    "algorithm": RecomputeCost.EXPENSIVE,
    "structure": RecomputeCost.EXPENSIVE,
}
"""Each kind, and the cost class of an op of that kind unless its record says that it is free."""

DATA_MOVEMENT: Final = frozenset({VIEW, MOVEMENT, "gather", "scatter"})
"""Kinds of ops that move elements, whatever their type is."""

CONSTANT_LIKE: Final = "constant_like"
SOURCE: Final = "source"
PARAMETER: Final = "parameter"
SINK: Final = "sink"
OUTPUT: Final = "output"
TERMINATOR: Final = "terminator"
LIST: Final = "list"
BRANCH: Final = "branch"
LOOP: Final = "loop"
STACK: Final = "stack"
ALIAS: Final = "alias"
DETACH: Final = "detach"
NONNEGATIVE: Final = "nonnegative"
KEEPS_SIGN: Final = "keeps_sign"
RESHAPE: Final = "reshape"
CONVOLUTION: Final = "convolution"
TRANSPOSED: Final = "transposed_convolution"
CUMULATIVE_SUM: Final = "cumulative_sum"
CUMULATIVE_PRODUCT: Final = "cumulative_product"
CUMULATIVE_MAXIMUM: Final = "cumulative_maximum"
CUMULATIVE_MINIMUM: Final = "cumulative_minimum"
SORT: Final = "sort"
TAKE: Final = "take"
IDEMPOTENT: Final = "idempotent"
INVOLUTION: Final = "involution"
SELECTIVE: Final = "selective"
INTEGRAL: Final = "integral"
EXACT: Final = "exact"
COPY: Final = "copy"
DERIVATIVE: Final = "derivative"

TRAITS: Final[dict[str, str]] = {
    CONSTANT_LIKE: "holds its result in its attributes",
    SOURCE: "stands for a value that the host provides: an input, parameter or buffer",
    PARAMETER: "stands for a value that lives with the model",
    SINK: "gives a value a name under which the host reads it when the program has ended",
    OUTPUT: "names an output of the program",
    TERMINATOR: "ends a block",
    LIST: "makes a list of values or takes one apart",
    BRANCH: "runs regions and yields their results",
    LOOP: "runs a region repeatedly",
    STACK: "works on a stack, which holds copies",
    ALIAS: "gives an operand another name; reads no element",
    DETACH: "is what `detach` records: a mark on its result stops gradients, whatever is marked",
    NONNEGATIVE: "no element of the result is negative",
    KEEPS_SIGN: "no element of the result is negative if none of the operands is",
    RESHAPE: "the result has the elements of the operand in the same order",
    CONVOLUTION: "a convolution, transposed ones included",
    TRANSPOSED: "a transposed convolution",
    CUMULATIVE_SUM: "sums of the elements up to each one along an axis",
    CUMULATIVE_PRODUCT: "products of the elements up to each one along an axis",
    CUMULATIVE_MAXIMUM: "maxima of the elements up to each one along an axis, and their places",
    CUMULATIVE_MINIMUM: "minima of the elements up to each one along an axis, and their places",
    SORT: "elements along an axis in their order, or the first of them, and their places",
    TAKE: "the slices of `x` at `index`, a vector, along `axis`",
    IDEMPOTENT: "f(f(x)) = f(x)",
    INVOLUTION: "f(f(x)) = x",
    SELECTIVE: "f(x, x) = x",
    DERIVATIVE: "stands for derivatives, which a pass computes by other ops",
    COPY: "the result is always memory of its own",
    EXACT: "the result is an element, or has no more digits than one: nothing is rounded",
    INTEGRAL: "the result is an integer of the operand's element type",
}
"""Each trait, and what it guarantees about an op."""

COSTLY: Final = 10
"""Scalar cost, in additions, from which an elementwise op counts as expensive to recompute:
transcendental functions."""
