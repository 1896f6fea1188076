"""Derivatives of parts of programs, before the pass `expand-gradients` computes them."""

from __future__ import annotations

from typing import Final

from pirkit.dialect.kinds import DERIVATIVE
from pirkit.dialect.opdef import infer_meta, op, require
from pirkit.runtime.meta import Meta, compatible

KIND = "structure"

GRADIENT: Final = "pir.gradient"
JET: Final = "pir.jet"

CUSTOM: Final = "pir.custom_derivative"
"""The op that stands for a derivative rule of the user."""

CHECKPOINT: Final = "pir.checkpoint"
"""The op behind a function whose intermediate values a reverse sweep recomputes."""


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
    traits = (DERIVATIVE,)
    signature = "*values ; targets: i32, wrt: i32 -> *grads"


@infer_meta(Gradient)
def _(*values: Meta, targets: int, wrt: int) -> tuple[Meta, ...]:
    require(
        len(values) == 2 * targets + wrt,
        "C1",
        f"{len(values)} values for {targets} targets and {wrt} of wrt",
    )
    for target, cotangent in zip(values, values[targets : 2 * targets], strict=False):
        wrong = f"the cotangent of a {target} is a {cotangent}"
        require(compatible(target, cotangent), "C2", wrong,
                help="give it the shape and element type of the result")  # fmt: skip
    return values[2 * targets :]


@op
class Jet:
    """Derivatives 1 to `order` of some values along a curve, given those of others.

    `values` are the targets, then what they are computed from, then for each of the latter as many
    of its derivatives along the curve as `given` says; further ones are zero. The results are, for
    each target, its derivatives in rising order. The pass `expand-gradients` replaces the op by
    forward mode: a series through the ops between.

    C1: there are `targets` targets, one value for each element of `given`, and its derivatives.
    C2: a derivative has shape and dtype of its value.
    C3: `order` is positive, and no value has more derivatives.
    """

    name = "pir.jet"
    traits = (DERIVATIVE,)
    signature = "*values ; targets: i32, given: i64[], order: i32 -> *derivatives"


@infer_meta(Jet)
def _(*values: Meta, targets: int, given: tuple[int, ...], order: int) -> tuple[Meta, ...]:
    start = targets + len(given)
    fits = len(values) == start + sum(given)
    require(fits, "C1", f"{len(values)} values for {targets} targets and {list(given)} derivatives")
    require(order > 0 and max(given, default=0) <= order, "C3", f"{list(given)} for order {order}")
    owners = [v for v, count in zip(values[targets:], given, strict=False) for _ in range(count)]
    for value, derivative in zip(owners, values[start:], strict=True):
        wrong = f"the derivative of a {value} is a {derivative}"
        require(compatible(value, derivative), "C2", wrong,
                help="give a tangent of the shape and element type of its primal")  # fmt: skip
    return tuple([v for v in values[:targets] for _ in range(order)])


@op
class CustomDerivative:
    """Values with a derivative that the user wrote, recorded beside them.

    `values` are `outputs` results of a function, its `inputs`, then what the rule was recorded
    from and what it gives. In reverse mode (`forward = false`) that is one stand-in for the
    cotangent of each output, and a cotangent for each input; in forward mode one stand-in for the
    tangent of each input, and a tangent for each output. The results are the outputs. The pass
    `expand-gradients` puts real cotangents in place of the stand-ins, and removes the op at the
    end.

    C1: there are as many values as `outputs` and `inputs` say, twice.
    """

    name = "pir.custom_derivative"
    signature = "*values ; outputs: i32, inputs: i32, forward: bool -> *outs"


@infer_meta(CustomDerivative)
def _(*values: Meta, outputs: int, inputs: int, forward: bool) -> tuple[Meta, ...]:
    del forward
    count = 2 * (outputs + inputs)
    require(len(values) == count, "C1", f"{len(values)} values, expected {count}")
    return values[:outputs]


@op
class Checkpoint:
    """The results of a function whose intermediate values are not to be kept for derivatives.

    `values` are `outputs` results of the function, then the values from around it that it was
    computed from. The results are the outputs. A reverse sweep repeats the operations between from
    the latter, behind a barrier (`pd_op.depend`), and differentiates the copies. Results of
    operations called as in `saved` are kept. The pass `expand-gradients` removes the op at the end.

    C1: `outputs` is not negative, and there are as many values.
    """

    name = "pir.checkpoint"
    signature = "*values ; outputs: i32, saved: str[] = [] -> *outs"


@infer_meta(Checkpoint)
def _(*values: Meta, outputs: int, saved: tuple[str, ...]) -> tuple[Meta, ...]:
    del saved
    require(0 <= outputs <= len(values), "C1", f"{outputs} outputs among {len(values)} values")
    return values[:outputs]
