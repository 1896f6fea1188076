"""Kernels that compute results as new arrays of the device, then copied into planned buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

from pirkit.runtime.binding import Bind, Binding, Step
from pirkit.runtime.dtype import DType
from pirkit.runtime.registry import GPU, kernel

Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


def computes(*ops: str, dtypes: Sequence[DType], widen: bool = False) -> Callable[[Bind], Bind]:
    """Decorator: register a function that returns, for a binding, the function of some ops.

    The latter takes the operands, and returns the result or a tuple of results as new arrays.
    """

    def register(make: Bind) -> Bind:
        @wraps(make)
        def bind(b: Binding) -> Step | None:
            function = make(b)
            return None if function is None else _stored(function, len(b.inputs))

        return kernel(*ops, backend=GPU, dtypes=dtypes, widen=widen)(bind)

    return register


def _stored(function: Callable[..., Any], count: int) -> Step:
    def step(*arrays: Any) -> None:
        found = function(*arrays[:count])
        each = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        for out, value in zip(arrays[count:], each, strict=True):
            if out is not None:
                out[...] = value

    return step
