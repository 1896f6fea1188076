"""A derivative that is asked for and not computed yet."""

from __future__ import annotations

from pirkit.dialect.opdef import infer_meta, op, require
from pirkit.runtime.meta import Meta


@op
class Gradient:
    """The cotangents of some values, given those of others that are computed from them.

    `values` are the targets, then a cotangent for each, then what the targets are differentiated
    with respect to; the results are one cotangent for each of those, zeros where no target depends
    on it. The pass `expand-gradients` replaces the op by the reverse sweep over the ops between,
    `taylor` replaces nests of it by a series.

    C1: there are `targets` targets, as many cotangents, and `wrt` values.
    C2: a cotangent has shape and dtype of its target.
    """

    name = "pir.gradient"
    signature = "*values ; targets: i32, wrt: i32 -> *grads"


@infer_meta(Gradient)
def _(*values: Meta, targets: int, wrt: int) -> tuple[Meta, ...]:
    require(
        len(values) == 2 * targets + wrt,
        "C1",
        f"{len(values)} values for {targets} targets and {wrt} of wrt",
    )
    for target, cotangent in zip(values, values[targets : 2 * targets], strict=False):
        require(target == cotangent, "C2", f"the cotangent of a {target} is a {cotangent}")
    return values[2 * targets :]
