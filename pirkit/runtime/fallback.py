"""Fallback to CPU kernels for another device: operands are copied to the host, results back."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, cast

import numpy as np
from msgspec.structs import replace

from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.device import HOST, Device
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.registry import Backend, Kernel

FALLBACKS: Final[Counter[str]] = Counter()
"""For each op, how many calls were bound to the CPU because the device has no kernel."""


class FallbackWarning(UserWarning):
    """An op runs on the CPU, since the requested device has no kernel for it."""


def fallback(kernel: Kernel, backend: Backend, device: Device) -> Kernel:
    """A kernel of the CPU that serves arrays of another device. Binding it warns once for an op."""
    is_host = device.xp is np

    def bind(b: Binding) -> Step | None:
        step = kernel(replace(b, xp=np, scratch=HOST.empty))
        if step is None:
            return None
        FALLBACKS[kernel.op] += 1
        _warn_once(kernel.op, backend.name)
        if is_host:
            return step
        return _transferred(step, kernel.form == "out", b.outputs, device)

    return replace(kernel, bind=bind, form=kernel.form if is_host else "new", inplace={})


@cache
def _warn_once(op: str, backend: str) -> None:
    message = f"`{op}` has no kernel on `{backend}`; it runs on the CPU"
    warnings.warn(message, FallbackWarning, stacklevel=2)


def _transferred(step: Step, writes: bool, outputs: Sequence[Meta | None], device: Device) -> Step:
    def run(*operands: Any) -> tuple[Any, ...]:
        given = [_each(x, device.to_host) for x in operands]
        if writes:
            found = tuple([_empty(m) for m in outputs])
            step(*given, *found)
        else:
            found = step(*given)
            found = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
        return tuple([_each(x, device.take) for x in found])

    return run


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [change(v) for v in cast("list[Any]", value)]
    return None if value is None else change(value)


def _empty(meta: Meta | None) -> Any:
    if isinstance(meta, VecMeta):
        return [_empty(m) for m in meta.items]
    return np.empty(meta.shape, meta.dtype.np) if isinstance(meta, TensorMeta) else None
