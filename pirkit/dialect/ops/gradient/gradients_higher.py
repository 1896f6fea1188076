"""Gradients of gradients: second and third order."""

from __future__ import annotations

from typing import Any

from pirkit.dialect.opdef import infer_meta, lookup
from pirkit.dialect.ops.gradient.gradients import declare_gradients
from pirkit.dialect.ops.gradient.gradients_nn import (
    BATCH_NORM,
    CONV,
    GROUPED_CONV,
    POOL,
    TRANSPOSE_FLAGS,
    TRANSPOSED_CONV,
)
from pirkit.dialect.shapes import normalize_axes
from pirkit.runtime.meta import TensorMeta

declare_gradients(
    (
        f"matmul_double_grad: x, y, grad_out, grad_x_grad?, grad_y_grad? ; {TRANSPOSE_FLAGS} -> "
        "x_grad, y_grad, grad_out_grad"
    ),
    (
        "matmul_triple_grad: x, y, grad_out, grad_grad_x?, grad_grad_y?, grad_x_grad?, "
        f"grad_y_grad?, grad_grad_out_grad? ; {TRANSPOSE_FLAGS} -> x_grad, y_grad, grad_out_grad, "
        "grad_grad_x_grad, grad_grad_y_grad"
    ),
    "bmm_double_grad: x, y, grad_out, grad_x_grad?, grad_y_grad? -> x_grad, y_grad, grad_out_grad",
    "add_double_grad: y, grad_out, grad_x_grad?, grad_y_grad? ; axis: i32 = -1 -> grad_out_grad",
    (
        "add_triple_grad: grad_grad_x, grad_grad_y, grad_grad_out_grad ; axis: i32 = -1 -> "
        "grad_grad_x_grad=grad_grad_x, grad_grad_y_grad=grad_grad_y"
    ),
    (
        "subtract_double_grad: y, grad_out, grad_x_grad?, grad_y_grad? ; axis: i32 = -1 -> "
        "grad_out_grad"
    ),
    (
        "multiply_double_grad: x, y, grad_out, grad_x_grad?, grad_y_grad? ; axis: i32 = -1 -> "
        "x_grad, y_grad, grad_out_grad"
    ),
    (
        "multiply_triple_grad: x, y, fwd_grad_out, fwd_grad_grad_x?, fwd_grad_grad_y?, "
        "grad_x_grad?, grad_y_grad?, grad_grad_out_grad? ; axis: i32 = -1 -> x_grad, y_grad, "
        "fwd_grad_out_grad, fwd_grad_grad_x_grad, fwd_grad_grad_y_grad"
    ),
    (
        "divide_double_grad: y, out, grad_out, grad_x?, grad_x_grad?, grad_y_grad? ; "
        "axis: i32 = -1 -> y_grad=y, out_grad=out, grad_out_grad"
    ),
    "tanh_double_grad: out, grad_out, grad_x_grad -> out_grad, grad_out_grad",
    (
        "tanh_triple_grad: out, grad_out_forward, grad_x_grad_forward, grad_out_new_grad?, "
        "grad_out_grad_grad? -> out_grad, grad_out_forward_grad, grad_x_grad_forward_grad"
    ),
    "sigmoid_double_grad: out, grad_out, grad_x_grad -> out_grad, grad_out_grad",
    (
        "sigmoid_triple_grad: out, fwd_grad_out, grad_grad_x, grad_out_grad, "
        "grad_grad_out_grad? -> out_grad, fwd_grad_out_grad, grad_grad_x_grad"
    ),
    "sin_double_grad: x, grad_out?, grad_x_grad -> x_grad, grad_out_grad",
    (
        "sin_triple_grad: x, grad_out_forward?, grad_x_grad_forward?, grad_x_grad?, "
        "grad_out_grad_grad? -> x_grad, grad_out_forward_grad, grad_x_grad_forward_grad"
    ),
    "cos_double_grad: x, grad_out?, grad_x_grad -> x_grad, grad_out_grad",
    (
        "cos_triple_grad: x, grad_out_forward?, grad_x_grad_forward?, grad_x_grad?, "
        "grad_out_grad_grad? -> x_grad, grad_out_forward_grad, grad_x_grad_forward_grad"
    ),
    "exp_double_grad: out, grad_out, grad_x_grad -> out_grad, grad_out_grad",
    "log_double_grad: x, grad_out, grad_x_grad -> x_grad, grad_out_grad",
    "pow_double_grad: x, grad_out?, grad_x_grad ; y: f32 -> x_grad, grad_out_grad",
    (
        "pow_triple_grad: x, grad_out, grad_grad_x?, grad_x_grad?, grad_grad_out_grad? ; y: f32 -> "
        "x_grad, grad_out_grad, grad_grad_x_grad"
    ),
    "square_double_grad: x, grad_out, grad_x_grad -> x_grad, grad_out_grad",
    "sqrt_double_grad: out, grad_x, grad_x_grad -> out_grad, grad_out_grad=grad_x_grad",
    "rsqrt_double_grad: out, grad_x, grad_x_grad -> out_grad, grad_out_grad=grad_x_grad",
    "relu_double_grad: out, grad_x_grad -> grad_out_grad=grad_x_grad",
    "leaky_relu_double_grad: x, grad_x_grad ; negative_slope: f64 -> grad_out_grad=grad_x_grad",
    "elu_double_grad: x, grad_out, grad_x_grad ; alpha: f32 -> x_grad, grad_out_grad",
    "celu_double_grad: x, grad_out, grad_x_grad ; alpha: f32 -> x_grad, grad_out_grad",
    (
        "softplus_double_grad: x, grad_out, grad_x_grad ; beta: f64, threshold: f64 -> x_grad, "
        "grad_out_grad"
    ),
    "silu_double_grad: x, out, grad_out, grad_x_grad -> x_grad, grad_out_grad",
    "acos_double_grad: x, grad_out, grad_x_grad -> x_grad, grad_out_grad",
    "abs_double_grad: x, grad_x_grad -> grad_out_grad=grad_x_grad",
    "abs_triple_grad: x, grad_out_grad_grad -> grad_x_grad_grad=x",
    (
        "clip_double_grad: x, grad_x_grad, min: scalar = 0.0, max: scalar = 0.0 -> "
        "grad_out_grad=grad_x_grad"
    ),
    (
        "conv2d_grad_grad: input, filter, grad_out, grad_input_grad?, grad_filter_grad? ; "
        f"{CONV} -> input_grad, filter_grad, grad_out_grad"
    ),
    (
        "depthwise_conv2d_double_grad: input, filter, grad_out, grad_input_grad?, "
        f"grad_filter_grad? ; {GROUPED_CONV} -> input_grad, filter_grad, grad_out_grad"
    ),
    (
        "conv3d_double_grad: input, filter, grad_out, grad_input_grad?, grad_filter_grad? ; "
        f"{GROUPED_CONV} -> input_grad, filter_grad, grad_out_grad"
    ),
    (
        "conv2d_transpose_double_grad: x, filter, grad_out, grad_x_grad, grad_filter_grad, "
        f"output_size: intarray ; {TRANSPOSED_CONV} -> x_grad, filter_grad, grad_out_grad"
    ),
    (
        "batch_norm_double_grad: x, scale?, out_mean?, out_variance?, saved_mean, saved_variance, "
        f"grad_out, grad_x_grad?, grad_scale_grad?, grad_bias_grad? ; {BATCH_NORM} -> x_grad, "
        "scale_grad, grad_out_grad"
    ),
    (
        "instance_norm_double_grad: x, scale?, saved_mean, saved_variance, grad_y, grad_x_grad?, "
        "grad_scale_grad?, grad_bias_grad? ; epsilon: f32 -> x_grad, scale_grad, grad_y_grad"
    ),
    "reshape_double_grad: grad_out, grad_x_grad -> grad_out_grad",
    "pad_double_grad: grad_x_grad, pad_value: scalar ; paddings: i32[] -> grad_out_grad=?",
    (
        "pad3d_double_grad: grad_x_grad, paddings: intarray ; mode: str, pad_value: f64, "
        "data_format: str -> grad_out_grad=?"
    ),
    f"pool2d_double_grad: x, grad_x_grad, kernel_size: intarray ; {POOL} -> grad_out_grad=?",
    "transpose_double_grad: grad_x_grad ; perm: i32[] -> grad_out_grad=?",
)


@infer_meta("pd_op.transpose_double_grad")
def _(grad_x_grad: TensorMeta, *, perm: tuple[int, ...]) -> TensorMeta:
    axes = normalize_axes(perm, grad_x_grad.rank, "C2", "perm")
    return grad_x_grad.with_shape(grad_x_grad.shape[a] for a in axes)


@infer_meta("pd_op.pad_double_grad", "pd_op.pad3d_double_grad")
def _(grad_x_grad: TensorMeta, **how: Any) -> Any:
    name = "pd_op.pad3d" if "mode" in how else "pd_op.pad"
    return infer_meta.of(lookup(name))(grad_x_grad, **how)


@infer_meta("pd_op.pool2d_double_grad")
def _(x: TensorMeta, grad_x_grad: TensorMeta, **how: Any) -> Any:
    return infer_meta.of(lookup("pd_op.pool2d"))(grad_x_grad, **how)
