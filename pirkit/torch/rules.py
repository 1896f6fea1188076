"""The table from overloads of ATen to the rules that emit operations for them.

A rule is a function of a builder and the arguments of the call: tensors are values of the program,
numbers and lists are Python's, sizes are known. It returns one value, or a sequence with one for
each result; or NotImplemented, and then torch computes the call. Each file of `pirkit/torch/aten`
holds the rules of one family of ops, simple ones as entries of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rule = Callable[..., Any]

RULES: Final[dict[str, Rule]] = {}
"""The rules by the name of the overload, such as ``aten.add.Tensor``."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of overloads of ``aten``, such as ``add.Tensor``.

    A name without an overload is that of the overload ``default``; ops of ``prims`` have no other
    one, and are written as ``prims.fma``. Raises ValueError for an overload that has a rule.
    """

    def enter(function: Rule) -> Rule:
        for name in names:
            is_prim = name.startswith("prims.")
            full = name if "." in name and not is_prim else f"{name}.default"
            key = full if is_prim else f"aten.{full}"
            if key in RULES:
                raise ValueError(f"{key} has two rules")
            RULES[key] = function
        return function

    return enter
