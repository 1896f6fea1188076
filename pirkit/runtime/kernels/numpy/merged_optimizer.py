"""Optimizer steps over lists of parameters: the kernel of one parameter, once for each."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding, Step
from pirkit.runtime.meta import Meta, VecMeta
from pirkit.runtime.registry import ANY, CPU, KERNELS, kernel

SINGLE: Final = {"pd_op.merged_adam_": "pd_op.adam_", "pd_op.merged_momentum_": "pd_op.momentum_"}
"""List form -> the op of one parameter, whose operands it has in the same order."""

_OPERANDS: Final = {"pd_op.adam_": 10, "pd_op.momentum_": 5}


def _item(meta: Meta | None, index: int) -> Meta | None:
    """The meta of one element; the last one of a shorter list is shared (one learning rate)."""
    if not isinstance(meta, VecMeta) or not meta.items:
        return None
    return meta.items[min(index, len(meta) - 1)]


def _places(*names: str) -> dict[str, str]:
    return {f"{name}_out": name for name in names}


@kernel(
    "merged_adam_",
    dtypes=dt.FLOATS,
    inplace=_places(
        "param", "moment1", "moment2", "moment2_max", "beta1_pow", "beta2_pow", "master_param"
    ),
)
@kernel("merged_momentum_", dtypes=dt.FLOATS, inplace=_places("param", "velocity", "master_param"))
def merged(b: Binding) -> Step | None:
    """None if the kernel of one parameter does not support one of the list."""
    single = SINGLE[b.op]
    count = len(b.items(0))
    operands = _OPERANDS[single]
    steps: list[Step] = []
    for i in range(count):
        inputs = [_item(m, i) for m in b.inputs]
        bound = replace(
            b,
            op=single,
            inputs=(*inputs, *[None] * (operands - len(inputs))),
            outputs=tuple([_item(m, i) for m in b.outputs]),
            attrs=_attributes(b, i),
        )
        dtype = b.items(0)[i].dtype
        choice = next(KERNELS.candidates(single, dtype, backend=CPU, layout=ANY), None)
        step = choice.kernel(bound) if choice is not None else None
        if step is None:
            return None
        steps.append(step)
    given = len(b.inputs)

    def run(*lists: Any) -> None:
        for i, step in enumerate(steps):
            one = [part[min(i, len(part) - 1)] if part else None for part in lists]
            step(*one[:given], *[None] * (operands - given), *one[given:])

    return run


def _attributes(b: Binding, index: int) -> dict[str, Any]:
    """The attributes of one parameter: each may have its own regularisation."""
    attrs = dict(b.attrs)
    for name, default in (("regularization_method", ""), ("regularization_coeff", 0.0)):
        if name in attrs:
            attrs[name] = attrs[name][index] if attrs[name] else default
    return attrs
