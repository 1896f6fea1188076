"""Tensors of strings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pirkit.diag.errors import UsageError

Array = np.ndarray[Any, Any]


class StringTensor:
    """Strings of any length, in numpy's variable-width string type."""

    __slots__ = ("array",)

    kind: ClassVar[str] = "string"

    def __init__(self, strings: Any) -> None:
        try:
            self.array: Array = np.asarray(strings, np.dtypes.StringDType(coerce=False))
        except ValueError as error:
            raise UsageError(f"not all elements are strings: {error}") from error

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def tolist(self) -> Any:
        """The strings in nested lists."""
        return self.array.tolist()

    def __repr__(self) -> str:
        return f"StringTensor({self.tolist()})"
