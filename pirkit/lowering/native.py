"""Kernels of fused ops in native code."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.text import parse_kernel
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.runtime.binding import Binding, Step

Array = np.ndarray[Any, Any]
Call = Callable[[], None]

NAME: Final = "native"
FUSED: Final = "pir.map_expr"
CALLS_KEPT: Final = 8
"""Sets of addresses for which a call is kept: arrays of a steady run lie where they lay before."""


@lru_cache(maxsize=1024)
def _nests(text: str) -> tuple[MapExpr, tuple[Nest, ...] | str]:
    kernel = parse_kernel(text)
    return kernel, nests_of(kernel)


def bind_native(b: Binding) -> Step | None:
    """What runs a kernel of fused ops; None for one that loop nests do not hold."""
    kernel, nests = _nests(b.attrs["kernel"])
    if isinstance(nests, str):
        return None
    functions = [(native(nest.kernel), nest.arrays) for nest in nests]
    inputs, used = len(kernel.inputs), {k for nest in nests for k in nest.arrays}
    outputs = {inputs + k: position for position, k in enumerate(kernel.outputs)}
    metas = [*kernel.inputs, *(s.meta for s in kernel.statements)]
    places: list[Array | None] = [
        b.workspace(metas[k].shape, metas[k].dtype) if k in used and k not in outputs else None
        for k in range(inputs, len(metas))
    ]
    calls: dict[tuple[int, ...], tuple[list[Call], list[Array]]] = {}

    def bound(arrays: list[Array]) -> list[Call]:
        key = tuple([a.__array_interface__["data"][0] for a in arrays])
        found = calls.get(key)
        if found is None:
            if len(calls) >= CALLS_KEPT:
                calls.clear()
            whole: list[Any] = [*arrays[:inputs], *places]
            for k, position in outputs.items():
                whole[k] = arrays[inputs + position]
            made = [function.bind([whole[k] for k in used_]) for function, used_ in functions]
            found = calls[key] = (made, arrays)
        return found[0]

    def step(*given: Any) -> None:
        arrays = [np.ascontiguousarray(a) for a in given[:inputs]]
        targets = given[inputs:]
        whole = [
            t if t is not None and t.flags.c_contiguous else np.empty(m.shape, m.dtype.np)
            for t, m in zip(targets, kernel.results, strict=True)
        ]
        for call in bound([*arrays, *whole]):
            call()
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made

    return step
