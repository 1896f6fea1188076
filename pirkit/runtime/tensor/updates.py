"""Updates of elements that make a new tensor: ``x.at[index].set(value)``, as JAX spells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from pirkit.runtime.convert import convert
from pirkit.runtime.dtype import of_array

UFUNCS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}
"""The function that combines an element and the given value; ``set`` ignores the element."""

LOST_PART: Final = "a complex value loses its imaginary part in a real tensor"


class At:
    """The result of ``x.at``, to be indexed as ``x`` is."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getitem__(self, index: Any) -> Updates:
        parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
        return Updates(self._tensor, parts)


class Updates:
    """The elements that an index names: each method gives a new tensor, with these changed.

    Values are broadcast to the shape of ``x[index]`` and take the element type of ``x``. Elements
    that are named twice are combined twice; which value ``set`` leaves there is not defined. An
    index out of range raises, in a program where it runs; a complex value for a real ``x`` raises.
    A traced mask takes one number.
    """

    __slots__ = ("_index", "_tensor")

    def __init__(self, tensor: Any, index: tuple[Any, ...]) -> None:
        self._tensor = tensor
        self._index = index

    def get(self) -> Any:
        """``x[index]``."""
        return self._tensor[self._index]

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Elements replaced by a function of them."""
        return self.set(function(self.get()))

    def set(self, value: Any) -> Any:
        """Elements replaced."""
        return self._tensor.updated(self._index, "set", value)

    def add(self, value: Any) -> Any:
        """Elements plus a value."""
        return self._tensor.updated(self._index, "add", value)

    def subtract(self, value: Any) -> Any:
        """Elements minus a value."""
        return self._tensor.updated(self._index, "subtract", value)

    def multiply(self, value: Any) -> Any:
        """Elements times a value."""
        return self._tensor.updated(self._index, "multiply", value)

    mul = multiply

    def divide(self, value: Any) -> Any:
        """Elements divided by a value."""
        return self._tensor.updated(self._index, "divide", value)

    def power(self, value: Any) -> Any:
        """Elements to the power of a value."""
        return self._tensor.updated(self._index, "power", value)

    def min(self, value: Any) -> Any:
        """The smaller of element and value."""
        return self._tensor.updated(self._index, "min", value)

    def max(self, value: Any) -> Any:
        """The larger of element and value."""
        return self._tensor.updated(self._index, "max", value)


def update(array: Any, index: tuple[Any, ...], how: str, value: Any) -> Any:
    """A copy of an array with elements updated.

    Raises IndexError and ValueError as numpy does, and TypeError for a complex value of a real
    array, whose imaginary part would be lost.
    """
    made = array.copy()
    with np.errstate(all="ignore"):
        given = np.asarray(value)
        if given.dtype.kind == "c" != made.dtype.kind:
            raise TypeError(LOST_PART)
        given = given.astype(made.dtype)
        if how == "set":
            made[index] = given
        elif how in ("divide", "power") and made.dtype.kind not in "fc":
            found = np.asarray(UFUNCS[how](made[index], given))
            made[index] = convert(found, of_array(made))
        else:
            UFUNCS[how].at(made, index, given)
    return made
