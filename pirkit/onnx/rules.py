"""The table from operators of ONNX to what pirkit emits for them.

A rule is a function of a builder, the inputs of a node (values; None for one left out) and its
attributes as keywords: numbers, strings, lists, arrays. Versions of an operator differ in what is
an attribute and what an input, so that one function mostly serves all; it finds the version of the
operator set in ``b.opset``. It returns a value, or one for each output. A family of operators is a
file of `pirkit/onnx/ops`, in which plain cases are rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rule = Callable[..., Any]

RULES: Final[dict[str, Rule]] = {}
"""By the name of the operator."""
CONTRIBUTED: Final[dict[str, Rule]] = {}
"""Those of operators of the domain ``com.microsoft``."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of operators. Raises ValueError for one that has a rule."""

    def enter(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two rules")
            RULES[name] = function
        return function

    return enter
