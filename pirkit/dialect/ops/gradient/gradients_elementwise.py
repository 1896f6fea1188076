"""Gradients of element-wise ops, activations, softmax and scans."""

from __future__ import annotations

from pirkit.dialect.opdef import infer_meta, require
from pirkit.dialect.ops.gradient.gradients import complex_of, declare_gradients
from pirkit.dialect.shapes import same_dim, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta

declare_gradients(
    "sin_grad: x, out_grad -> x_grad@out_grad",
    "cos_grad: x, out_grad -> x_grad@out_grad",
    "tan_grad: x, out_grad -> x_grad@out_grad",
    "asin_grad: x, out_grad -> x_grad@out_grad",
    "acos_grad: x, out_grad -> x_grad@out_grad",
    "atan_grad: x, out_grad -> x_grad@out_grad",
    "sinh_grad: x, out_grad -> x_grad@out_grad",
    "cosh_grad: x, out_grad -> x_grad@out_grad",
    "tanh_grad: out, out_grad -> x_grad=out@out_grad",
    "asinh_grad: x, out_grad -> x_grad@out_grad",
    "acosh_grad: x, out_grad -> x_grad@out_grad",
    "atanh_grad: x, out_grad -> x_grad@out_grad",
    "exp_grad: out, out_grad -> x_grad=out@out_grad",
    "expm1_grad: out, out_grad -> x_grad=out@out_grad",
    "log_grad: x, out_grad -> x_grad@out_grad",
    "log2_grad: x, out_grad -> x_grad@out_grad",
    "log10_grad: x, out_grad -> x_grad@out_grad",
    "log1p_grad: x, out_grad -> x_grad@out_grad",
    "sqrt_grad: out, out_grad -> x_grad=out@out_grad",
    "rsqrt_grad: out, out_grad -> x_grad=out@out_grad",
    "square_grad: x, out_grad -> x_grad@out_grad",
    "reciprocal_grad: out, out_grad -> x_grad=out@out_grad",
    "abs_grad: x, out_grad -> x_grad",
    "sign_grad: out_grad -> x_grad=out_grad",
    "floor_grad: out_grad -> x_grad=out_grad@out_grad",
    "ceil_grad: out_grad -> x_grad=out_grad@out_grad",
    "round_grad: out_grad -> x_grad=out_grad@out_grad",
    "trunc_grad: out_grad -> input_grad=out_grad",
    "erf_grad: x, out_grad -> x_grad",
    "erfinv_grad: out, out_grad -> x_grad=out",
    "lgamma_grad: x, out_grad -> x_grad",
    "gammaln_grad: x, out_grad -> x_grad",
    "digamma_grad: x, out_grad -> x_grad",
    "polygamma_grad: x, out_grad ; n: i32 -> x_grad",
    "logit_grad: x, out_grad ; eps: f64 -> x_grad",
    "i0_grad: x, out_grad -> x_grad",
    "pow_grad: x, out_grad ; y: f32 = -1 -> x_grad@out_grad",
    "relu_grad: out, out_grad -> x_grad=out@out_grad",
    "relu6_grad: out, out_grad -> x_grad=out@out_grad",
    "leaky_relu_grad: x, out_grad ; negative_slope: f64 -> x_grad@out_grad",
    "elu_grad: x, out, out_grad ; alpha: f32 -> x_grad@out_grad",
    "celu_grad: x, out_grad ; alpha: f32 -> x_grad@out_grad",
    "selu_grad: out, out_grad ; scale: f32, alpha: f32 -> x_grad=out",
    "gelu_grad: x, out_grad ; approximate: bool -> x_grad",
    "silu_grad: x, out, out_grad -> x_grad@out_grad",
    "swish_grad: x, out_grad -> x_grad@out_grad",
    "mish_grad: x, out_grad ; lambda: f32 -> x_grad@out_grad",
    "sigmoid_grad: out, out_grad -> x_grad=out@out_grad",
    "logsigmoid_grad: x, out_grad -> x_grad@out_grad",
    "hardsigmoid_grad: out, out_grad ; slope: f32, offset: f32 -> x_grad=out@out_grad",
    "hardswish_grad: x, out_grad -> x_grad@out_grad",
    "hardtanh_grad: x, out_grad ; t_min: f32, t_max: f32 -> x_grad@out_grad",
    "hardshrink_grad: x, out_grad ; threshold: f32 -> x_grad@out_grad",
    "softshrink_grad: x, out_grad ; threshold: f32 -> x_grad@out_grad",
    "tanh_shrink_grad: x, out_grad -> x_grad@out_grad",
    "thresholded_relu_grad: x, out_grad ; threshold: f32, value: f32 -> x_grad@out_grad",
    "stanh_grad: x, out_grad ; scale_a: f32, scale_b: f32 -> x_grad",
    "softplus_grad: x, out_grad ; beta: f64, threshold: f64 -> x_grad@out_grad",
    "softsign_grad: x, out_grad -> x_grad@out_grad",
    "prelu_grad: x, alpha, out_grad ; data_format: str, mode: str -> x_grad, alpha_grad",
    "rrelu_grad: x, noise, out_grad -> x_grad",
    "swiglu_grad: x, y?, out_grad -> x_grad, y_grad",
    "add_grad: x~, y~, out_grad ; axis: i32 = -1 -> x_grad@out_grad, y_grad",
    "subtract_grad: x~, y~, out_grad ; axis: i32 = -1 -> x_grad@out_grad, y_grad",
    "multiply_grad: x, y, out_grad ; axis: i32 = -1 -> x_grad, y_grad",
    "divide_grad: x, y, out, out_grad ; axis: i32 = -1 -> x_grad, y_grad",
    "remainder_grad: x, y, out_grad -> x_grad, y_grad",
    "maximum_grad: x, y, out_grad -> x_grad, y_grad",
    "minimum_grad: x, y, out_grad -> x_grad, y_grad",
    "fmax_grad: x, y, out_grad -> x_grad, y_grad",
    "fmin_grad: x, y, out_grad -> x_grad, y_grad",
    "elementwise_pow_grad: x, y, out_grad -> x_grad, y_grad",
    "atan2_grad: x, y, out_grad -> x_grad, y_grad",
    "copysign_grad: x, y, out_grad -> x_grad@out_grad, y_grad",
    "heaviside_grad: x, y, out_grad -> x_grad, y_grad",
    "lerp_grad: x, y, weight, out, out_grad -> x_grad, y_grad",
    "where_grad: condition, x~, y~, out_grad -> x_grad, y_grad",
    "clip_grad: x, out_grad, min: scalar = 0.0, max: scalar = 0.0 -> x_grad@out_grad",
    "scale_grad: out_grad, scale: scalar = 1.0 -> x_grad=out_grad",
    "cast_grad: x~, out_grad -> x_grad",
    "assign_grad: out_grad -> x_grad=out_grad",
    "dropout_grad: mask, out_grad, p: scalar ; is_test: bool, mode: str -> x_grad=out_grad",
    "complex_grad: real, imag, out_grad -> real_grad, imag_grad",
    "real_grad: out_grad -> x_grad=?",
    "imag_grad: out_grad -> x_grad=?",
    "conj_grad: out_grad -> x_grad=out_grad",
    "angle_grad: x, out_grad -> x_grad",
    "as_complex_grad: out_grad -> x_grad=?",
    "as_real_grad: out_grad -> x_grad=?",
    "cumsum_grad: x, out_grad, axis: i64 ; flatten: bool, exclusive: bool, reverse: bool -> x_grad",
    "cumprod_grad: x, out, out_grad ; dim: i32, exclusive: bool, reverse: bool -> x_grad",
    (
        "logcumsumexp_grad: x, out, out_grad ; axis: i32, flatten: bool, exclusive: bool, "
        "reverse: bool -> x_grad"
    ),
    "cummax_grad: x, indices, out_grad ; axis: i32, dtype: dtype -> x_grad",
    "cummin_grad: x, indices, out_grad ; axis: i32, dtype: dtype -> x_grad",
    "tril_grad: out_grad ; diagonal: i32 -> x_grad=out_grad",
    "triu_grad: out_grad ; diagonal: i32 -> x_grad=out_grad",
    "fill_grad: out_grad, value: scalar -> x_grad=out_grad@out_grad",
    "fill_diagonal_grad: out_grad ; value: f32, offset: i32, wrap: bool -> x_grad=out_grad",
    "softmax_grad: out, out_grad ; axis: i32 -> x_grad=out",
    "log_softmax_grad: out, out_grad ; axis: i32 -> x_grad=out",
    "gumbel_softmax_grad: out, out_grad ; axis: i32 -> x_grad=out",
)


@infer_meta("pd_op.real_grad", "pd_op.imag_grad")
def _(out_grad: TensorMeta) -> TensorMeta:
    return out_grad.with_dtype(complex_of(out_grad))


@infer_meta("pd_op.as_complex_grad")
def _(out_grad: TensorMeta) -> TensorMeta:
    require(out_grad.dtype.is_complex, "C2", f"`out_grad` is {out_grad.dtype}, not complex")
    return TensorMeta((*out_grad.shape, 2), dt.REAL_OF[out_grad.dtype])


@infer_meta("pd_op.as_real_grad")
def _(out_grad: TensorMeta) -> TensorMeta:
    pairs = out_grad.rank > 0 and same_dim(out_grad.shape[-1], 2)
    require(pairs, "C2", f"shape {show(out_grad.shape)} of `out_grad` does not end in 2")
    return TensorMeta(out_grad.shape[:-1], complex_of(out_grad))
