"""Operands and attributes of forward ops that Paddle's gradient ops do not hold.

They are decomposed through the derivative of the forward op (`passes/gradient_ops.py`), with what
these tables tell; the few that say too little for that have rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pirkit.dialect.build import Value
from pirkit.dialect.opcall import OpCall
from pirkit.dialect.opdef import decompose
from pirkit.dialect.rules.movement.size_ops import shape_of

_POOLING: Final = (
    "kernel_size", "strides", "paddings", "ceil_mode", "exclusive", "data_format", "pooling_type",
    "global_pooling", "adaptive", "padding_algorithm",
)  # fmt: skip

FROM_RESULT: Final[dict[str, dict[str, Callable[[Any], Value]]]] = {
    "pd_op.relu_grad": {"x": lambda c: c.out},
    "pd_op.relu6_grad": {"x": lambda c: c.out},
    "pd_op.sqrt_grad": {"x": lambda c: c.out * c.out},
    "pd_op.rsqrt_grad": {"x": lambda c: c.out**-2},
    "pd_op.reciprocal_grad": {"x": lambda c: 1.0 / c.out},
    "pd_op.exp_grad": {"x": lambda c: c.b.log(c.out)},
    "pd_op.expm1_grad": {"x": lambda c: c.b.log1p(c.out)},
    "pd_op.hardsigmoid_grad": {"x": lambda c: (c.out - c.offset) / c.slope},
    "pd_op.selu_grad": {
        "x": lambda c: c.b.where(
            c.out > 0.0, c.out / c.scale, c.b.log1p(c.out / (c.scale * c.alpha))
        )
    },
    "pd_op.fused_softmax_mask_grad": {
        "x": lambda c: c.b.log(c.out),
        "mask": lambda c: c.b.zeros_like(c.out[:, :1]),
    },
    "pd_op.cross_entropy_with_softmax_grad": {
        "input": lambda c: c.b.log(c.softmax) if c.use_softmax else c.softmax
    },
    "pd_op.huber_loss_grad": {
        "input": lambda c: -c.residual,
        "label": lambda c: c.b.zeros_like(c.residual),
    },
    "pd_op.fill_diagonal_tensor_grad": {
        "y": lambda c: c.b.diagonal(c.out_grad, offset=c.offset, axis1=c.dim1, axis2=c.dim2)
    },
    **{
        f"pd_op.{n}batch_norm_grad": {"variance": lambda c: c.saved_variance**-2 - c.epsilon}
        for n in ("", "sync_")
    },
    "pd_op.sqrt_double_grad": {"out_grad": lambda c: c.grad_x * c.out * 2.0},
    "pd_op.rsqrt_double_grad": {"out_grad": lambda c: c.grad_x / (c.out**3 * -0.5)},
    "pd_op.pad_double_grad": {
        "out_grad": lambda c: c.b.pad(c.grad_x_grad, paddings=c.paddings, pad_value=0.0)
    },
    "pd_op.pad3d_double_grad": {
        "out_grad": lambda c: c.b.pad3d(
            c.grad_x_grad, paddings=c.paddings, mode=c.mode, data_format=c.data_format
        )
    },
    "pd_op.pool2d_double_grad": dict.fromkeys(
        ("out", "out_grad"), lambda c: c.b.pool2d(c.x, **{n: getattr(c, n) for n in _POOLING})
    ),
    "pd_op.divide_double_grad": {"x": lambda c: c.out * c.y},
}
"""Operands of the forward op that the gradient op lacks and that its derivative reads.

Each is computed from what the gradient op has; where the forward op is not one to one, as one of
the values with that result and that derivative.
"""

ATTRIBUTES: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "pd_op.cast_grad": lambda c: {"dtype": c.out_grad.dtype},
    "pd_op.scale_grad": lambda c: {"bias": 0.0, "bias_after_scale": True},
    "pd_op.dropout_grad": lambda c: {"seed": 0, "fix_seed": False},
    "pd_op.split_with_num_grad": lambda c: {"num": len(c.out_grad)},
    "pd_op.unstack_grad": lambda c: {"num": len(c.out_grad)},
    "pd_op.embedding_grad": lambda c: {"sparse": False},
    "pd_op.diag_grad": lambda c: {"padding_value": 0.0},
    "pd_op.crop_grad": lambda c: {"shape": shape_of(c.b, c.out_grad)},
    "pd_op.send_u_recv_grad": lambda c: {"out_size": shape_of(c.b, c.out_grad, 1)},
    "pd_op.send_ue_recv_grad": lambda c: {"out_size": shape_of(c.b, c.out_grad, 1)},
    "pd_op.eigh_grad": lambda c: {"UPLO": "L"},
    "pd_op.flash_attn_grad": lambda c: {"return_softmax": False, "is_test": False, "rng_name": ""},
}
"""Attributes of the forward op that the gradient op lacks and that have no default."""

STANDS_FOR: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "pd_op.batch_norm_grad": {"mean": ("mean_out", "saved_mean"), "variance": ("variance_out",)},
    "pd_op.sync_batch_norm_grad": {"mean": ("saved_mean",)},
    "pd_op.batch_norm_double_grad": {
        "mean_out": ("out_mean", "saved_mean"),
        "variance_out": ("out_variance", "saved_variance"),
        "bias": ("grad_bias_grad", "scale"),
    },
    "pd_op.instance_norm_double_grad": {"bias": ("grad_bias_grad", "scale")},
    "pd_op.add_double_grad": {"x": ("grad_x_grad", "grad_out")},
    "pd_op.subtract_double_grad": {"x": ("grad_x_grad", "grad_out")},
    "pd_op.add_triple_grad": {"y": ("grad_grad_y",), "grad_out": ("grad_grad_out_grad",)},
    "pd_op.pad_double_grad": {"x": ("grad_x_grad",)},
    "pd_op.pad3d_double_grad": {"x": ("grad_x_grad",)},
    "pd_op.reshape_double_grad": {"x": ("grad_x_grad",)},
    "pd_op.einsum_grad": {"x": ("x_shape",)},
    "pd_op.rnn_grad": {"dropout_state_in": ("dropout_state_out",)},
}
"""Operands of the forward op -> operands of the gradient op that stand for them, the first given.

The derivative reads no more of them than their shape, or (running statistics) the new for the old.
"""

LOSSY: Final = frozenset({"pd_op.set_value_grad"})
"""Gradient ops that do not hold what the derivative of their forward op depends on."""


@decompose("pd_op.flatten_grad")
def _(c: OpCall) -> Value:
    return c.b.reshape_like(c.out_grad, c.x)


@decompose(
    "pd_op.fake_quantize_dequantize_abs_max_grad",
    "pd_op.fake_channel_wise_quantize_dequantize_abs_max_grad",
    "pd_op.fake_quantize_dequantize_moving_average_abs_max_grad",
)
def _(c: OpCall) -> Value:
    return c.b.assign(c.out_grad)


@decompose("pd_op.expand_as_grad")
def _(c: OpCall) -> Value:
    return c.b.sum_to(c.out_grad, c.x)


@decompose("pd_op.set_value_grad")
def _(c: OpCall) -> Value:
    """Paddle's op does not hold which elements were overwritten, and passes all gradients on."""
    return c.b.assign(c.out_grad)


@decompose("pd_op.fill_grad")
def _(c: OpCall) -> Value:
    return c.b.zeros_like(c.out_grad)


@decompose("pd_op.bilinear_grad")
def _(c: OpCall) -> tuple[Value, Value, Value, Value]:
    """Paddle's op has no operand for the bias, of which the derivative is a sum."""
    b, seed = c.b, c.out_grad
    equations = {
        "bo,omn,bn->bm": (seed, c.weight, c.y),
        "bo,bm,omn->bn": (seed, c.x, c.weight),
        "bo,bm,bn->omn": (seed, c.x, c.y),
    }
    x, y, weight = [b.einsum(list(t), equation=e)[0] for e, t in equations.items()]
    return x, y, weight, b.sum(seed, axis=(0,), keepdim=True)
