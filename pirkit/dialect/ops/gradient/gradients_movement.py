"""Gradients of reshaping, joining, indexing and reductions."""

from __future__ import annotations

from pirkit.dialect.opdef import infer_meta, require
from pirkit.dialect.ops.gradient.gradients import declare_gradients
from pirkit.dialect.shapes import add_dims, normalize_axes, normalize_axis
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

_REDUCE = "keepdim: bool = False, reduce_all: bool = False"

declare_gradients(
    "reshape_grad: x~, out_grad -> x_grad@out_grad",
    "transpose_grad: out_grad ; perm: i32[] -> x_grad=?",
    "squeeze_grad: x~, out_grad, axis: intarray -> x_grad@out_grad",
    "unsqueeze_grad: x~, out_grad, axis: intarray -> x_grad@out_grad",
    "flatten_grad: x~, out_grad -> x_grad@out_grad",
    "expand_grad: x~, out_grad, shape: intarray -> x_grad",
    "expand_as_grad: x~, out_grad ; target_shape: i64[] -> x_grad",
    "broadcast_tensors_grad: input[]~, out_grad[] -> input_grad[]",
    "tile_grad: x~, out_grad, repeat_times: intarray -> x_grad",
    "stack_grad: x[]~, out_grad ; axis: i32 -> x_grad[]",
    "concat_grad: x[]~, out_grad, axis: i64 = 0 -> x_grad[]",
    "split_with_num_grad: out_grad[], axis: i64 = -1 -> x_grad=?",
    "unbind_grad: out_grad[] ; axis: i32 -> input_grad=?",
    "unstack_grad: out_grad[] ; axis: i32 -> x_grad=?",
    "meshgrid_grad: inputs[], out_grad[] -> inputs_grad[]",
    (
        "slice_grad: input~, out_grad, starts: intarray, ends: intarray ; axes: i64[], "
        "infer_flags: i64[], decrease_axis: i64[] -> input_grad"
    ),
    (
        "strided_slice_grad: x~, out_grad, starts: intarray, ends: intarray, strides: intarray ; "
        "axes: i32[] -> x_grad"
    ),
    "set_value_grad: out_grad -> x_grad=out_grad",
    (
        "set_value_with_tensor_grad: values, out_grad, starts: intarray, ends: intarray, "
        "steps: intarray ; axes: i64[], decrease_axes: i64[], none_axes: i64[] -> x_grad=out_grad, "
        "values_grad"
    ),
    "flip_grad: out_grad ; axis: i32[] -> x_grad=out_grad",
    "roll_grad: x~, out_grad, shifts: intarray ; axis: i64[] -> x_grad",
    "reverse_grad: out_grad, axis: intarray -> x_grad=out_grad",
    (
        "repeat_interleave_grad: x, out_grad ; repeats: i32, axis: i32, output_size: i64 = -1 -> "
        "x_grad"
    ),
    "view_shape_grad: input, out_grad ; dims: i64[] = [] -> input_grad",
    (
        "as_strided_grad: input, out_grad ; dims: i64[] = [], stride: i64[] = [], "
        "offset: i64 = 0 -> input_grad"
    ),
    "gather_grad: x~, index, out_grad, axis: i64 = 0 -> x_grad",
    "gather_nd_grad: x~, index, out_grad -> x_grad",
    "scatter_grad: index, updates~, out_grad ; overwrite: bool -> x_grad=out_grad, updates_grad",
    "scatter_nd_add_grad: index, updates~, out_grad -> x_grad=out_grad, updates_grad",
    "index_select_grad: x~, index, out_grad ; axis: i32 -> x_grad",
    "index_sample_grad: x~, index, out_grad -> x_grad",
    (
        "index_add_grad: index, add_value, out_grad ; axis: i32 -> x_grad=out_grad@out_grad, "
        "add_value_grad"
    ),
    (
        "index_put_grad: x, indices[], value, out_grad ; accumulate: bool = False -> x_grad, "
        "value_grad"
    ),
    "take_along_axis_grad: arr, indices, out_grad ; axis: i32 -> arr_grad",
    (
        "put_along_axis_grad: arr, indices, values, out, out_grad ; axis: i32, reduce: str, "
        "include_self: bool -> arr_grad, values_grad"
    ),
    "masked_select_grad: x~, mask, out_grad -> x_grad",
    "masked_fill_grad: x~, mask, value~, out_grad -> x_grad@out_grad, value_grad",
    "diag_grad: x~, out_grad ; offset: i32 -> x_grad",
    "diagonal_grad: x, out_grad ; offset: i32 = 0, axis1: i32 = 0, axis2: i32 = 1 -> x_grad",
    "trace_grad: x, out_grad ; offset: i32, axis1: i32, axis2: i32 -> x_grad",
    (
        "fill_diagonal_tensor_grad: out_grad ; offset: i64, dim1: i32, dim2: i32 -> "
        "x_grad=out_grad@out_grad"
    ),
    "sum_grad: x~, out_grad, axis: intarray ; keepdim: bool, reduce_all: bool = False -> x_grad",
    f"mean_grad: x~, out_grad, axis: intarray = [] ; {_REDUCE} -> x_grad",
    "mean_all_grad: x~, out_grad -> x_grad",
    "prod_grad: x, out, out_grad, axis: intarray ; keepdim: bool, reduce_all: bool -> x_grad",
    f"max_grad: x, out, out_grad, axis: intarray = [] ; {_REDUCE} -> x_grad",
    f"min_grad: x, out, out_grad, axis: intarray = [] ; {_REDUCE} -> x_grad",
    f"amax_grad: x, out, out_grad ; axis: i64[] = [], {_REDUCE} -> x_grad",
    f"amin_grad: x, out, out_grad ; axis: i64[] = [], {_REDUCE} -> x_grad",
    "logsumexp_grad: x, out, out_grad ; axis: i32[], keepdim: bool, reduce_all: bool -> x_grad",
    "squared_l2_norm_grad: x, out_grad -> x_grad",
    "dist_grad: x, y, out, out_grad ; p: f32 -> x_grad, y_grad",
    "reduce_as_grad: x, target, out_grad -> x_grad",
    "median_grad: x, out, medians, out_grad ; axis: intarray, keepdim: bool, mode: str -> x_grad",
    (
        "nanmedian_grad: x, out, medians, out_grad ; axis: intarray, keepdim: bool, mode: str -> "
        "x_grad"
    ),
    "kthvalue_grad: x, indices, out_grad ; k: i64, axis: i32, keepdim: bool -> x_grad",
    "mode_grad: x, indices, out_grad ; axis: i32, keepdim: bool -> x_grad",
    "topk_grad: x, indices, out_grad, k: i64 ; axis: i32, largest: bool, sorted: bool -> x_grad",
    "argsort_grad: indices, x~, out_grad ; axis: i32, descending: bool, stable: bool -> x_grad",
)


@infer_meta("pd_op.transpose_grad")
def _(out_grad: TensorMeta, *, perm: tuple[int, ...]) -> TensorMeta:
    rank = out_grad.rank
    require(len(perm) == rank, "C2", f"perm {list(perm)} for the {rank} dimensions of `out_grad`")
    shape = [UNKNOWN] * rank
    for position, source in enumerate(normalize_axes(perm, rank, "C2", "perm")):
        shape[source] = out_grad.shape[position]
    return out_grad.with_shape(shape)


@infer_meta("pd_op.split_with_num_grad")
def _(out_grad: VecMeta, *, axis: int | None) -> TensorMeta:
    first = _first(out_grad)
    if axis is None:
        return first.with_shape([UNKNOWN] * first.rank)
    at = normalize_axis(axis, first.rank, "C2")
    total = add_dims(*(item.shape[at] for item in out_grad.items))
    return first.with_shape((*first.shape[:at], total, *first.shape[at + 1 :]))


@infer_meta("pd_op.unbind_grad", "pd_op.unstack_grad")
def _(out_grad: VecMeta, *, axis: int) -> TensorMeta:
    first = _first(out_grad)
    at = normalize_axis(axis, first.rank + 1, "C2")
    return first.with_shape((*first.shape[:at], len(out_grad), *first.shape[at:]))


def _first(out_grad: VecMeta) -> TensorMeta:
    require(len(out_grad) > 0, "C2", "`out_grad` is empty")
    return out_grad.items[0]
