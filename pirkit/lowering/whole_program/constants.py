"""Constant folding for native programs: values that depend on no input are computed at compile
time, by the op's reference.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.dialect.opdef import find, reference
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.plan import Call

Array = np.ndarray[Any, Any]

MAX_CONSTANT_BYTES: Final = 1 << 24
"""Largest constant, in bytes, whose elements are stored in the program."""


def constant_of(call: Call, meta: TensorMeta) -> Array | None:
    """The elements of a call without operands; None if it has any, or the result is too large."""
    definition = find(call.kernel)
    if any(i is not None for i in call.inputs) or definition is None:
        return None
    rule = reference.get(definition.base)
    if rule is None or meta.numel * meta.dtype.itemsize > MAX_CONSTANT_BYTES:
        return None
    return np.ascontiguousarray(np.broadcast_to(rule(**call.attrs), meta.shape), meta.dtype.np)
