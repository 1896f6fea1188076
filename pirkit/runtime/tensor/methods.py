"""Numpy's methods and properties, for eager tensors and traced values.

Every method calls ``_apply`` with the name of numpy's function: a tensor computes it, a traced
value records it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from pirkit.diag.errors import ArgumentError
from pirkit.runtime.dtype import DType
from pirkit.runtime.tensor.meta_cache import DTypeLike
from pirkit.runtime.tensor.updates import At

Axis = int | Sequence[int] | None


class TensorMethods:
    """Methods of numpy's arrays, with numpy's parameters.

    ``out`` exists because numpy's functions pass it (``np.sum(t)`` calls ``t.sum(out=None)``); any
    other value raises UsageError. ``keepdim`` is Paddle's spelling of ``keepdims``.
    """

    __slots__ = ()

    def _apply(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Apply numpy's function of a name to this value and the arguments."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def dtype(self) -> DType:
        raise NotImplementedError

    # --- properties ---

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def T(self) -> Self:
        """The value with its axes reversed."""
        return self._apply("transpose")

    @property
    def mT(self) -> Self:
        """The last two axes exchanged."""
        return self._apply("matrix_transpose")

    @property
    def real(self) -> Self:
        return self._apply("real")

    @property
    def imag(self) -> Self:
        return self._apply("imag")

    @property
    def at(self) -> At:
        """Updates that make a new value: ``x.at[i].set(v)``, ``add``, ``multiply``, ``max``..."""
        return At(self)

    # --- reductions ---

    def _reduced(self, name: str, axis: Axis, keepdims: bool, out: None, **options: Any) -> Self:
        _without(name, out)
        return self._apply(name, axis=axis, keepdims=keepdims, **options)

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        keepdim: bool = False,
    ) -> Self:
        """The sum over some axes, all of them by default."""
        return self._reduced(
            "sum", axis, keepdims or keepdim, out, **_typed(dtype), **_given(initial, where)
        )

    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The product over some axes, all of them by default."""
        return self._reduced("prod", axis, keepdims, out, **_typed(dtype), **_given(initial, where))

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        keepdim: bool = False,
    ) -> Self:
        """The mean over some axes, all of them by default."""
        return self._reduced(
            "mean", axis, keepdims or keepdim, out, **_typed(dtype), **_given(None, where)
        )

    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float = 0,
    ) -> Self:
        """The variance over some axes, all of them by default."""
        less = ddof or correction
        return self._reduced("var", axis, keepdims, out, ddof=less, **_typed(dtype))

    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float = 0,
    ) -> Self:
        """The standard deviation over some axes, all of them by default."""
        less = ddof or correction
        return self._reduced("std", axis, keepdims, out, ddof=less, **_typed(dtype))

    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The largest element over some axes, all of them by default."""
        return self._reduced("max", axis, keepdims, out, **_given(initial, where))

    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Self:
        """The smallest element over some axes, all of them by default."""
        return self._reduced("min", axis, keepdims, out, **_given(initial, where))

    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Self:
        """True where some element is not zero."""
        return self._reduced("any", axis, keepdims, out, **_given(None, where))

    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Self:
        """True where no element is zero."""
        return self._reduced("all", axis, keepdims, out, **_given(None, where))

    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Self:
        """The index of the first largest element, of the flattened value by default."""
        return self._reduced("argmax", axis, keepdims, out)

    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Self:
        """The index of the first smallest element, of the flattened value by default."""
        return self._reduced("argmin", axis, keepdims, out)

    def cumsum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
    ) -> Self:
        """The cumulative sum along an axis, of the flattened value by default."""
        _without("cumsum", out)
        return self._apply("cumsum", axis=axis, **_typed(dtype))

    def cumprod(
        self, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
    ) -> Self:
        """The cumulative product along an axis, of the flattened value by default."""
        _without("cumprod", out)
        return self._apply("cumprod", axis=axis, **_typed(dtype))

    # --- shapes ---

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> Self:
        """The elements in another shape, of which one size may be -1; by columns for order "F"."""
        return self._apply("reshape", shape[0] if len(shape) == 1 else shape, **_ordered(order))

    def ravel(self, order: str = "C") -> Self:
        """The elements along one axis."""
        return self._apply("reshape", (-1,), **_ordered("C" if order == "K" else order))

    def flatten(self, order: str = "C") -> Self:
        """A copy of the elements along one axis."""
        return self.ravel(order)

    def transpose(self, *axes: int | Sequence[int] | None) -> Self:
        """The axes in another order; without axes, in reverse."""
        if not axes:
            return self._apply("transpose")
        return self._apply("transpose", axes[0] if not isinstance(axes[0], int) else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged."""
        return self._apply("swapaxes", axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Self:
        """The value without axes of size 1: all of them by default."""
        return self._apply("squeeze", axis=axis)

    def take(
        self, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise"
    ) -> Self:
        """The elements at integer indices along an axis."""
        _without("take", out)
        options = {} if mode == "raise" else {"mode": mode}
        return self._apply("take", indices, axis=axis, **options)

    def repeat(self, repeats: int, axis: int | None = None) -> Self:
        """Each element repeated several times."""
        return self._apply("repeat", repeats, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The elements whose indices along two axes differ by ``offset``."""
        return self._apply("diagonal", offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The sum of a diagonal."""
        return self._apply("trace", offset, axis1, axis2)

    # --- elements ---

    def clip(self, min: Any = None, max: Any = None, out: None = None) -> Self:
        """The elements clipped to an interval; either limit may be None."""
        _without("clip", out)
        return self._apply("clip", min, max)

    def round(self, decimals: int = 0, out: None = None) -> Self:
        """The elements rounded, ties to even."""
        _without("round", out)
        return self._apply("round", decimals)

    def dot(self, other: Any) -> Self:
        """The inner product of vectors or the matmul of matrices, as numpy's ``dot``."""
        return self._apply("dot", other)

    def conj(self) -> Self:
        """The complex conjugate."""
        return self._apply("conj") if self.dtype.is_complex else self

    def conjugate(self) -> Self:
        """The complex conjugate."""
        return self.conj()

    def argsort(self, axis: int | None = -1, kind: str | None = None) -> Self:
        """The indices that sort the elements in ascending order along an axis."""
        return self._apply("argsort", axis=axis, **({} if kind is None else {"kind": kind}))

    def searchsorted(self, v: Any, side: str = "left") -> Self:
        """The positions at which elements would be inserted into this sorted vector."""
        return self._apply("searchsorted", v, side=side)

    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """The largest element less the smallest one over some axes, all of them by default."""
        return self._reduced("ptp", axis, keepdims, out)

    def __round__(self, ndigits: int | None = None) -> Self:
        return self._apply("round", ndigits or 0)


def _typed(dtype: DTypeLike | None) -> dict[str, Any]:
    return {} if dtype is None else {"dtype": dtype}


def _ordered(order: str) -> dict[str, Any]:
    return {} if order == "C" else {"order": order}


def _given(initial: Any, where: Any) -> dict[str, Any]:
    """The options ``initial`` and ``where``, as far as given; numpy passes True for no mask."""
    found = {} if initial is None else {"initial": initial}
    return found if where is None or where is True else found | {"where": where}


def _without(name: str, out: Any) -> None:
    if out is not None:
        raise ArgumentError(
            f"`{name}` of a tensor does not write into `out`",
            help="use its result, or assign it: `out[...] = result`",
        )
