"""Gradients of convolutions, pooling, norms, resampling, losses, products and transforms."""

from __future__ import annotations

from collections.abc import Callable

from pirkit.dialect.opdef import infer_meta, paddle_meta, require
from pirkit.dialect.ops.gradient.gradients import complex_of, declare_gradients
from pirkit.dialect.shapes import normalize_axes, show
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import UNKNOWN, TensorMeta, VecMeta

CONV = (
    "strides: i32[], paddings: i32[], padding_algorithm: str, dilations: i32[], groups: i32, "
    "data_format: str"
)
GROUPED_CONV = (
    "strides: i32[], paddings: i32[], padding_algorithm: str, groups: i32, dilations: i32[], "
    "data_format: str"
)
TRANSPOSED_CONV = (
    "strides: i32[], paddings: i32[], output_padding: i32[], padding_algorithm: str, "
    "groups: i32, dilations: i32[], data_format: str"
)
POOL = (
    "strides: i64[], paddings: i64[], ceil_mode: bool, exclusive: bool, data_format: str, "
    "pooling_type: str, global_pooling: bool, adaptive: bool, padding_algorithm: str"
)
_INDEXED_POOL = (
    "kernel_size: i32[], strides: i32[], paddings: i32[], global_pooling: bool, "
    "adaptive: bool, ceil_mode: bool = False"
)
_FRACTIONAL_POOL = "output_size: i32[], kernel_size: i32[], random_u: f32, return_mask: bool"
BATCH_NORM = (
    "momentum: f32, epsilon: f32, data_format: str, is_test: bool, use_global_stats: bool, "
    "trainable_statistics: bool"
)
_INTERP = (
    "data_format: str, out_d: i32, out_h: i32, out_w: i32, scale: f64[], interp_method: str, "
    "align_corners: bool, align_mode: i32"
)
_MOMENT = "axis: i64[], keepdim: bool, unbiased: bool, correction: f64"
TRANSPOSE_FLAGS = "transpose_x: bool = False, transpose_y: bool = False"

declare_gradients(
    (
        "yolo_loss_grad: x, gt_box, gt_label, gt_score?, objectness_mask, gt_match_mask, loss_grad "
        "; anchors: i32[] = [], anchor_mask: i32[] = [], class_num: i32 = 1, "
        "ignore_thresh: f32 = 0.7, downsample_ratio: i32 = 32, use_label_smooth: bool = True, "
        "scale_x_y: f32 = 1.0 -> x_grad, gt_box_grad, gt_label_grad, gt_score_grad"
    ),
    f"conv2d_grad: input, filter, out_grad ; {CONV} -> input_grad, filter_grad",
    f"depthwise_conv2d_grad: input, filter, out_grad ; {GROUPED_CONV} -> input_grad, filter_grad",
    f"conv3d_grad: input, filter, out_grad ; {GROUPED_CONV} -> input_grad, filter_grad",
    (
        "conv2d_transpose_grad: x, filter, out_grad, output_size: intarray ; "
        f"{TRANSPOSED_CONV} -> x_grad, filter_grad"
    ),
    (
        "depthwise_conv2d_transpose_grad: x, filter, out_grad, output_size: intarray ; "
        f"{TRANSPOSED_CONV} -> x_grad, filter_grad"
    ),
    (
        "conv3d_transpose_grad: x, filter, out_grad ; strides: i32[], paddings: i32[], "
        "output_padding: i32[], output_size: i32[], padding_algorithm: str, groups: i32, "
        "dilations: i32[], data_format: str -> x_grad, filter_grad"
    ),
    (
        "deformable_conv_grad: x, offset, filter, mask?, out_grad ; strides: i32[], "
        "paddings: i32[], dilations: i32[], deformable_groups: i32, groups: i32, "
        "im2col_step: i32 -> x_grad, offset_grad, filter_grad, mask_grad"
    ),
    f"pool2d_grad: x, out, out_grad, kernel_size: intarray ; {POOL} -> x_grad",
    f"pool3d_grad: x, out, out_grad ; kernel_size: i64[], {POOL} -> x_grad",
    f"lp_pool2d_grad: x, out, out_grad ; kernel_size: intarray, {POOL}, norm_type: f32 -> x_grad",
    f"max_pool2d_with_index_grad: x, mask, out_grad ; {_INDEXED_POOL} -> x_grad",
    f"max_pool3d_with_index_grad: x, mask, out_grad ; {_INDEXED_POOL} -> x_grad",
    f"fractional_max_pool2d_grad: x, mask, out_grad ; {_FRACTIONAL_POOL} -> x_grad",
    f"fractional_max_pool3d_grad: x, mask, out_grad ; {_FRACTIONAL_POOL} -> x_grad",
    (
        "unpool_grad: x, indices, out, out_grad, output_size: intarray ; ksize: i32[], "
        "strides: i32[], padding: i32[], data_format: str -> x_grad"
    ),
    (
        "unpool3d_grad: x, indices, out, out_grad ; ksize: i32[], strides: i32[], "
        "paddings: i32[], output_size: i32[], data_format: str -> x_grad"
    ),
    "maxout_grad: x, out, out_grad ; groups: i32, axis: i32 -> x_grad",
    (
        "unfold_grad: x, out_grad ; kernel_sizes: i32[], strides: i32[], paddings: i32[], "
        "dilations: i32[] -> x_grad"
    ),
    (
        "fold_grad: x, out_grad ; output_sizes: i32[], kernel_sizes: i32[], strides: i32[], "
        "paddings: i32[], dilations: i32[] -> x_grad"
    ),
    "pixel_shuffle_grad: out_grad ; upscale_factor: i32, data_format: str -> x_grad=?",
    "pixel_unshuffle_grad: out_grad ; downscale_factor: i32, data_format: str -> x_grad=?",
    "channel_shuffle_grad: out_grad ; groups: i32, data_format: str = NCHW -> x_grad=out_grad",
    (
        "temporal_shift_grad: out_grad ; seg_num: i32, shift_ratio: f32, data_format: str -> "
        "x_grad=out_grad"
    ),
    (
        "batch_norm_grad: x, scale?, bias?, mean_out?, variance_out?, saved_mean, saved_variance, "
        f"reserve_space?, out_grad ; {BATCH_NORM} -> x_grad, scale_grad, bias_grad"
    ),
    (
        "sync_batch_norm_grad: x, scale?, bias?, saved_mean, saved_variance, reserve_space?, "
        f"out_grad ; {BATCH_NORM} -> x_grad, scale_grad, bias_grad"
    ),
    (
        "layer_norm_grad: x, scale?, bias?~, mean, variance, out_grad ; epsilon: f32 = 1e-5, "
        "begin_norm_axis: i32 = 1 -> x_grad, scale_grad, bias_grad"
    ),
    (
        "group_norm_grad: x, scale?, bias?, y, mean, variance, y_grad ; epsilon: f64, groups: i32, "
        "data_format: str -> x_grad@y_grad, scale_grad, bias_grad"
    ),
    (
        "instance_norm_grad: x, scale?, bias?~, saved_mean, saved_variance, y_grad ; "
        "epsilon: f32 = 1e-5 -> x_grad, scale_grad, bias_grad"
    ),
    (
        "rms_norm_grad: x, scale?, invvar, y_grad ; normalized_shape: i64[] = [], "
        "epsilon: f64 = 1e-5 -> x_grad, scale_grad"
    ),
    "norm_grad: x, norm, out_grad ; axis: i32, epsilon: f32, is_test: bool -> x_grad",
    (
        "p_norm_grad: x, out, out_grad ; porder: f32, axis: i32, epsilon: f32, keepdim: bool, "
        "asvector: bool -> x_grad"
    ),
    "renorm_grad: x, out_grad ; p: f32, axis: i32, max_norm: f32 -> x_grad",
    *(
        f"{name}_grad: x~, out_size?, size_tensor[]?, scale_tensor?, output_grad ; "
        f"{_INTERP} -> x_grad"
        for name in (
            "linear_interp",
            "nearest_interp",
            "bilinear_interp",
            "bicubic_interp",
            "trilinear_interp",
            "interp_antialias",
        )
    ),
    (
        "grid_sample_grad: x, grid, out_grad ; mode: str, padding_mode: str, "
        "align_corners: bool -> x_grad, grid_grad"
    ),
    (
        "affine_grid_grad: input, output_grad, output_shape: intarray ; "
        "align_corners: bool = True -> input_grad"
    ),
    (
        "roi_align_grad: x~, boxes, boxes_num?, out_grad ; pooled_height: i32, pooled_width: i32, "
        "spatial_scale: f32, sampling_ratio: i32, aligned: bool -> x_grad"
    ),
    (
        "roi_pool_grad: x, boxes, boxes_num?, arg_max, out_grad ; pooled_height: i32, "
        "pooled_width: i32, spatial_scale: f32 -> x_grad"
    ),
    (
        "psroi_pool_grad: x, boxes, boxes_num?, out_grad ; pooled_height: i32, "
        "pooled_width: i32, output_channels: i32, spatial_scale: f32 -> x_grad"
    ),
    "pad_grad: x~, out_grad, pad_value: scalar ; paddings: i32[] -> x_grad",
    (
        "pad3d_grad: x~, out_grad, paddings: intarray ; mode: str, pad_value: f64, "
        "data_format: str -> x_grad"
    ),
    (
        "fake_quantize_dequantize_abs_max_grad: out_grad ; bit_length: i32 = 8, "
        "round_type: i32 = 1 -> x_grad=out_grad"
    ),
    (
        "fake_channel_wise_quantize_dequantize_abs_max_grad: out_grad ; bit_length: i32 = 8, "
        "round_type: i32 = 1, quant_axis: i32 = 0 -> x_grad=out_grad"
    ),
    (
        "fake_quantize_dequantize_moving_average_abs_max_grad: out_grad ; moving_rate: f32 = 0.9, "
        "bit_length: i32 = 8, is_test: bool = False, round_type: i32 = 1 -> x_grad=out_grad"
    ),
    (
        "embedding_with_scaled_gradient_grad: x, weight~, out_grad ; padding_idx: i64 = -1 -> "
        "weight_grad"
    ),
    "embedding_grad: x, weight~, out_grad ; padding_idx: i64 = -1 -> weight_grad",
    (
        "rnn_grad: x, pre_state[], weight_list[], sequence_length?, out, dropout_state_out, "
        "reserve, out_grad, state_grad[] ; dropout_prob: f32, is_bidirec: bool, input_size: i32, "
        "hidden_size: i32, num_layers: i32, mode: str, seed: i32, is_test: bool -> x_grad, "
        "pre_state_grad[], weight_list_grad[]"
    ),
    (
        "flash_attn_grad: q, k, v, out, softmax_lse, seed_offset, attn_mask?, out_grad ; "
        "dropout: f32 = 0.0, causal: bool = False -> q_grad, k_grad, v_grad"
    ),
    (
        "cross_entropy_with_softmax_grad: label, softmax, loss_grad ; soft_label: bool, "
        "use_softmax: bool, numeric_stable_mode: bool, ignore_index: i32, axis: i32 -> "
        "input_grad=softmax@softmax"
    ),
    (
        "margin_cross_entropy_grad: logits, label, softmax, loss_grad ; return_softmax: bool, "
        "ring_id: i32, rank: i32, nranks: i32, margin1: f32, margin2: f32, margin3: f32, "
        "scale: f32 -> logits_grad=softmax@softmax"
    ),
    (
        "sigmoid_cross_entropy_with_logits_grad: x, label, pos_weight?, out_grad ; "
        "normalize: bool, ignore_index: i32 -> x_grad@out_grad"
    ),
    "bce_loss_grad: input, label, out_grad -> input_grad@out_grad",
    "huber_loss_grad: residual, out_grad ; delta: f32 -> input_grad=residual, label_grad=residual",
    "kldiv_loss_grad: x~, label, out_grad ; reduction: str, log_target: bool -> x_grad",
    (
        "nll_loss_grad: input, label, weight?, total_weight, out_grad ; ignore_index: i64, "
        "reduction: str -> input_grad"
    ),
    "log_loss_grad: input, label, out_grad ; epsilon: f32 -> input_grad",
    "identity_loss_grad: x, out_grad ; reduction: i32 -> x_grad@out_grad",
    f"matmul_grad: x, y, out_grad ; {TRANSPOSE_FLAGS} -> x_grad, y_grad",
    "bmm_grad: x, y, out_grad -> x_grad, y_grad",
    "mv_grad: x, vec, out_grad -> x_grad, vec_grad",
    "dot_grad: x, y, out_grad -> x_grad, y_grad",
    (
        "linear_v2_grad: input, weight, bias~, out_grad ; transpose_weight: bool = False -> "
        "input_grad, weight_grad, bias_grad"
    ),
    "fused_softmax_mask_grad: out, out_grad -> x_grad=out",
    f"var_grad: x, out_grad ; {_MOMENT} -> x_grad",
    f"std_grad: x, out, out_grad ; {_MOMENT} -> x_grad",
    ("nansum_grad: x, out_grad ; axis: i64[], keepdim: bool, reduce_all: bool = False -> x_grad"),
    "addmm_grad: input, x, y, out_grad ; alpha: f32, beta: f32 -> input_grad, x_grad, y_grad",
    "cross_grad: x, y, out_grad ; axis: i32 -> x_grad, y_grad",
    "kron_grad: x, y, out_grad -> x_grad, y_grad",
    "einsum_grad: x_shape[], inner_cache[], out_grad ; equation: str -> x_grad[]=x_shape",
    "multi_dot_grad: x[], out_grad -> x_grad[]",
    "inverse_grad: out, out_grad -> x_grad=out",
    "cholesky_grad: out, out_grad ; upper: bool -> x_grad=out",
    "det_grad: x, out, out_grad -> x_grad",
    "matrix_power_grad: x, out, out_grad ; n: i32 -> x_grad",
    (
        "fft_r2c_grad: x~, out_grad ; axes: i64[], normalization: str, forward: bool, "
        "onesided: bool -> x_grad"
    ),
    "fft_c2c_grad: out_grad ; axes: i64[], normalization: str, forward: bool -> x_grad=out_grad",
    (
        "fft_c2r_grad: out_grad ; axes: i64[], normalization: str, forward: bool, "
        "last_dim_size: i64 -> x_grad=?"
    ),
    "frame_grad: x, out_grad ; frame_length: i32, hop_length: i32, axis: i32 -> x_grad",
    "overlap_add_grad: x, out_grad ; hop_length: i32, axis: i32 -> x_grad",
)


@infer_meta("pd_op.pixel_shuffle_grad")
def _(out_grad: TensorMeta, *, upscale_factor: int, data_format: str) -> TensorMeta:
    require(upscale_factor > 0, "C2", f"the factor {upscale_factor} is not positive")
    return _rescaled(out_grad, data_format, lambda c: c * upscale_factor**2, upscale_factor, 1)


@infer_meta("pd_op.pixel_unshuffle_grad")
def _(out_grad: TensorMeta, *, downscale_factor: int, data_format: str) -> TensorMeta:
    require(downscale_factor > 0, "C2", f"the factor {downscale_factor} is not positive")
    return _rescaled(out_grad, data_format, lambda c: c // downscale_factor**2, 1, downscale_factor)


def _rescaled(
    x: TensorMeta, data_format: str, channels: Callable[[int], int], shrink: int, grow: int
) -> TensorMeta:
    """An image meta with other channels, sides divided by ``shrink`` and multiplied by ``grow``."""
    require(x.rank == 4, "C2", f"`out_grad` has {x.rank} dimensions, not 4")
    last = data_format == "NHWC"
    n, *rest = x.shape
    c, h, w = (rest[2], *rest[:2]) if last else rest
    c, h, w = (
        UNKNOWN if old == UNKNOWN else new
        for old, new in ((c, channels(c)), (h, h * grow // shrink), (w, w * grow // shrink))
    )
    return x.with_shape((n, h, w, c) if last else (n, c, h, w))


@infer_meta("pd_op.fft_c2r_grad")
def _(out_grad: TensorMeta, *, axes: tuple[int, ...], **_: object) -> TensorMeta:
    require(out_grad.rank > 0 and len(axes) > 0, "C2", f"axes {[*axes]} of {show(out_grad.shape)}")
    last = normalize_axes(axes, out_grad.rank, "C2", "axes")[-1]
    shape = list(out_grad.shape)
    if shape[last] != UNKNOWN:
        shape[last] = shape[last] // 2 + 1
    return TensorMeta(tuple(shape), complex_of(out_grad))


@paddle_meta("pd_op.multi_dot_grad")
def _(x: VecMeta, _out_grad: TensorMeta) -> VecMeta:
    """Paddle declares float32, whatever the type of `x`."""
    return VecMeta(tuple([m.with_dtype(dt.float32) for m in x.items]))
