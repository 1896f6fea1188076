"""Gradients of linear algebra, special functions, graphs and other ops outside of layers."""

from __future__ import annotations

from pirkit.dialect.opdef import infer_meta, paddle_meta
from pirkit.dialect.ops.gradient.gradients import declare_gradients
from pirkit.runtime import dtype as dt
from pirkit.runtime.meta import TensorMeta, VecMeta

declare_gradients(
    "i0e_grad: x, out, out_grad -> x_grad",
    "i1_grad: x, out, out_grad -> x_grad",
    "i1e_grad: x, out, out_grad -> x_grad",
    "slogdet_grad: x, out, out_grad -> x_grad",
    "slogdet_v2_grad: x, sign, logdet, sign_grad, logdet_grad -> x_grad",
    "solve_grad: x, y, out, out_grad -> x_grad, y_grad",
    (
        "triangular_solve_grad: x, y, out, out_grad ; upper: bool, transpose: bool, "
        "unitriangular: bool -> x_grad, y_grad"
    ),
    "cholesky_solve_grad: x, y, out, out_grad ; upper: bool -> x_grad, y_grad",
    "svd_grad: x, u, vh, s, u_grad?, vh_grad?, s_grad? ; full_matrices: bool -> x_grad",
    "svdvals_grad: x, s_grad -> x_grad",
    "qr_grad: x, q, r, q_grad, r_grad ; mode: str -> x_grad",
    "lu_grad: x, out, pivots, out_grad ; pivot: bool -> x_grad",
    "lu_solve_grad: b, lu, pivots, out, out_grad ; trans: str -> b_grad, lu_grad",
    (
        "lu_unpack_grad: x, y, l, u, pmat, l_grad?, u_grad? ; unpack_ludata: bool, "
        "unpack_pivots: bool -> x_grad"
    ),
    "eig_grad: out_w, out_v, out_w_grad?, out_v_grad? -> x_grad=out_v",
    "eigh_grad: out_w, out_v, out_w_grad, out_v_grad -> x_grad=out_v",
    (
        "eigvalsh_grad: eigenvectors, eigenvalues_grad ; uplo: str, is_test: bool -> "
        "x_grad=eigenvectors"
    ),
    ("baddbmm_grad: input, x, y, out_grad ; alpha: f32, beta: f32 -> input_grad, x_grad, y_grad"),
    "poisson_grad: out_grad -> x_grad=out_grad",
    "label_smooth_grad: out_grad ; epsilon: f32 -> label_grad=out_grad",
    "multiplex_grad: inputs[], index, out_grad -> inputs_grad[]",
    (
        "frobenius_norm_grad: x, out, out_grad, axis: intarray ; keep_dim: bool, "
        "reduce_all: bool -> x_grad"
    ),
    (
        "repeat_interleave_with_tensor_index_grad: x, repeats, out_grad ; axis: i32, "
        "output_size: i64 = -1 -> x_grad"
    ),
    ("segment_pool_grad: x, segment_ids, out, summed_ids?, out_grad ; pooltype: str -> x_grad"),
    (
        "send_u_recv_grad: x, src_index, dst_index, out?, dst_count?, out_grad ; "
        "reduce_op: str = 'SUM' -> x_grad"
    ),
    (
        "send_ue_recv_grad: x, y, src_index, dst_index, out?, dst_count?, out_grad ; "
        "message_op: str = 'ADD', reduce_op: str = 'SUM' -> x_grad, y_grad"
    ),
    (
        "send_uv_grad: x, y, src_index, dst_index, out_grad ; message_op: str = 'ADD' -> "
        "x_grad, y_grad"
    ),
    (
        "warpctc_grad: logits, logits_length?, warpctcgrad, loss_grad ; blank: i32, "
        "norm_by_times: bool -> logits_grad"
    ),
    (
        "warprnnt_grad: input, input_lengths, warprnntgrad, loss_grad ; blank: i32 = 0, "
        "fastemit_lambda: f32 = 0.0 -> input_grad"
    ),
    "crop_grad: x~, out_grad, offsets: intarray -> x_grad",
    "bilinear_grad: x, y, weight, out_grad -> x_grad, y_grad, weight_grad, bias_grad=?",
    "gammaincc_grad: x, y, out_grad -> y_grad",
)


@paddle_meta("pd_op.multiplex_grad")
def _(inputs: VecMeta, index: TensorMeta, out_grad: TensorMeta) -> VecMeta:
    """Paddle counts as many rows as were picked; those after have the gradient zero. It declares
    float32, whatever the type of `inputs`."""
    return VecMeta((out_grad.with_dtype(dt.float32),) * len(inputs))


@infer_meta("pd_op.bilinear_grad")
def _(
    x: TensorMeta, y: TensorMeta, weight: TensorMeta, out_grad: TensorMeta
) -> tuple[TensorMeta, ...]:
    return x, y, weight, weight.with_shape((1, weight.shape[0]))
