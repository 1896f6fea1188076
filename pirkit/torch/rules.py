"""The table from overloads of ATen to what pirkit emits for them.

A rule is a function of a builder and the arguments of the call: tensors are values of the program,
numbers and lists are Python's, sizes are known. It returns a value for each result. A family of
ops is a file of `pirkit/torch/aten`, in which plain cases are rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rule = Callable[..., Any]

RULES: Final[dict[str, Rule]] = {}
"""By the name of the overload: ``aten.add.Tensor``."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of overloads of ``aten``, such as ``add.Tensor``.

    A name without an overload is that of the overload ``default``; those of ``prims`` have one
    only, and are written as ``prims.fma``. Raises ValueError for an
    overload that has a rule.
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
