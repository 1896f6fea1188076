"""numpy functions of whole arrays on traced values: ``v.sum(axis=0)``, ``np.stack([v, w])``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pirkit.diag.errors import PirkitError
from pirkit.dialect.build import Builder
from pirkit.frontend import (
    numpy_composed,
    numpy_elements,
    numpy_fft,
    numpy_linalg,
    numpy_masked,
    numpy_numerics,
    numpy_products,
    numpy_reductions,
    numpy_shapes,
    numpy_sorting,
    numpy_statistics,
    numpy_updates,
)
from pirkit.frontend.numpy_rules import FUNCTIONS
from pirkit.frontend.numpy_ufuncs import refused

RULES: Final = (
    numpy_composed,
    numpy_elements,
    numpy_fft,
    numpy_linalg,
    numpy_numerics,
    numpy_products,
    numpy_masked,
    numpy_reductions,
    numpy_shapes,
    numpy_sorting,
    numpy_statistics,
    numpy_updates,
)
"""The modules that put their rules into the table when they are imported."""


_BY_SIZE: Final = (
    np.zeros, np.ones, np.empty, np.eye, np.identity, np.tri, np.arange, np.indices, np.logspace,
    np.geomspace,
)  # fmt: skip
"""Functions whose arguments determine the shape of the result."""


def apply_function(b: Builder, name: str, arguments: Sequence[Any], options: Any) -> Any:
    """Record ``numpy.name(*arguments, **options)``.

    Raises TraceError for a function that is not in the table, for parameters that it does not
    take, and for axes that the value does not have.
    """
    rule = FUNCTIONS.get(name)
    if rule is None and getattr(np, name, None) in _BY_SIZE:
        raise refused(
            f"`numpy.{name}` of a traced number: sizes are known before a program runs",
            "give a number, `x.shape[0]`, or an argument that `jit` takes as static",
        )
    if rule is None:
        raise refused(
            f"`numpy.{name}` takes no traced value",
            "compose it of the functions of `pirkit.ops`, or of methods of the value",
        )
    # None stands for the default of a parameter; as an axis it means all axes.
    given = {k: v for k, v in options.items() if v is not np._NoValue}  # pyright: ignore
    given = {k: v for k, v in given.items() if v is not None or k == "axis"}
    try:
        return rule(b, *arguments, **given)
    except (np.exceptions.AxisError, IndexError) as error:
        raise refused(f"`{name}`: {error}", "take an axis that the value has") from error
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, PirkitError):
            raise
        raise refused(f"`{name}`: {error}", "the parameters are those of numpy") from error
