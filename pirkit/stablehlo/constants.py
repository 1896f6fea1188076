"""The elements of constants: numbers in brackets, bits in hexadecimal digits, or bytes."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from pirkit.stablehlo.nodes import Tensor

_NUMBERS: Final = re.compile(r"[^\s,()\[\]]+")


def elements_of(written: str, type_: Tensor) -> np.ndarray[Any, Any]:
    """The elements of a constant of type ``type_``, from the text between ``dense<`` and ``>``.

    One element for all (a splat) gives an array of rank 0. Raises ValueError for elements that the
    type does not have, or whose number is not that of the shape.
    """
    target, shape = type_.dtype.np, type_.sizes
    if written.startswith('"'):
        data = bytes.fromhex(written.strip('"').removeprefix("0x"))
        if target == np.bool_ and len(data) != np.prod(shape):  # eight to a byte
            bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
            return bits[: int(np.prod(shape))].astype(np.bool_).reshape(shape)
        held = np.frombuffer(data, target)
        return held.reshape(()) if held.size == 1 else held.reshape(shape)
    parts = _NUMBERS.findall(written)
    kind = target.kind
    real = np.dtype(f"f{target.itemsize // 2}") if kind == "c" else target
    numbers = np.array([_element(p, real) for p in parts], dtype=real)
    if kind == "c":
        numbers = numbers.view(target)
    is_splat = numbers.size == 1 and "[" not in written
    return numbers.reshape(()) if is_splat else numbers.reshape(shape)


def _element(text: str, dtype: np.dtype[Any]) -> Any:
    """A number; for a float, hexadecimal digits are its bits."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x") and dtype.kind not in "iub":
        held = int(text, 16)
        if held >> 8 * dtype.itemsize:
            raise ValueError(f"{text} does not fit")
        return np.frombuffer(held.to_bytes(dtype.itemsize, "little"), dtype)[0]
    if dtype.kind not in "iub":
        return float(text)
    number = int(text, 0)
    bits = 8 * dtype.itemsize
    if dtype.kind == "i" and 1 << (bits - 1) <= number < 1 << bits:
        number -= 1 << bits  # an unsigned number, stored as the signed one of its bits
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise ValueError(f"{text} does not fit")
    return number
