"""The one place where text becomes code: functions made for one structure of arguments.

Nothing from a file comes here. The text consists of words of our own, of places in containers, and
of attribute names that Python has accepted as such; everything else is a value that has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def function_of(head: str, lines: Sequence[str], names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function ``def head:`` of these lines, in which ``names`` are known."""
    known = dict(names)
    text = "\n".join([f"def {head}:", *[f"    {line}" for line in lines]])
    exec(compile(text, "<pirkit.jit>", "exec"), known)
    return known[head.partition("(")[0]]


def value_of(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression over ``names``."""
    return eval(expression, {}, names)
