"""Convolutions in native programs; their weight gradients read operands without a transposition.

The weight gradient of a convolution is a convolution of two tensors whose first two axes (batch and
channels) were exchanged. Instead of materializing these transposes, the native weight gradient
reads their sources with exchanged strides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from pirkit.diag.gc_pause import imported
from pirkit.dialect.kinds import CONVOLUTION, TRANSPOSED
from pirkit.dialect.map_expr.kernel import MapExpr
from pirkit.dialect.map_expr.tree import Load
from pirkit.dialect.map_expr.verify_kernel import kernel_at
from pirkit.dialect.opdef import has_trait
from pirkit.index.index_maps import space
from pirkit.lowering.codegen.ir.loopnest import Kernel
from pirkit.lowering.native_ops import FUSED
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime.binding import HALF_TYPES, Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeSequence
from pirkit.runtime.plan import Call, Plan

if TYPE_CHECKING:
    from pirkit.lowering.codegen.conv.conv_blocking import ConvProblem
    from pirkit.lowering.codegen.conv.conv_weight_grad import WeightGrad

Metas = Callable[[int], TensorMeta]


def convolution_of(
    call: Call, meta: Metas, exchanged: Collection[int]
) -> tuple[NativeSequence, ConvProblem | Kernel | None]:
    """The functions of a convolution, over its operands and its result.

    Operands in ``exchanged`` are given by their sources, whose first two axes are exchanged.
    With it comes what its last function computes, if an elementwise step may become part of that.
    Raises NotNativeError if there is no native form.
    """
    b = _binding(call, meta)
    form = _form(b)
    if isinstance(form, NativeSequence):
        return form, None if has_trait(call.kernel, TRANSPOSED) else _only(b)
    x, w = (
        _batch_strides(b.input(k), slot in exchanged) for k, slot in enumerate(_operands(call))
    )  # fmt: skip
    conv = imported("pirkit.lowering.codegen.conv.compile_conv")  # most programs have none
    return conv.native_weight_grad(form, (*x, *w)), None


def transposed_slots(plan: Plan, meta: Metas, left_out: Collection[int]) -> dict[int, int]:
    """Slots that equal another slot with its first two axes exchanged, each with that source.

    Only weight gradients of convolutions read them; they read the source instead, so the transpose
    is never materialized. Calls in ``left_out`` (positions) are not considered.
    """
    found: dict[int, int] = {}
    for number, call in enumerate(plan.body):
        if isinstance(call, Call) and call.kernel == FUSED and number not in left_out:
            found.update(_transposes(call, meta))
    live = {o.source for o in plan.outputs}
    for call in plan.body:
        if isinstance(call, Call) and found.keys() & call.inputs:
            # Any other reader needs the transposed tensor itself.
            is_gradient = has_trait(call.kernel, CONVOLUTION) and _is_weight_grad(call, meta)
            live |= set() if is_gradient else set(call.inputs)
    return {slot: source for slot, source in found.items() if slot not in live}


def fused_kernel(call: Call, meta: Metas) -> MapExpr:
    """The kernel of a call, specialized to the shapes of its operands."""
    return kernel_at(call.attrs["kernel"], tuple([meta(i).shape for i in _operands(call)]))


def _transposes(call: Call, meta: Metas) -> Iterator[tuple[int, int]]:
    kernel = fused_kernel(call, meta)
    slots: dict[int, int] = dict(enumerate(_operands(call)))
    results = list(zip(kernel.outputs, call.outputs, strict=True))
    slots |= {len(kernel.inputs) + k: slot for k, slot in results if isinstance(slot, int)}
    for k, slot in results:
        s = kernel.statements[k]
        if not isinstance(slot, int) or not isinstance(s.body, Load) or s.reduction or s.start:
            continue
        if s.meta.rank < 2 or s.body.source not in slots:
            continue
        first, second, *rest = space(s.meta.shape)
        source = slots[s.body.source]
        # A kernel that only loads `source[second, first, ...]` is a transpose.
        swapped_shape = (s.meta.shape[1], s.meta.shape[0], *s.meta.shape[2:])
        if s.body.index == (second, first, *rest) and meta(source).shape == swapped_shape:
            yield slot, source


def _operands(call: Call) -> Sequence[int]:
    return cast("Sequence[int]", call.inputs)


def _binding(call: Call, meta: Metas) -> Binding:
    slots = (*call.inputs, *call.outputs)
    if len(call.inputs) != 2 or not all(isinstance(s, int) for s in slots):
        raise NotNativeError(f"`{call.kernel}` with sizes that are operands has no native form")
    metas = [meta(s) for s in cast("Sequence[int]", slots)]
    return Binding(tuple(metas[:2]), tuple(metas[2:]), call.attrs, call.kernel)


def _form(b: Binding) -> NativeSequence | WeightGrad:
    from pirkit.lowering.native_conv import (  # noqa: PLC0415  imports kernels and much of codegen
        multiplications,
        native_form,
        why_never_native,
    )

    reason = f"its elements are {b.dtype}" if b.dtype in HALF_TYPES else why_never_native(b)
    if reason is None and not multiplications(b):
        reason = "it is one of nothing"
    if reason is not None:
        raise NotNativeError(f"`{b.op}` has no native form: {reason}")
    return native_form(b)


def _only(b: Binding) -> ConvProblem | Kernel:
    from pirkit.lowering.native_conv import conv_form  # noqa: PLC0415  imported by `_form`

    form = conv_form(b)
    if isinstance(form, Kernel):
        return form
    (problem,) = cast("Sequence[ConvProblem]", form)
    return problem


def _is_weight_grad(call: Call, meta: Metas) -> bool:
    try:
        return not isinstance(_form(_binding(call, meta)), NativeSequence)
    except NotNativeError:
        return False


def _batch_strides(meta: TensorMeta, exchanged: bool) -> tuple[int, int]:
    """Bytes along the first two axes, the others being dense."""
    plane_bytes = prod(meta.shape[2:]) * meta.dtype.itemsize
    if exchanged:
        return plane_bytes, meta.shape[0] * plane_bytes
    return meta.shape[1] * plane_bytes, plane_bytes
