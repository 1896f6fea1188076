"""The builder with which rules for ATen's overloads emit operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pirkit.dialect.attrs import encode
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.operation import ProgramOp
from pirkit.runtime.dtype import COMPLEX_OF, DType
from pirkit.torch.element_types import OF_TORCH
from pirkit.torch.libtorch import prims_common, torch

_PART: Final = {whole: part for part, whole in COMPLEX_OF.items()}
"""By complex element type, the real type of its parts."""

Kinds: Any = prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND


def plain_number(given: Any) -> Any:
    """A number of the type of a symbol, for type promotion; what is no symbol as it is."""
    for symbol, number in ((torch.SymFloat, 1.0), (torch.SymInt, 1), (torch.SymBool, True)):
        if isinstance(given, symbol):
            return number
    return given


class AtenBuilder(Builder):
    """A builder that knows the call of ATen for which it emits.

    ``node`` is that call; ``shapes`` and ``types`` are those that torch infers for its results.
    ``read`` gives the value of a node of the graph, and numbers for symbols.
    """

    def __init__(self, program: ProgramOp, read: Callable[[Any], Any]) -> None:
        super().__init__(program.block)
        self.program, self.read = program, read
        self.node: Any = None
        self.given: list[Value] = []
        """Inputs of the graph of a branch or loop."""
        self.shapes: list[tuple[int, ...]] = []
        self.types: list[DType] = []

    def stopped(self, x: Value) -> Value:
        """``x`` as a value of its own, through which no gradient flows."""
        made = self("pd_op.assign", x)
        made.ssa.owner.attributes["stop_gradient"] = encode("bool[]", (True,))
        return made

    def custom(
        self, y: Value, xs: Sequence[Value], seed: Value, found: Sequence[Value]
    ) -> Value:  # fmt: skip
        """``y`` with a derivative of its own.

        ``seed`` stands for the cotangent of ``y``; ``found``, which is computed from it, are the
        cotangents of ``xs``.
        """
        return self("pir.custom_derivative", y, *xs, seed, *found,
                    outputs=1, inputs=len(xs), forward=False)  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.shapes[0]

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.types[0]

    def is_used(self, number: int) -> bool:
        """Whether a node of the graph reads the result of that index, of a call with several."""
        return any(user.args[1] == number for user in self.node.users)

    def promoted(self, *arguments: Any, kind: Any = None) -> tuple[list[Any], DType]:
        """Arguments in the type in which torch computes, and the type of the result.

        Types follow torch's promotion of ``kind`` (`torch._prims_common.elementwise_dtypes`): a
        number, and a tensor without dimensions, counts less than a tensor with some. Half precision
        is computed in float32.
        """
        kind = kind or Kinds.DEFAULT
        given = self.node.args[: len(arguments)]
        fakes = [plain_number(a.meta["val"]) if hasattr(a, "meta") else a for a in given]
        inner, outer = prims_common.elementwise_dtypes(*fakes, type_promotion_kind=kind)
        computed = OF_TORCH[inner]
        typed = [self.typed(a, computed) for a in arguments]
        return typed, OF_TORCH[outer]

    def typed(self, x: Any, dtype: DType) -> Value:
        """A value or a number in an element type."""
        if isinstance(x, complex):
            part = _PART[dtype]
            return self.complex(self.const(x.real, part), self.const(x.imag, part))
        return self.cast(x, dtype) if isinstance(x, Value) else self.const(x, dtype)

    def axes(self, x: Value, dim: int | Sequence[int] | None) -> tuple[int, ...]:
        """Dimensions of a reduction, counted from the front; none given means all."""
        rank = max(x.rank, 1)
        if dim is None or dim == [] or dim == ():
            return tuple(range(x.rank))
        listed = [dim] if isinstance(dim, int) else list(dim)
        return tuple([d % rank for d in listed]) if x.rank else ()

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` broadcast to a shape."""
        return self.expanded(x, shape)
