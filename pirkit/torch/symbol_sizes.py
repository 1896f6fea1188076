"""Numbers, shapes and orders in memory, where the symbols in sizes have certain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pirkit.diag.errors import UnsupportedError
from pirkit.runtime.dtype import DType
from pirkit.torch.element_types import OF_TORCH
from pirkit.torch.libtorch import torch


class SymbolSizes:
    """Evaluates numbers and shapes of a graph for certain sizes of its symbols."""

    def __init__(self, sizes: Mapping[Any, int]) -> None:
        self.held = dict(sizes)

    def number(self, given: Any) -> Any:
        """A number, with symbols replaced by their sizes; what is no symbol as it is.

        Raises UnsupportedError (PK0406) for a number that depends on data.
        """
        node = getattr(given, "node", None)
        if node is None:
            return given
        if isinstance(given, torch.SymInt | torch.SymFloat | torch.SymBool):
            known = node.expr.xreplace(self.held) if hasattr(node.expr, "xreplace") else node.expr
            if isinstance(given, torch.SymBool):
                return bool(known)
            if getattr(known, "free_symbols", None):
                raise UnsupportedError(
                    f"a size depends on data: {known}",
                    code="PK0406",
                    help="let the graph break there (`torch._dynamo.graph_break()`)",
                )
            return int(known) if isinstance(given, torch.SymInt) else float(known)
        return given

    def is_known(self, number: Any) -> bool:
        """Whether the sizes determine a number."""
        expression = getattr(getattr(number, "node", None), "expr", None)
        return set(getattr(expression, "free_symbols", ())) <= self.held.keys()

    def meta(self, fake: Any) -> tuple[tuple[int, ...], DType]:
        """Shape and element type of a fake tensor.

        Raises UnsupportedError (PK0403) for an element type or a layout that pirkit lacks.
        """
        dtype = OF_TORCH.get(fake.dtype)
        if dtype is None or fake.layout is not torch.strided:
            raise UnsupportedError(
                f"a tensor of {fake.dtype}, {fake.layout}", code="PK0403",
                help="leave its part of the model uncompiled (`torch.compiler.disable`)",
            )  # fmt: skip
        return tuple([self.number(n) for n in fake.shape]), dtype

    def order(self, fake: Any) -> tuple[int, ...] | None:
        """The dimensions of a dense tensor, from the outermost in memory to the innermost.

        None for a contiguous tensor, and for one whose elements have gaps or overlap.
        """
        shape = [self.number(n) for n in fake.shape]
        strides = [self.number(n) for n in fake.stride()]
        order = sorted(range(len(shape)), key=lambda d: (-strides[d], d))
        moved = [d for d in order if shape[d] != 1]
        if moved == sorted(moved):
            return None
        step = 1
        for d in reversed(order):
            if shape[d] != 1 and strides[d] != step:
                return None
            step *= shape[d]
        return tuple(order)
