"""NumPy, imported at its first use: programs are read, verified and printed without it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from pirkit.diag.gc_pause import imported

__all__ = ["Array", "deferred", "np"]


class _Unused(ModuleType):
    """Becomes a copy of the module of its name when an attribute is first read."""

    def __getattr__(self, name: str) -> Any:
        module = imported(self.__name__)
        self.__dict__.update(vars(module))
        cast(Any, self).__class__ = ModuleType  # or each attribute would be looked up here
        return getattr(module, name)


if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
else:
    np = _Unused("numpy")
    Array = Any


class _Deferred:
    """numpy's functions by name, for tables: they are looked up when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(np, name)(*args, **kwargs)

        call.__name__ = name
        return call


deferred = _Deferred()
