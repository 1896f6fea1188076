"""The only place where text becomes Python code, for functions of one structure of arguments.

No text comes from a file. It consists of fixed words, of subscripts of containers, and of attribute
names that Python has accepted as such; every other object is passed as a value under a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def function_of(head: str, lines: Sequence[str], names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function ``def head:`` with these lines as body, in which ``names`` are known."""
    known = dict(names)
    text = "\n".join([f"def {head}:", *[f"    {line}" for line in lines]])
    exec(compile(text, "<pirkit.jit>", "exec"), known)
    return known[head.partition("(")[0]]


def value_of(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over ``names``. Raises what its evaluation raises."""
    return eval(expression, {}, names)
