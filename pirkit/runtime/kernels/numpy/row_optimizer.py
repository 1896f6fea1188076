"""Optimizer steps for a gradient of some rows, as that of an embedding is.

The parameter and its state are dense, and written in place. Rows that the gradient lacks have a
gradient of zero. Where that changes nothing for them (sgd, adagrad), or the lazy mode asks to leave
them alone, the step is that of the rows; else it is that of the whole tensors.

So a gradient of rows means what the same gradient means when it is dense. Paddle 3.3.1 differs in
three ways that are not followed: momentum and adam look rows up by bisection, and miss some where
the numbers do not rise; adam divides by the powers of the next step, not of this one; and for rows
without a gradient it does not scale epsilon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
from msgspec import Struct

from pirkit.diag.errors import ArgumentError, UnsupportedError
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Array, Binding, Step
from pirkit.runtime.meta import TensorMeta, of_array
from pirkit.runtime.registry import KERNELS, kernel
from pirkit.runtime.tensor.dense import DenseTensor
from pirkit.runtime.tensor.selected_rows import SelectedRows

_SHARED: Final = frozenset({"learning_rate", "beta1_pow", "beta2_pow", "skip_update"})
"""Operands that are no part of a row."""


class _Form(Struct, frozen=True):
    """Operands and results of an op in their order; results have the names of what they replace."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    leaves_rows: bool = False
    """True if a gradient of zero changes nothing."""


_ADAM: Final = _Form(
    (
        "param", "grad", "learning_rate", "moment1", "moment2", "moment2_max", "beta1_pow",
        "beta2_pow", "master_param", "skip_update",
    ),
    (
        "param", "moment1", "moment2", "moment2_max", "beta1_pow", "beta2_pow", "master_param",
    ),
)  # fmt: skip

FORMS: Final = {
    "pd_op.sgd_": _Form(
        ("param", "learning_rate", "grad", "master_param"),
        ("param", "master_param"),
        leaves_rows=True,
    ),
    "pd_op.momentum_": _Form(
        ("param", "grad", "velocity", "learning_rate", "master_param"),
        ("param", "velocity", "master_param"),
    ),
    "pd_op.adagrad_": _Form(
        ("param", "grad", "moment", "learning_rate", "master_param"),
        ("param", "moment", "master_param"),
        leaves_rows=True,
    ),
    "pd_op.rmsprop_": _Form(
        ("param", "mean_square", "grad", "moment", "learning_rate", "mean_grad", "master_param"),
        ("param", "moment", "mean_square", "mean_grad", "master_param"),
    ),
    "pd_op.adam_": _ADAM,
    "pd_op.adamw_": _ADAM,
}


@kernel(*FORMS, dtypes=dt.FLOATS, kind="selected_rows", form="new")
def step_of_rows(b: Binding) -> Step:
    """A step on tensors, which returns those that it has written."""
    op, form = b.op, FORMS[b.op]
    by_rows = form.leaves_rows or b.attrs.get("lazy_mode", False)

    def step(*tensors: Any) -> Any:
        given = dict(zip(form.operands, tensors, strict=True))
        _check(given)
        gradient = cast(SelectedRows, given["grad"])
        held: dict[str, Array] = {
            name: value.array if isinstance(value, DenseTensor) else np.asarray(value)
            for name, value in given.items()
            if value is not None and name != "grad"
        }
        written = [given[name] for name in form.results if given[name] is not None]
        for tensor in written:
            tensor.mutable()
        if by_rows:
            _move_rows(op, form, b.attrs, held, gradient)
        else:
            _move(op, form, b.attrs, {**held, "grad": gradient.to_dense().array})
        return written[0] if len(written) == 1 else tuple(written)

    return step


def _check(given: Mapping[str, Any]) -> None:
    param, gradient = given["param"], given["grad"]
    if not isinstance(param, DenseTensor) or not isinstance(gradient, SelectedRows):
        raise UnsupportedError("only the gradient of an optimizer step may be selected rows")
    if param.shape != gradient.shape:
        raise ArgumentError(
            f"a gradient of shape {gradient.shape} for a parameter of {param.shape}",
            help="the height and the row size of the gradient are those of the parameter",
        )


def _move_rows(
    op: str, form: _Form, attrs: Mapping[str, Any], held: dict[str, Array], gradient: SelectedRows
) -> None:
    """Updates the rows of the gradient only, except that the decay of adamw is for all rows."""
    merged = gradient.merged()
    if attrs.get("with_decay") and not _is_skipped(held):
        rate = held["learning_rate"].item() * attrs["lr_ratio"] * attrs["coeff"]
        for name in ("param", "master_param"):
            if name in held:
                np.multiply(held[name], held[name].dtype.type(1 - rate), held[name])
        attrs = {**attrs, "with_decay": False}
    parts = {name: array if name in _SHARED else array[merged.rows] for name, array in held.items()}
    _move(op, form, attrs, {**parts, "grad": merged.value.array})
    for name in form.results:
        if name in held and name not in _SHARED:
            held[name][merged.rows] = parts[name]


def _is_skipped(held: Mapping[str, Array]) -> bool:
    skip = held.get("skip_update")
    return skip is not None and bool(skip.item())


def _move(op: str, form: _Form, attrs: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """One step for dense arrays, in place, by the kernel for those."""
    inputs = [arrays.get(name) for name in form.operands]
    outputs = [arrays.get(name) for name in form.results]
    binding = Binding(tuple(map(_meta, inputs)), tuple(map(_meta, outputs)), attrs, op=op)
    dtype = binding.dtype
    for choice in KERNELS.candidates(op, dtype):
        step = choice.kernel(binding)
        if step is not None:
            step(*inputs, *outputs)
            return
    raise UnsupportedError(
        f"`{op}` takes no selected rows with these attributes and element types ({dtype})",
        help="give it the gradient's `to_dense()`",
    )


def _meta(array: Array | None) -> TensorMeta | None:
    return None if array is None else of_array(array)
