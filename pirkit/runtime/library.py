"""The interface between the runtime and the op table: shape inference, kernels, binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from msgspec.structs import replace

from pirkit.diag.errors import ConstraintError, RuntimeFault, UnsupportedError
from pirkit.runtime.binding import KERNEL_FAULTS, Binding, Step, first_dtype
from pirkit.runtime.device import Device
from pirkit.runtime.dtype import DType
from pirkit.runtime.meta import Meta, TensorMeta, VecMeta
from pirkit.runtime.plan import Call, Plan
from pirkit.runtime.registry import Choice, Kernel, missing_kernel

Metas = tuple[Meta | None, ...]


class Library(Protocol):
    """The interface to ops that planning and execution need: result shapes, and kernels."""

    @property
    def backend(self) -> str:
        """The name of the backend whose kernels are used."""
        ...

    @property
    def device(self) -> Device:
        """The device of operands and results."""
        ...

    def infer(self, op: str, inputs: Metas, attrs: Mapping[str, Any]) -> Metas:
        """The metas of the results. Raises ConstraintError if the call violates a constraint."""
        ...

    def choices(self, op: str, dtype: DType, attrs: Mapping[str, Any]) -> Sequence[Choice]:
        """The kernels for an op and element type, best first."""
        ...

    def grouped(self, plan: Plan, bound_inputs: Mapping[int, Meta]) -> Plan:
        """An equivalent plan for inputs and parameters of these metas, with fewer calls."""
        ...

    def overwrites(self, kernel: Kernel) -> Mapping[int, tuple[int, ...]]:
        """For each result, the operands whose memory it may overwrite, all by position."""
        ...


def bind_call(
    library: Library,
    call: Call,
    inputs: Metas,
    outputs: Metas,
    device: Device,
    generator: Callable[[], np.random.Generator],
    attrs: Mapping[str, Any],
) -> tuple[Choice, Step] | None:
    """The first kernel that supports the call, and its step.

    None if all kernels need static result shapes and these are unknown. Raises UnsupportedError if
    there is no kernel at all.
    """
    dtype = first_dtype(inputs) or first_dtype(outputs)
    if dtype is None:
        dtype = attrs.get("dtype")
    binding = Binding(
        inputs,
        outputs,
        attrs,
        xp=device.xp,
        scratch=device.empty,
        generator=generator if call.random is not None else None,
    )
    choices = library.choices(call.kernel, cast(DType, dtype), attrs)
    static = all(map(is_static, outputs))
    for choice in choices:
        if choice.kernel.form == "out" and not static:
            continue
        try:
            step = choice.kernel(replace(binding, op=choice.kernel.op))
        except ConstraintError as error:
            raise call_fault(
                call, error.message, f"constraint {error.constraint}", error.help
            ) from error
        except KERNEL_FAULTS as error:
            raise call_fault(call, f"{error}" or "out of memory", None, None) from error
        except UnsupportedError as error:
            error.span, error.notes = error.span or call.span, (*error.notes, *call.origin)
            raise
        if step is not None:
            return choice, step
    if choices:
        return None
    raise missing_kernel(call.kernel, cast(DType, dtype), library.backend, ())


def call_fault(call: Call, message: str, note: str | None, help: str | None) -> RuntimeFault:
    """The error of a call, with its source location."""
    return RuntimeFault(
        f"`{call.kernel}`: {message}",
        code="PK0901",
        span=call.span,
        notes=(*((note,) if note else ()), *call.origin),
        help=help,
    )


def is_static(meta: Meta | None) -> bool:
    """True if every dimension is known; also for a value without dimensions."""
    if isinstance(meta, VecMeta):
        return all(m.is_static for m in meta.items)
    return not isinstance(meta, TensorMeta) or meta.is_static
