"""A value of a program under construction, with the operators of arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

from xdsl.ir import SSAValue

from pirkit.dialect.opdef import OpDef
from pirkit.dialect.types import meta_of
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta

Number = bool | int | float | complex


class Arithmetic(Protocol):
    """The interface of the builder to which a value belongs."""

    def __call__(self, op: str | OpDef, *operands: Any, **attrs: Any) -> Any:
        """Emit an op."""
        ...

    def binary(self, op: str, x: Value | Number, y: Value | Number) -> Value:
        """A binary op, of which one operand may be a Python number."""
        ...

    def scaled(self, x: Value, factor: Number) -> Value:
        """``x * factor``."""
        ...

    def power(self, x: Value, exponent: Number) -> Value:
        """``x ** exponent``."""
        ...

    def sum(self, x: Value, axis: Sequence[int], *, keepdim: bool = False) -> Value:
        """The sum over some axes."""
        ...

    def reshape(self, x: Value, shape: Sequence[int] | Value) -> Value:
        """``x`` with other dimensions."""
        ...

    def indexed(self, x: Value, index: tuple[Any, ...]) -> Value:
        """``x[index]``."""
        ...

    def value(self, given: Any, like: Value | None = None) -> Any:
        """A value, array or number as a value of the program."""
        ...

    def call(self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A call of an op as users write it."""
        ...


class Value:
    """A value of the program under construction, with the operators of arithmetic.

    Python numbers take the value's element type, exactly: they never pass through float32.
    """

    __slots__ = ("b", "ssa")
    __array_ufunc__ = None
    """Makes numpy defer to this class for operators with an array on the left."""

    weak: type[Any] | None = None
    """The Python type of the number that the value stands for, which promotes as that does."""

    def __init__(self, b: Arithmetic, ssa: SSAValue) -> None:
        self.b = b
        self.ssa = ssa

    @property
    def meta(self) -> TensorMeta:
        return cast(TensorMeta, meta_of(self.ssa.type))

    @property
    def any_meta(self) -> Meta:
        """The meta of a value that may be a list."""
        return meta_of(self.ssa.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, ``UNKNOWN`` where the program does not tell."""
        return self.meta.shape

    @property
    def dtype(self) -> DType:
        return self.meta.dtype

    @property
    def rank(self) -> int:
        return len(self.meta.shape)

    def __add__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.subtract", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.b.binary("pd_op.subtract", other, self)

    def __mul__(self, other: Value | Number) -> Value:
        if isinstance(other, bool | int | float | complex):
            return self.b.scaled(self, other)
        return self.b.binary("pd_op.multiply", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.divide", self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.b.binary("pd_op.divide", other, self)

    def __neg__(self) -> Value:
        return self.b.scaled(self, -1)

    def __pow__(self, exponent: Number) -> Value:
        return self.b.power(self, exponent)

    def __matmul__(self, other: Value) -> Value:
        return self.b("pd_op.matmul", self, other)

    def __lt__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.less_than", self, other)

    def __le__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.less_equal", self, other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.greater_than", self, other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.b.binary("pd_op.greater_equal", self, other)

    def __pirkit_call__(
        self, definition: OpDef, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Called by a ``pirkit.ops`` function that has the value among its arguments."""
        return self.b.call(definition, args, keywords)

    __iter__ = None  # no index ends an iteration: a slice beyond the end is empty

    def __getitem__(self, index: Any) -> Value:
        """Basic indexing: integers, slices with positive steps, ``...`` and None."""
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        return self.b.indexed(self, parts)

    @property
    def T(self) -> Value:
        """The value with its axes reversed."""
        return self.b("pd_op.transpose", self, perm=tuple(reversed(range(self.rank))))

    def sum(self, axis: int | Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """The sum over some axes, all of them by default."""
        return self.b.sum(self, self._axes(axis), keepdim=keepdim)

    def mean(self, axis: int | Sequence[int] | None = None, keepdim: bool = False) -> Value:
        """The mean over some axes, all of them by default."""
        return self.b("pd_op.mean", self, axis=self._axes(axis), keepdim=keepdim)

    def reshape(self, *shape: int) -> Value:
        """The value with other dimensions."""
        return self.b.reshape(self, shape)

    def _axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.rank))
        return (axis,) if isinstance(axis, int) else tuple(axis)

    def __repr__(self) -> str:
        return f"Value({self.any_meta})"


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor; None for a part that is zero."""

    real: Value | None
    imag: Value | None

    def known(self) -> Value:
        """A part that is not zero, for its shape and element type."""
        found = self.imag if self.real is None else self.real
        assert found is not None
        return found
