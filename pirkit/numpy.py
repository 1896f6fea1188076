"""The array API standard (2024.12) on tensors: ``import pirkit.numpy as pnp``.

Functions compute on tensors, arrays and numbers, with numpy's element types, and are recorded on
values of a function that is traced (`pirkit.jit`, `pirkit.grad`). ``pirkit.numpy.linalg`` and
``pirkit.numpy.fft`` are the extensions. `docs/array-api.md` lists what differs from the standard.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from pirkit.frontend.array_namespace import EXTENSIONS, NAMES
from pirkit.frontend.array_namespace import check_version as check_version


def _extension(name: str) -> ModuleType:
    made = ModuleType(f"pirkit.numpy.{name}", f"The extension `{name}` of the array API standard.")
    vars(made).update(EXTENSIONS[name])
    return made


fft = _extension("fft")
linalg = _extension("linalg")
globals().update(NAMES)


def __getattr__(name: str) -> Any:  # reached for names that are not there; typing sees any name
    rows = ": `pirkit.vmap(f)` maps a function over rows"
    help = rows if name in ("vectorize", "apply_along_axis") else ""
    raise AttributeError(
        f"the array API has no {name!r}, nor has `pirkit.numpy`{help}",
        name=name,
        obj=sys.modules[__name__],
    )


def __dir__() -> list[str]:
    return sorted([*NAMES, *EXTENSIONS])
