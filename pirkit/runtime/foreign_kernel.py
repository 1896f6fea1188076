"""Kernels and reference rules of plug-ins: what they raise has a code, what they return a shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from types import FunctionType, MethodType
from typing import Any, cast

from pirkit.diag.errors import PirkitError
from pirkit.runtime.binding import KERNEL_FAULTS, Bind, Binding, Step
from pirkit.runtime.meta import UNKNOWN, TensorMeta


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
    """Results of a shape that was not inferred would leave memory of the next op unwritten."""
    wanted = binding.outputs

    def step(*given: Any) -> Any:
        found = run(*given)
        results: tuple[Any, ...] = cast(Any, found) if isinstance(found, tuple) else (found,)
        for meta, value in zip(wanted, results, strict=False):
            if isinstance(meta, TensorMeta) and not _has_shape(value, meta):
                shape: Any = getattr(value, "shape", value)
                raise ValueError(f"`{source}` gives {shape}, and {meta} is inferred")
        return cast(Any, found)

    return step


def _has_shape(value: Any, meta: TensorMeta) -> bool:
    shape: tuple[int, ...] | None = getattr(value, "shape", None)
    if shape is None or len(shape) != meta.rank:
        return False
    return all(want in (UNKNOWN, size) for size, want in zip(shape, meta.shape, strict=True))
