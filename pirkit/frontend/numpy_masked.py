"""Reductions of the elements that a mask picks: numpy's ``where`` and ``initial``, traced.

An element that does not count is replaced by one that changes no result.
"""

from __future__ import annotations

from functools import update_wrapper
from typing import Any, Final

import numpy as np

from pirkit.dialect.build import Builder
from pirkit.frontend.numpy_reductions import mean, total
from pirkit.frontend.numpy_rules import FUNCTIONS, function, value_of
from pirkit.frontend.numpy_ufuncs import apply_ufunc, refused

_REDUCTIONS: Final[dict[str, tuple[Any, np.ufunc]]] = {
    "sum": (0, np.add),
    "prod": (1, np.multiply),
    "any": (False, np.logical_or),
    "all": (True, np.logical_and),
    **dict.fromkeys(("max", "amax"), (None, np.maximum)),
    **dict.fromkeys(("min", "amin"), (None, np.minimum)),
}
"""The element that changes nothing, and how ``initial`` joins the result."""


def _masked(name: str, neutral: Any, join: np.ufunc) -> None:
    rule = FUNCTIONS[name]

    def reduced(
        b: Builder, x: Any, *given: Any, where: Any = None, initial: Any = None, **options: Any
    ) -> Any:
        stand = initial if neutral is None else neutral
        if where is not None and stand is None:
            raise refused(f"`{name}` with `where` alone", "give `initial` as well, as numpy wants")
        if where is not None:
            x = FUNCTIONS["where"](b, where, value_of(b, x), stand)
        found = rule(b, x, *given, **options)
        return found if initial is None else apply_ufunc(b, join, (found, initial))

    function(name)(update_wrapper(reduced, rule))


for _name, (_neutral, _join) in _REDUCTIONS.items():
    _masked(_name, _neutral, _join)


@function("mean")
def _mean(b: Builder, x: Any, *given: Any, where: Any = None, **options: Any) -> Any:
    if where is None:
        return mean(b, x, *given, **options)
    x = value_of(b, x)
    counted = FUNCTIONS["broadcast_to"](b, where, x.shape)
    summed = FUNCTIONS["sum"](b, x, *given, where=where, **options)
    options.pop("dtype", None)
    count = total(b, counted, *given[:1], **options)
    is_inexact = summed.dtype.is_float or summed.dtype.is_complex
    return apply_ufunc(b, np.divide, (summed, b.cast(count, summed.dtype) if is_inexact else count))
