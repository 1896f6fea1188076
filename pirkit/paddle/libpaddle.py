"""Paddle as an untyped module: it has no annotations of its own, and may not be installed.

Everything of this room that needs Paddle imports it from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

paddle: Any = import_module("paddle")
core: Any = import_module("paddle.base.core")
pir_core: Any = import_module("paddle.pir.core")
translator: Any = import_module("paddle.jit.dy2static.program_translator")


def listed(given: Any) -> list[Any]:
    """Paddle's results as a list: one tensor, or several."""
    return list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]


def leaves_of(inputs: tuple[Any, ...]) -> list[Any]:
    """The tensors and other values in a tree of arguments, in Paddle's order."""
    if all(isinstance(each, paddle.Tensor) for each in inputs):
        return list(inputs)
    return listed(paddle.utils.flatten(inputs))
