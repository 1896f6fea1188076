"""The builder with which rules emit ops: it knows the node, its types, and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from xdsl.dialects import builtin as mlir
from xdsl.ir import SSAValue

from pirkit.diag.errors import ParseError, UnsupportedError
from pirkit.diag.span import Span
from pirkit.dialect import unsigned_words
from pirkit.dialect.build import Builder, Value
from pirkit.dialect.opdef import lookup
from pirkit.dialect.operation import PirOp, ProgramOp
from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import TensorMeta
from pirkit.stablehlo.locations import place_of
from pirkit.stablehlo.nodes import Block, Module, Node, Place, Tensor

Array = np.ndarray[Any, Any]
Scope = dict[str, tuple[Value, Tensor]]

_SMALL: Final = 64
"""A constant of at most so many elements is an op of the program; a larger one is a parameter."""


class HloBuilder(Builder):
    """A builder that knows the node for which it emits.

    ``ins`` and ``outs`` are the types of the node's operands and results, ``scope`` the values of
    names, ``weights`` the constants that become parameters.
    """

    def __init__(self, program: ProgramOp, module: Module) -> None:
        super().__init__(program.block)
        self.program = program
        self.module = module
        self.weights: dict[str, Array] = {}
        self.node = Node("", 0)
        self.ins: list[Tensor] = []
        self.outs: list[Tensor] = []
        self.scope: Scope = {}
        self.calls = 0
        """The depth of nested calls of functions."""
        self.caller: Place | None = None
        """The line of Python of the call whose function is being emitted."""
        self.reflected: dict[SSAValue, Value] = {}
        """Factors of the reflectors of a QR factorization -> its Q."""
        self.iotas: dict[SSAValue, int] = {}
        """Result of an `iota` -> its dimension."""
        self.lanes = False
        """Whether a region on scalars is being emitted on whole tensors; see `elementwise`."""
        self.visit: Callable[[Node], None]
        self._elements: dict[SSAValue, Array] = {}
        self._places: dict[str | None, Place | None] = {}

    # --- messages ---

    def place_of(self, node: Node) -> Place | None:
        """The line of Python of a node, if the text names one, else of the call of its function."""
        if node.location not in self._places:
            self._places[node.location] = place_of(node.location, self.module.places)
        return self._places[node.location] or self.caller

    def span(self) -> Span:
        """The line of the text of the node."""
        return Span(self.module.file, self.node.line)

    def notes(self) -> tuple[str, ...]:
        """A note with the line of Python of the node."""
        place = self.place_of(self.node)
        return () if place is None else (f"from {place.file}:{place.line}",)

    def unsupported(self, what: str, help: str = "") -> UnsupportedError:
        """The error for a form of an operation that has no rule (PK0411)."""
        return UnsupportedError(
            f"`{self.node.name}` {what}", code="PK0411", span=self.span(), notes=self.notes(),
            help=help or "write the function with other operations, or add a rule with"
            " `pirkit.stablehlo.rule`",
        )  # fmt: skip

    def malformed(self, message: str, code: str = "PK0105") -> ParseError:
        """The error for an inconsistent text."""
        return ParseError(message, code=code, span=self.span(), notes=self.notes())

    # --- blocks ---

    def read(self, name: str) -> tuple[Value, Tensor]:
        """The value of a name, and its type. Raises ParseError (PK0103) for an undefined name."""
        if name not in self.scope:
            raise self.malformed(f"value `{name}` is not defined", "PK0103")
        return self.scope[name]

    def run(self, block: Block, values: Sequence[Value], scope: Scope | None = None) -> list[Value]:
        """Emit the nodes of a block, and give the values that it returns.

        ``values`` are its arguments, ``scope`` the names from outside that it may read, by default
        those of the current scope. Raises ParseError for a block that does not fit.
        """
        held = (self.scope, self.node, self.ins, self.outs, self.location)
        if len(values) != len(block.names):
            raise self.malformed(f"a block of {len(block.names)} arguments gets {len(values)}")
        self.scope = dict(self.scope if scope is None else scope)
        self.scope.update(zip(block.names, zip(values, block.types, strict=True), strict=True))
        try:
            *nodes, last = block.nodes or [Node("nothing", self.node.line)]
            for node in nodes:
                self.visit(node)
            self.node = last
            if not last.name.endswith(".return"):
                raise self.malformed("a block ends without a return", "PK0102")
            return [self.read(name)[0] for name in last.operands]
        finally:
            self.scope, self.node, self.ins, self.outs, self.location = held

    def elementwise(self, block: Block, values: Sequence[Value]) -> list[Value]:
        """Emit a region on scalars once, for all elements of tensors of equal shapes."""
        held, self.lanes = self.lanes, True
        try:
            return self.run(block, values)
        finally:
            self.lanes = held

    # --- constants ---

    def array(self, array: Array, name: str = "constant") -> Value:
        """A constant: one op if elements are few or equal, else a parameter of a fresh name."""
        dtype, first = dt.of_array(array), array.ravel()[:1]
        bits = array.tobytes()
        if array.size and bits == first.tobytes() * array.size and _is_exact(first.item()):
            return self.filled(first.item(), dtype, array.shape)
        if array.size == 0:
            return self.filled(0, dtype, array.shape)
        if dtype.is_complex and array.size <= _SMALL:
            return self.complex(self.array(array.real.copy()), self.array(array.imag.copy()))
        if array.size <= _SMALL:
            made = self("pd_op.assign_value", shape=array.shape, dtype=dtype,
                        values=tuple(array.ravel().tolist()))  # fmt: skip
        else:
            name = f"{name}_{len(self.weights)}"
            self.weights[name] = array
            made = self.parameter(name, TensorMeta(array.shape, dtype), trainable=False)
        self._elements[made.ssa] = array
        return made

    def filled(self, number: Any, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """A tensor whose elements are all ``number``."""
        if isinstance(number, complex):
            real = dt.REAL_OF[dtype]
            return self.complex(self.const(number.real, real, shape),
                                self.const(number.imag, real, shape))  # fmt: skip
        if dtype.is_complex:
            return self.filled(complex(number), dtype, shape)
        return self.const(number if dtype.is_float else int(number), dtype, shape)

    def number_of(self, x: Value) -> float | None:
        """The number that all elements of a constant are, or None."""
        owner = x.ssa.owner
        is_full = isinstance(owner, PirOp) and owner.name == "pd_op.full"
        return cast(float, cast(PirOp, owner).attribute("value")) if is_full else None

    def elements(self, x: Value) -> Array | None:
        """The elements of a constant, or None."""
        number = self.number_of(x)
        if number is not None:
            return np.full(x.shape, number).astype(x.dtype.np)
        return self._elements.get(x.ssa)

    def is_iota(self, x: Value, axis: int) -> bool:
        """Whether each element of a tensor is its index along a dimension."""
        return self.iotas.get(x.ssa) == axis

    # --- elements ---

    def apply(self, op: str, *xs: Value, **attributes: Any) -> Value:
        """An op on tensors of one type; integers and booleans that it lacks are taken as int32."""
        definition = lookup(f"pd_op.{op}")
        held = xs[0].dtype
        if held in (definition.dtypes or ()) or not (held.is_integer or held is dt.bool_):
            return self(definition, *xs, **attributes)
        made = self(definition, *[self.cast(x, dt.int32) for x in xs], **attributes)
        return made if made.dtype is dt.bool_ else self.cast(made, held)

    def ordered(self, x: Value, type_: Tensor) -> Value:
        """``x``, for comparisons: if it stands for unsigned numbers, signed ones in their order.

        Applied to its result it gives ``x`` again.
        """
        return unsigned_words.ordered(self, x) if type_.is_unsigned else x

    # --- shapes ---

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Values joined along an axis."""
        return values[0] if len(values) == 1 else self("pd_op.concat", list(values), axis=axis)

    def cut(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Every ``step``-th element of ``x`` from ``start`` to ``end`` of a dimension."""
        if step == 1:
            return super().cut(x, axis, start, end)
        return self("pd_op.strided_slice", x, starts=(start,), ends=(end,), strides=(step,),
                    axes=(axis,))  # fmt: skip

    def counted(self, size: int, dtype: DType = dt.int64) -> Value:
        """The numbers from 0 to ``size - 1``."""
        return self("pd_op.arange", start=0, end=size, step=1, dtype=dtype)


def _is_exact(number: Any) -> bool:
    """Whether the attribute of a constant, a float64, holds the number."""
    return not isinstance(number, int) or int(float(number)) == number


def location_at(place: Place) -> mlir.LocationAttr:
    """The MLIR location of a place."""
    return mlir.FileLineColLoc(mlir.StringAttr(place.file), mlir.IntAttr(place.line),
                               mlir.IntAttr(place.column))  # fmt: skip
