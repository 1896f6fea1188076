"""Values of a program that no input has a part in: they are computed when native code is made."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.dialect.opdef import find, reference
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call

Array = np.ndarray[Any, Any]

MAX_BYTES_IN_TILES: Final = 1 << 24
"""Bytes of a constant up to which its elements are a part of the program."""


def constant_of(call: Call, meta: TensorMeta) -> Array | None:
    """The elements of a call without operands; None for one that has some, or that is too large."""
    definition = find(call.kernel)
    if any(i is not None for i in call.inputs) or definition is None:
        return None
    rule = reference.get(definition.base)
    if rule is None or meta.numel * meta.dtype.itemsize > MAX_BYTES_IN_TILES:
        return None
    return np.ascontiguousarray(np.broadcast_to(rule(**call.attrs), meta.shape), meta.dtype.np)
