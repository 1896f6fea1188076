"""Checks inputs and parameters against the types that the plan declares."""

from __future__ import annotations

from typing import Any, Final

from pirkit.diag.errors import RuntimeFault, UsageError
from pirkit.runtime.device import Device
from pirkit.runtime.meta import Meta, TensorMeta, compatible, is_unset, of_value
from pirkit.runtime.plan import Port

_WEIGHTS: Final = (
    "`pirkit-run --params FILE` reads weights, `params=` of `pirkit.compile` takes them"
)


def bound_input(port: Port, value: Any, what: str, device: Device) -> tuple[Any, Meta | None]:
    """The array to store in the slot of a port, and its meta (None for a non-tensor).

    Raises RuntimeFault for a missing value (PK0902) and for one of another shape or dtype than
    declared (PK0903). ``what`` is the port's kind, for the message.
    """
    if value is None:
        raise RuntimeFault(
            f"{what} {port.name!r} is missing",
            code="PK0902",
            notes=(f"it is a {port.meta}",),
            help=_WEIGHTS if what == "parameter" else None,
        )
    if not isinstance(port.meta, TensorMeta):
        return value, None
    try:
        array = device.take(value)
    except (ValueError, UsageError) as error:
        why = error.message if isinstance(error, UsageError) else error
        raise RuntimeFault(f"{what} {port.name!r} is no array: {why}", code="PK0903") from error
    if array.shape == port.meta.shape and array.dtype == port.meta.dtype.np:
        return array, port.meta
    try:
        meta = of_value(array)
    except KeyError:
        raise RuntimeFault(
            f"{what} {port.name!r} has dtype {array.dtype}, expected {port.meta}", code="PK0903"
        ) from None
    if not compatible(port.meta, meta) and not is_unset(port.meta, meta):
        raise RuntimeFault(f"{what} {port.name!r} is a {meta}, expected {port.meta}", code="PK0903")
    return array, meta
