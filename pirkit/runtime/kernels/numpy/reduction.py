"""Reductions to sums, means, products, extrema, truth values and norms.

On the CPU they are the ``reduce`` of a ufunc, which costs less to call than the function of the
same meaning; other array modules have the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import HALF_TYPES, Array, Bind, Binding, Step
from pirkit.runtime.kernels.numpy.summation import Sum, keepdims_shape, summation
from pirkit.runtime.registry import kernel

_FLOATING: Final = (*dt.FLOATS, *dt.COMPLEX)
_EXTREMA: Final[dict[str, np.ufunc]] = {"max": np.maximum, "min": np.minimum}
_SHORT: Final = 16
_MANY: Final = 256
"""For at least ``_MANY`` rows of at most ``_SHORT`` elements, one ufunc call over all rows for each
place in a row is faster than numpy's reduction, which has a fixed cost for each row."""


def _axes(b: Binding) -> tuple[int, ...]:
    """The axes of the call: all if ``reduce_all``, or if ``axis`` is empty."""
    return tuple(range(b.input().rank)) if b.attrs.get("reduce_all") else b.axes()


def _sum(b: Binding, axes: Sequence[int]) -> Sum:
    return summation(b, b.input().shape, b.dtype, axes, b.output().dtype)


@kernel("sum", dtypes=dt.ANY, widen=True, portable=True)
def sum_(b: Binding) -> Step | None:
    """Sums in the type of the result, if it holds every element of ``x`` and their sums."""
    target = b.output().dtype
    if target in HALF_TYPES or not np.can_cast(b.dtype.np, target.np):
        return None
    return _sum(b, b.axes())


@kernel("reduce_as", dtypes=dt.NUMBERS, widen=True, portable=True)
def reduce_as(b: Binding) -> Step:
    """Sums over the axes that broadcasting to the shape of ``x`` adds or expands."""
    shape, target = b.input().shape, b.input(1).shape
    aligned = (1,) * (len(shape) - len(target)) + target
    total = _sum(b, [i for i, (d, t) in enumerate(zip(shape, aligned, strict=True)) if d != t])

    def step(x: Array, _: Array, out: Array) -> None:
        total(x, out)

    return step


@kernel("mean", "mean_all", dtypes=_FLOATING, widen=True, portable=True)
def mean(b: Binding) -> Step:
    """The sum, divided by the number of elements."""
    axes = b.axes() if "axis" in b.attrs else tuple(range(b.input().rank))
    total, divide = _sum(b, axes), b.xp.divide
    count = prod(b.input().shape[i] for i in axes)

    def step(x: Array, out: Array) -> None:
        total(x, out)
        divide(out, count, out)

    return step


@kernel("prod", dtypes=dt.NUMBERS, widen=True, portable=True)
def product(b: Binding) -> Step:
    """One call; numpy multiplies in the type of ``x``."""
    axes, reduce = _axes(b), _reducer(b, np.multiply, "prod")
    reduced_shape, accumulator = keepdims_shape(b.input().shape, axes), b.dtype.np

    def step(x: Array, out: Array) -> None:
        reduce(x, axes, accumulator, out=out.reshape(reduced_shape), keepdims=True)

    return step


def _reducer(b: Binding, combine: np.ufunc, name: str) -> Callable[..., Any]:
    return combine.reduce if b.xp is np else getattr(b.xp, name)


def _extremum(name: str) -> Bind:
    """The greatest or least element."""
    return lambda b: _extreme(b, name, b.axes())


def _extreme(b: Binding, name: str, axes: tuple[int, ...]) -> Step:
    """The extremum over some axes; NaN is propagated."""
    combine = _EXTREMA[name]
    shape, reduce = b.input().shape, _reducer(b, combine, name)
    reduced_shape = keepdims_shape(shape, axes)
    before, size, after = _three(shape, axes)

    def step(x: Array, out: Array) -> None:
        reduce(x, axes, out=out.reshape(reduced_shape), keepdims=True)

    def short(x: Array, out: Array) -> None:
        rows, out = x.reshape(before, size, after), out.reshape(before, after)
        np.copyto(out, rows[:, 0])
        for i in range(1, size):
            combine(out, rows[:, i], out=out)

    is_short = 1 < size <= _SHORT and after <= _SHORT and before * after >= _MANY
    return short if is_short and b.xp is np else step


def _three(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int]:
    """The dimensions before, along and after the axes; zeros if those are no neighbours."""
    if not axes or axes[-1] - axes[0] != len(axes) - 1:
        return 0, 0, 0
    first, last = axes[0], axes[-1] + 1
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


kernel("max", "amax", dtypes=dt.REAL, widen=True, portable=True)(_extremum("max"))
kernel("min", "amin", dtypes=dt.REAL, widen=True, portable=True)(_extremum("min"))


def _quantifier(combine: np.ufunc, name: str) -> Bind:
    """Whether any element, or every one, is not zero."""

    def bind(b: Binding) -> Step:
        axes, reduce = b.axes(), _reducer(b, combine, name)
        reduced_shape = keepdims_shape(b.input().shape, axes)

        def step(x: Array, out: Array) -> None:
            reduce(x, axes, out=out.reshape(reduced_shape), keepdims=True)

        return step

    return bind


kernel("any", dtypes=(dt.bool_, *dt.REAL), widen=True, portable=True)(
    _quantifier(np.logical_or, "any")
)
kernel("all", dtypes=(dt.bool_, *dt.REAL), widen=True, portable=True)(
    _quantifier(np.logical_and, "all")
)


# --- norms ---------------------------------------------------------------------------------------


def _squares(b: Binding, axes: tuple[int, ...]) -> Sum:
    """The sum of squares of real elements: of rows as dot products, else of a squared copy."""
    shape, dot, multiply = b.input().shape, np.vecdot, np.multiply
    before, size, after = _three(shape, axes)
    total, space = summation(b, shape, b.dtype, axes, b.dtype), b.workspace(shape)

    def rows(x: Array, out: Array) -> None:
        x = x.reshape(before, size)
        dot(x, x, out.reshape(before))

    def step(x: Array, out: Array) -> None:
        multiply(x, x, space)
        total(space, out)

    return rows if after == 1 and size > 1 else step


@kernel("p_norm", dtypes=dt.FLOATS, widen=True)
def p_norm(b: Binding) -> Step | None:
    """Orders 2, 1, 0 and the infinities are computed without powers.

    Order 0 is the number of elements other than zero, the infinities are extrema.
    """
    if not b.input().numel:
        return None
    order: float = b.attrs["porder"]
    rank = b.input().rank
    axes = tuple(range(rank)) if b.attrs["asvector"] else b.axes()
    if order == 2:
        return _root(_squares(b, axes))
    size, absolute, power = b.workspace(b.input().shape), np.absolute, np.power
    if abs(order) == np.inf:
        extreme = _extreme(b, "max" if order > 0 else "min", axes)

        def greatest(x: Array, out: Array) -> None:
            absolute(x, size)
            extreme(size, out)

        return greatest
    total = _sum(b, axes)
    if order == 0:

        def count(x: Array, out: Array) -> None:
            np.not_equal(x, 0, size, casting="unsafe")
            total(size, out)

        return count
    exponent = b.constant("porder")
    root = np.asarray(1 / exponent)

    def step(x: Array, out: Array) -> None:
        absolute(x, size)
        if order != 1:
            power(size, exponent, size)
        total(size, out)
        if order != 1:
            power(out, root, out)

    return step


@kernel("frobenius_norm", dtypes=dt.FLOATS, widen=True)
def frobenius_norm(b: Binding) -> Step:
    """The root of the sum of squares."""
    return _root(_squares(b, _axes(b)))


def _root(squares: Sum) -> Step:
    def step(x: Array, out: Array) -> None:
        squares(x, out)
        np.sqrt(out, out)

    return step


@kernel("norm", dtypes=dt.FLOATS, widen=True)
def norm(b: Binding) -> Step:
    """``x`` divided by its norm, which is written to its result or to scratch memory."""
    axes, epsilon = b.axes(), b.constant("epsilon")
    squares = _squares(b, axes)
    space = b.workspace(keepdims_shape(b.input().shape, axes))

    def step(x: Array, out: Array, norm: Array | None) -> None:
        length = space if norm is None else norm
        squares(x, length)
        np.add(length, epsilon, length)
        np.sqrt(length, length)
        np.divide(x, length, out)

    return step
