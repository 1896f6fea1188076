"""Random numbers: torch's generator draws them before the call, in the order of the graph.

They are inputs of the program, so forward and backward see the same ones, and the numbers are those
that the uncompiled function draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.torch.aten_builder import AtenBuilder
from pirkit.torch.libtorch import torch

Draw = Callable[[], Any]
"""Draws one tensor."""

LIKE: Final = (
    "rand", "randn", "randint", "randint.low", "randperm", "rand_like", "randn_like",
    "randint_like", "randint_like.low_dtype", "bernoulli.p", "uniform", "normal_functional",
    "normal.float_float", "exponential", "cauchy", "geometric", "log_normal", "random",
    "random.from", "random.to",
)  # fmt: skip
"""Overloads of random draws that read no more of a tensor than its shape, strides and type."""

_NAMES: Final = {f"aten.{n}" if "." in n else f"aten.{n}.default" for n in LIKE}
DROPOUT: Final = "aten.native_dropout.default"


def draw_of(node: Any, arguments: Any, options: Any) -> Draw | None:
    """How to draw what a node draws; None for one that draws nothing, or reads data for it.

    ``arguments`` are those of the node, with a `Like` for each tensor.
    """
    name = str(node.target)
    if name == DROPOUT:
        like, p, *training = arguments
        return None if training == [False] else _mask(like, p)
    if name not in _NAMES:
        return None

    def draw() -> Any:
        given = [a.empty() if isinstance(a, Like) else a for a in arguments]
        return node.target(*given, **options)

    return draw


class Like:
    """Shape, strides and torch type of a tensor of which nothing else is read.

    The strides count, because torch draws in the order of memory.
    """

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> None:
        self.model = torch.empty_strided(shape, strides, dtype=dtype, device="meta")

    def empty(self, dtype: Any = None) -> Any:
        """A tensor as ``empty_like`` makes it."""
        return torch.empty_like(self.model, dtype=dtype, device="cpu")


def _mask(like: Like, p: float) -> Draw:
    return lambda: like.empty(torch.bool).bernoulli_(1.0 - p)


def dropped(b: AtenBuilder, x: Value, mask: Value, p: float) -> tuple[Value, Value]:
    """The two results of `native_dropout` for a mask: ``x`` scaled where it is kept, the mask."""
    factor = 0.0 if p == 1 else 1 / (1 - p)
    kept = b.multiply(x, b.cast(mask, x.dtype))
    return kept * factor, mask
