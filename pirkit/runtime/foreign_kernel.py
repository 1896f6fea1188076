"""Checks on kernels of plug-ins: what they raise gets a code, what they return is as inferred."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any, cast

from pirkit.diag.errors import PirkitError
from pirkit.runtime.binding import KERNEL_FAULTS, Bind, Binding, Step
from pirkit.runtime.meta import UNKNOWN, Meta, TensorMeta, VecMeta


def bound(source: str, bind: Bind, binding: Binding, *, returns: bool) -> Step | None:
    """The step of a kernel that is not pirkit's own; with ``returns``, its results are checked."""
    step = _told(source, bind)(binding)
    if not isinstance(step, FunctionType | MethodType | partial):
        return step
    run = _told(source, cast("Callable[..., Any]", step))
    return _checked(source, run, binding) if returns else run


def _told(source: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert exceptions of a foreign kernel to one to which the caller adds op and operands."""

    @wraps(function)
    def run(*given: Any) -> Any:
        try:
            return function(*given)
        except (PirkitError, *KERNEL_FAULTS):
            raise
        except Exception as error:
            raise ValueError(f"`{source}` raised {type(error).__name__}: {error}") from error

    return run


def _checked(source: str, run: Callable[..., Any], binding: Binding) -> Callable[..., Any]:
    """Refuse results that were not inferred: native code would read memory beyond an array that is
    smaller, and the bits of one of another type as its own.
    """
    wanted = binding.outputs

    def step(*given: Any) -> Any:
        found = run(*given)
        results: tuple[Any, ...] = cast(Any, found) if isinstance(found, tuple) else (found,)
        for meta, value in zip(wanted, results, strict=False):
            if not _is_of(value, meta):
                raise ValueError(f"`{source}` gives {_shown(value)}, and {meta} is inferred")
        return cast(Any, found)

    return step


def _is_of(value: Any, meta: Meta | None) -> bool:
    if isinstance(meta, VecMeta):
        fits = isinstance(value, list | tuple) and len(cast("list[Any]", value)) == len(meta)
        return fits and all(map(_is_of, cast("list[Any]", value), meta.items))
    if not isinstance(meta, TensorMeta):
        return True
    shape: tuple[int, ...] | None = getattr(value, "shape", None)
    if shape is None or len(shape) != meta.rank or value.dtype != meta.dtype.np:
        return False
    return all(want in (UNKNOWN, size) for size, want in zip(shape, meta.shape, strict=True))


def _shown(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else f"{value}"
