"""The table from operations of StableHLO to the rules that emit ops for them.

A rule is a function of a builder, the operands (values) and the attributes as keywords, by the
names of the generic form: numbers, strings, lists, dictionaries, `Dense` constants. It returns a
value, or a sequence with one for each result. The builder has the rest: ``b.ins`` and ``b.outs``
are the types of operands and results, which say what is unsigned, ``b.node.regions`` the regions.
A family of operations is a file of `pirkit/stablehlo/ops`, in which plain cases are rows of a
table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rule = Callable[..., Any]

RULES: Final[dict[str, Rule]] = {}
"""Name of the operation with its dialect -> rule; a custom call is ``custom_call:target``."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of operations. Raises ValueError for one that has a rule."""

    def enter(function: Rule) -> Rule:
        for name in names:
            full = name if "." in name or ":" in name else f"stablehlo.{name}"
            if full in RULES:
                raise ValueError(f"{full} has two rules")
            RULES[full] = function
        return function

    return enter
