"""Kernels of fused ops in native code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.text import parse_kernel
from pirkit.lowering.codegen.compile import native
from pirkit.lowering.codegen.from_map_expr import Nest, nests_of
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.tensor.buffer import address_of

Array = np.ndarray[Any, Any]

NAME: Final = "native"
FUSED: Final = "pir.map_expr"


@lru_cache(maxsize=1024)
def _nests(text: str) -> tuple[MapExpr, tuple[Nest, ...] | str]:
    kernel = parse_kernel(text)
    return kernel, nests_of(kernel)


def bind_native(b: Binding) -> Step | None:
    """What runs a kernel of fused ops; None for one that loop nests do not hold."""
    kernel, nests = _nests(b.attrs["kernel"])
    if isinstance(nests, str):
        return None
    inputs, used = len(kernel.inputs), {k for nest in nests for k in nest.arrays}
    outputs = {inputs + k: position for position, k in enumerate(kernel.outputs)}
    metas = [*kernel.inputs, *(s.meta for s in kernel.statements)]
    places: list[Array | None] = [
        b.workspace(metas[k].shape, metas[k].dtype) if k in used and k not in outputs else None
        for k in range(inputs, len(metas))
    ]
    calls = [(native(nest.kernel).at_addresses(), nest.arrays) for nest in nests]
    fixed = [0 if p is None else address_of(p) for p in places]

    def step(*given: Any) -> None:
        arrays = [np.ascontiguousarray(a) for a in given[:inputs]]
        targets = given[inputs:]
        whole = [
            t if t is not None and t.flags.c_contiguous else np.empty(m.shape, m.dtype.np)
            for t, m in zip(targets, kernel.results, strict=True)
        ]
        addresses = [*map(address_of, arrays), *fixed]
        for k, position in outputs.items():
            addresses[k] = address_of(whole[position])
        for call, used_ in calls:
            call([addresses[k] for k in used_])
        for target, made in zip(targets, whole, strict=True):
            if target is not None and target is not made:
                target[...] = made

    return step
