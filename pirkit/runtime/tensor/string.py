"""Tensors of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from pirkit.diag.errors import UsageError

Array = np.ndarray[Any, Any]


class _Cases(dict[int, str]):
    """A lazy translation table for ``str.translate``."""

    def __init__(self, change: Callable[[str], str]) -> None:
        super().__init__()
        self._change = change

    def __missing__(self, code: int) -> str:
        changed = self[code] = self._change(chr(code))
        return changed


def _lower(letter: str) -> str:
    return letter.lower()[0]


def _upper(letter: str) -> str:
    if letter == "ß":
        return "ẞ"
    return next((s for s in (letter.upper(), letter.title()) if len(s) == 1), letter)


# Paddle maps each character to one character, while Python may map one to two (`ŉ`, `İ`) and
# considers the neighbours of a sigma.
_LOWER: Final = _Cases(_lower)
_UPPER: Final = _Cases(_upper)
_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASCII_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


class StringTensor:
    """Strings of any length, in numpy's variable-width string type."""

    __slots__ = ("array",)

    kind: ClassVar[str] = "string"

    def __init__(self, strings: Any) -> None:
        try:
            self.array: Array = np.asarray(strings, np.dtypes.StringDType(coerce=False))
        except ValueError as error:
            raise UsageError(
                f"not all elements are strings: {error}", help="convert the others with `str`"
            ) from error

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def tolist(self) -> Any:
        """The strings in nested lists."""
        return self.array.tolist()

    def lower(self, *, utf8: bool = False) -> StringTensor:
        """Small letters: those of ASCII, or with ``utf8`` of all scripts, one for one."""
        return self._translated(_LOWER if utf8 else _ASCII_LOWER)

    def upper(self, *, utf8: bool = False) -> StringTensor:
        """Capital letters: those of ASCII, or with ``utf8`` of all scripts, one for one."""
        return self._translated(_UPPER if utf8 else _ASCII_UPPER)

    def _translated(self, cases: Mapping[int, str | int]) -> StringTensor:
        out = np.empty_like(self.array)
        out.reshape(-1)[:] = [s.translate(cases) for s in self.array.reshape(-1).tolist()]
        return StringTensor(out)

    def __repr__(self) -> str:
        return f"StringTensor({self.tolist()})"
