"""The table from operators of ONNX to the rules that emit ops for them.

A rule is a function of a builder, the inputs of a node (values; None for one that is left out) and
its attributes as keywords: numbers, strings, lists, arrays. It returns a value, or a tuple with one
for each output. Versions of an operator mostly differ in what is an attribute and what an input, so
one function serves all versions; ``b.opset`` is the version of the operator set. A family of
operators is a file of `pirkit/onnx/ops`, in which plain cases are rows of a table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Rule = Callable[..., Any]

RULES: Final[dict[str, Rule]] = {}
"""Name of the operator -> rule."""
CONTRIBUTED: Final[dict[str, Rule]] = {}
"""The same for operators of the domain ``com.microsoft``."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of operators. Raises ValueError for one that has a rule."""

    def enter(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} has two rules")
            RULES[name] = function
        return function

    return enter
