"""Dynamic calls: their shapes or attributes are known only at run time.

Each new combination of operand metas and attribute values is bound once and cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

import numpy as np

from pirkit.diag.errors import ConstraintError
from pirkit.runtime.binding import Step
from pirkit.runtime.device import Device
from pirkit.runtime.library import Library, Metas, bind_call, call_fault
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta, of_value
from pirkit.runtime.plan import Call, HostArgument

Array = np.ndarray[Any, Any]
MAX_CACHED_SHAPES: Final = 64
"""Largest number of combinations cached by one call."""


class CallCounters(Protocol):
    """The counters of a dynamic call."""

    binds: int
    infer_meta: int
    allocations: int


class DynamicCall:
    """Runs a call on operands of any shape."""

    def __init__(
        self,
        library: Library,
        device: Device,
        call: Call,
        generator: Callable[[], np.random.Generator],
        counters: CallCounters,
    ) -> None:
        self._library = library
        self._device = device
        self._call = call
        self._generator = generator
        self._counters = counters
        self._bound: dict[Any, tuple[Step, tuple[Meta | None, ...] | None]] = {}

    def __call__(self, operands: tuple[Any, ...], hosts: tuple[Any, ...]) -> Any:
        call = self._call
        found = {
            h.name: host_value(h, v, call, self._device)
            for h, v in zip(call.host, hosts, strict=True)
        }
        metas = tuple([None if x is None else of_value(x) for x in operands])
        key = (metas, *map(_hashable, found.values()))
        entry = self._bound.get(key)
        if entry is None:
            entry = self._bind(metas, {**call.attrs, **found})
            if len(self._bound) >= MAX_CACHED_SHAPES:
                self._bound.clear()
            self._bound[key] = entry
        step, outs = entry
        if outs is None:
            return step(*operands)
        self._counters.allocations += len(outs)
        made = tuple([self._make(m) for m in outs])
        step(*operands, *made)
        return made

    def _make(self, meta: Meta | None) -> Any:
        if isinstance(meta, VecMeta):
            return [self._make(m) for m in meta.items]
        if not isinstance(meta, TensorMeta):
            return None
        return self._device.empty(meta.shape, meta.dtype.np)

    def _bind(
        self, metas: Metas, attrs: Mapping[str, Any]
    ) -> tuple[Step, tuple[Meta | None, ...] | None]:
        call = self._call
        self._counters.infer_meta += 1
        self._counters.binds += 1
        try:
            results = self._library.infer(call.kernel, metas, attrs)
        except ConstraintError as error:
            raise call_fault(
                call, error.message, f"constraint {error.constraint}", error.help
            ) from error
        expected = tuple(
            [m if o is not None else None for o, m in zip(call.outputs, results, strict=False)]
        )
        bound = bind_call(
            self._library, call, metas, expected, self._device, self._generator, attrs
        )
        if bound is None:
            raise call_fault(call, "the shape of its result is not known", None, None)
        choice, step = bound
        return step, expected if choice.kernel.form == "out" else None


def _hashable(value: Any) -> Any:
    """A part of a key; `==` does not tell 0.0 from -0.0."""
    return repr(value) if isinstance(value, float | complex) else value


def host_value(host: HostArgument, value: Any, call: Call, device: Device) -> Any:
    """A computed attribute: a tuple of ints, an int, or a number, by ``host.kind``."""
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    numbers = [x for item in items for x in device.to_host(item).reshape(-1).tolist()]
    if host.kind == "array":
        return tuple(int(x) for x in numbers)
    if len(numbers) != 1:
        raise call_fault(call, f"`{host.name}` needs one number, got {len(numbers)}", None, None)
    return int(numbers[0]) if host.kind == "int" else numbers[0]
