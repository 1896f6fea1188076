"""Where the op table differs from Paddle on purpose, and what Paddle does not survive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pirkit.dialect.signature import Result
from pirkit.runtime import dtype as dt
from tests.ops.calls import Call, arrays


@dataclass(frozen=True)
class Difference:
    """A difference from Paddle that is meant: in these results (all if empty), for these calls."""

    reason: str
    results: tuple[str, ...] = ()
    when: Callable[[Call], bool] = lambda call: True


def _has_empty_operand(call: Call) -> bool:
    return any(a.size == 0 for a in arrays(call.args))


def _ranks_differ(call: Call) -> bool:
    return len({a.ndim for a in arrays(call.args)}) > 1


def _shapes_differ(call: Call) -> bool:
    return len({a.shape for a in arrays(call.args)}) > 1


def _varies(x: object) -> bool:
    return isinstance(x, np.ndarray) and x.size > 0 and bool((x != x.reshape(-1)[0]).any())


def _has_gaps(call: Call) -> bool:
    frames = next(arrays(call.args))
    return call.attrs["hop_length"] > frames.shape[-2 if call.attrs["axis"] == -1 else 1]


def _is_integer(call: Call) -> bool:
    return all(dt.of_array(a).is_integer for a in arrays(call.args))


def _uses_running_statistics(call: Call) -> bool:
    attrs = call.attrs
    tests = attrs["is_test"] and not attrs["trainable_statistics"]
    return bool(attrs["use_global_stats"] or tests)


def _has_negative_axis(call: Call) -> bool:
    return any(axis < 0 for axis in call.attrs["axes"])


def _is_normalised(call: Call) -> bool:
    """True if the first operand holds logarithms of probabilities."""
    logs = next(arrays(call.args)).astype(np.float64)
    return bool(np.allclose(np.exp(logs).sum(-1), 1))


def _lacks_master(call: Call) -> bool:
    """True if Paddle would write to a parameter in full precision that is not there."""
    return bool(call.attrs.get("multi_precision")) and any(a is None for a in call.args)


def _is_steep(call: Call) -> bool:
    """True if one element is far below another."""
    logits = next(arrays(call.args)).astype(np.float64)
    return logits.size > 0 and bool(np.ptp(logits) > 60)


def _is_float32(call: Call) -> bool:
    return next(arrays(call.args)).dtype == np.float32


def _is_float64(call: Call) -> bool:
    return any(dt.of_array(a) is dt.float64 for a in arrays(call.args))


def _is_complex128(call: Call) -> bool:
    return any(dt.of_array(a) is dt.complex128 for a in arrays(call.args))


_SINGLE: Final = Difference("Paddle computes complex128 in single precision", when=_is_complex128)
_INTEGER: Final = Difference(
    "Paddle's programs keep the integer type, its kernels return float32", when=_is_integer
)

_RANKS: Final = Difference("Paddle refuses operands of different ranks", when=_ranks_differ)

UNSAFE: Final = {
    "pd_op.unique": Difference(
        "Paddle refuses matrices if not `is_sorted`", when=lambda call: not call.attrs["is_sorted"]
    ),
    "pd_op.matmul": Difference("batched products of integers", when=_is_integer),
    "pd_op.nll_loss": Difference("images", when=lambda call: next(arrays(call.args)).ndim == 4),
    "pd_op.fill_diagonal_tensor": Difference(
        "negative dimensions", when=lambda call: min(call.attrs["dim1"], call.attrs["dim2"]) < 0
    ),
    "pd_op.radam_": Difference("parameters without elements", when=_has_empty_operand),
    "pd_op.renorm": Difference(
        "negative axes, and no elements",
        when=lambda call: call.attrs["axis"] < 0 or _has_empty_operand(call),
    ),
    "pd_op.fft_c2c": Difference("negative axes", when=_has_negative_axis),
    "pd_op.fft_r2c": Difference("negative axes", when=_has_negative_axis),
    "pd_op.fft_c2r": Difference("negative axes", when=_has_negative_axis),
}
"""Calls that Paddle refuses, or that write out of bounds and end the process."""


_UNSET_STATISTICS: Final = Difference(
    "Paddle leaves the batch statistics uninitialised where it does not need them",
    results=("saved_mean", "saved_variance"),
    when=lambda call: _uses_running_statistics(call) or _has_empty_operand(call),
)
_GPU_ONLY: Final = Difference("Paddle computes it only on GPUs")

_GLOBAL_AND_ADAPTIVE: Final = Difference(
    "Paddle takes the sizes of the image for the kernel's, and those for the sizes of the result",
    when=lambda call: call.attrs["global_pooling"] and call.attrs["adaptive"],
)

_POSITIONS: Final = Difference("Paddle rounds positions to float32", when=_is_float64)

VALUE_DIFFERENCES: Final = {
    "pd_op.eig": Difference("vectors are unique up to their phase", results=("out_v",)),
    "pd_op.eigvals": Difference(
        "their order is LAPACK's, and that of `eig` here",
        when=lambda call: any(a.ndim > 2 or a.dtype.kind == "c" for a in arrays(call.args)),
    ),
    "pd_op.lu": Difference(
        "Paddle pivots always on CPU", when=lambda call: not call.attrs["pivot"]
    ),
    "pd_op.topk": Difference("the order is anyone's", when=lambda call: not call.attrs["sorted"]),
    "pd_op.pool3d": _GLOBAL_AND_ADAPTIVE,
    "pd_op.max_pool3d_with_index": _GLOBAL_AND_ADAPTIVE,
    "pd_op.coalesce_tensor": Difference(
        "what lies between aligned tensors is uninitialised in Paddle",
        results=("fused_output",),
        when=lambda call: call.attrs["use_align"] and call.attrs["copy_data"],
    ),
    "pd_op.box_coder": Difference(
        "Paddle reads the single precision numbers of `variance` as if they were double",
        when=lambda call: _is_float64(call) and bool(call.attrs["variance"]),
    ),
    "pd_op.warprnnt": Difference(
        "Paddle's kernel for CPUs takes logarithms as they are, that for GPUs normalises",
        when=lambda call: not _is_normalised(call),
    ),
    "pd_op.viterbi_decode": Difference(
        "Paddle scores the first step of a sequence without steps",
        when=lambda call: 0 in list(arrays(call.args))[2],
    ),
    "pd_op.lu_solve": Difference("Paddle refuses no elements", when=_has_empty_operand),
    "pd_op.depend": Difference("Paddle's kernel works in place only, where it does nothing"),
    "pd_op.lp_pool2d": Difference("Paddle takes powers in single precision", when=_is_float64),
    "pd_op.affine_grid": Difference(
        "Paddle divides by zero where a dimension has one element",
        when=lambda call: call.attrs["align_corners"] and 1 in call.attrs["output_shape"][2:],
    ),
    "pd_op.interp_antialias": Difference(
        "Paddle computes the weights in single precision", when=_is_float64
    ),
    "pd_op.bilinear_interp": _POSITIONS,
    "pd_op.trilinear_interp": _POSITIONS,
    "pd_op.batch_norm": _UNSET_STATISTICS,
    "pd_op.batch_norm_": _UNSET_STATISTICS,
    "pd_op.sync_batch_norm_": _GPU_ONLY,
    "pd_op.atan2": Difference(
        "Paddle refuses different ranks, and takes integers in single precision",
        when=lambda call: _ranks_differ(call) or _is_integer(call),
    ),
    "pd_op.fill_diagonal": Difference(
        "Paddle leaves the diagonal of a cube after its first matrix",
        when=lambda call: next(arrays(call.args)).ndim > 2 and not call.attrs["wrap"],
    ),
    "pd_op.isclose": _RANKS,
    "pd_op.label_smooth": Difference(
        "Paddle takes 1 - epsilon in single precision", when=_is_float64
    ),
    "pd_op.p_norm": Difference(
        "Paddle divides 1 by the order in single precision",
        when=lambda call: _is_float64(call) and call.attrs["porder"] not in (0.0, 1.0, 2.0),
    ),
    "pd_op.sgd_": Difference(
        "Paddle leaves out the master parameter", when=lambda call: call.args[3] is not None
    ),
    "pd_op.rprop_": Difference(
        "Paddle leaves out the master parameter", when=lambda call: call.args[4] is not None
    ),
    "pd_op.radam_": Difference(
        "Paddle takes one element of rho for all; in its programs they are equal",
        results=("param_out",),
        when=lambda call: _varies(call.args[5]),
    ),
    "pd_op.renorm": Difference(
        "Paddle adds up infinite powers for the largest element",
        when=lambda call: np.isinf(call.attrs["p"]),
    ),
    "pd_op.logspace": Difference(
        "Paddle refuses to make no number", when=lambda call: not call.attrs["num"]
    ),
    "pd_op.overlap_add": Difference("Paddle refuses frames with gaps between them", when=_has_gaps),
    "pd_op.gammaincc": Difference(
        "Paddle reads out of bounds where shapes differ", when=_shapes_differ
    ),
    "pd_op.dist": Difference(
        "Paddle divides 1 by the order in single precision",
        when=lambda call: _is_float64(call) and call.attrs["p"] not in (0.0, 1.0, 2.0),
    ),
    "pd_op.memcpy_d2h": Difference("Paddle's CPU build leaves the result without memory"),
    "pd_op.log_softmax": Difference("Paddle stops 64 below the maximum", when=_is_steep),
    "pd_op.cross_entropy_with_softmax": Difference(
        "Paddle stops 64 below the maximum, and refuses other axes without `numeric_stable_mode`",
        when=lambda call: _is_steep(call) or not call.attrs["numeric_stable_mode"],
    ),
    "pd_op.exp": _SINGLE,
    "pd_op.sigmoid": _SINGLE,
    "pd_op.bmm": Difference("Paddle leaves an empty sum uninitialised", when=_has_empty_operand),
    "pd_op.clip": Difference(
        "Paddle wraps bounds that the integer type cannot hold",
        when=lambda call: _is_integer(call) and abs(call.attrs["max"]) > 2.0**63,
    ),
    "pd_op.einsum": Difference(
        "Paddle stores scratch for its gradient", results=("inner_cache", "xshape")
    ),
}
"""Ops whose numbers differ from those of Paddle's kernels."""

_LOGICAL: Final = Difference(
    "Paddle's programs keep the type of `x`, its kernels return bool",
    when=lambda call: not any(a.dtype == bool for a in arrays(call.args)),
)

_FLOAT32: Final = Difference("Paddle's programs promise float32, its kernel returns another type")

_SINGLE_PARAMETER: Final = Difference(
    "Paddle's programs promise a float32 parameter", results=("param_out",), when=_is_float64
)
_FLOAT32_RANKS: Final = Difference("Paddle's programs promise float32, its kernel counts in int64")
_UNTYPED: Final = Difference("Paddle's programs give lists of results neither sizes nor types")

TYPE_DIFFERENCES: Final = {
    "pd_op.pool3d": _GLOBAL_AND_ADAPTIVE,
    "pd_op.max_pool3d_with_index": _GLOBAL_AND_ADAPTIVE,
    "pd_op.lu": Difference(
        "Paddle's programs declare no pivots, and its CPU kernel pivots always",
        results=("pivots",),
        when=lambda call: not call.attrs["pivot"],
    ),
    "pd_op.cross_entropy_with_softmax": Difference(
        "Paddle refuses other axes without `numeric_stable_mode`",
        when=lambda call: not call.attrs["numeric_stable_mode"],
    ),
    "pd_op.overlap_add": Difference(
        "Paddle's programs promise float32, and refuse frames with gaps between them",
        when=lambda call: _has_gaps(call) or not _is_float32(call),
    ),
    "pd_op.momentum_": _SINGLE_PARAMETER,
    "pd_op.lamb_": _SINGLE_PARAMETER,
    "pd_op.merged_adam_": _UNTYPED,
    "pd_op.merged_momentum_": _UNTYPED,
    "pd_op.update_loss_scaling_": Difference(
        "Paddle's programs promise a float32 scale", results=("loss_scaling",), when=_is_float64
    ),
    "pd_op.equal_all": _FLOAT32,
    "pd_op.unique": Difference("Paddle's programs promise float32", results=("out", "inverse")),
    "pd_op.unique_consecutive": Difference(
        "Paddle's programs promise float32", results=("index", "counts")
    ),
    "pd_op.bincount": Difference("Paddle's programs keep the type of `x` or `weights`"),
    "pd_op.slogdet": Difference("Paddle's programs promise the type of `x`"),
    "pd_op.solve": Difference(
        "Paddle's programs take one vector for each matrix as one matrix",
        when=lambda call: [a.ndim for a in arrays(call.args)] == [3, 2],
    ),
    "pd_op.svd": Difference(
        "Paddle's programs promise complex singular values",
        results=("s",),
        when=lambda call: any(dt.of_array(a).is_complex for a in arrays(call.args)),
    ),
    "pd_op.matrix_rank": _FLOAT32_RANKS,
    "pd_op.matrix_rank_tol": _FLOAT32_RANKS,
    "pd_op.matrix_rank_atol_rtol": _FLOAT32_RANKS,
    "pd_op.hsigmoid_loss": Difference(
        "Paddle's programs declare no type of what only gradients need",
        results=("pre_out", "w_out"),
    ),
    "pd_op.viterbi_decode": Difference(
        "Paddle's programs give scores the type of the lengths, and paths no type"
    ),
    "pd_op.yolo_loss": Difference(
        "Paddle's programs give the indices of anchors the type of `x`", results=("gt_match_mask",)
    ),
    "pd_op.lstsq": Difference(
        "Paddle's programs promise float ranks, and singular values whatever the driver",
        results=("residuals", "rank", "singular_values"),
    ),
    "pd_op.accuracy": Difference("Paddle's programs promise the type of `x` for all results"),
    "pd_op.generate_proposals": Difference(
        "Paddle's programs promise float32 counts, its kernel int32", results=("rpn_rois_num",)
    ),
    "pd_op.norm": Difference("Paddle leaves it unset in test mode", results=("norm",)),
    "pd_op.all": _LOGICAL,
    "pd_op.any": _LOGICAL,
    "pd_op.sync_batch_norm_": _GPU_ONLY,
    "pd_op.atan2": _RANKS,
    "pd_op.isclose": _RANKS,
    "pd_op.exp": _INTEGER,
    "pd_op.expm1": _INTEGER,
    "pd_op.log": _INTEGER,
    "pd_op.log1p": _INTEGER,
    "pd_op.log2": _INTEGER,
    "pd_op.log10": _INTEGER,
    "pd_op.matmul": Difference(
        "Paddle keeps the leading dimensions of the longer operand, its kernel broadcasts them",
        when=_ranks_differ,
    ),
}
"""Ops whose result types differ from those of Paddle's programs."""

_CONTAINER: Final = "Paddle's Python has no function for it"

_OWN: Final = "Paddle has no such op"

UNCOMPARED_VALUES: Final = {
    "pir.combine": _CONTAINER,
    "pir.split": _CONTAINER,
    "pir.slice": _CONTAINER,
    "pir.map_expr": _OWN,
    "pd_op.threefry": _OWN,
    "pir.nchwc_conv2d": _OWN,
    "pir.nchwc_max_pool2d": _OWN,
    "pir.nchwc_quantized_conv2d": _OWN,
    "pir.quantized_conv2d": _OWN,
    "pir.packed_matmul": _OWN,
    "pir.quantized_matmul": _OWN,
    "pd_op.rms_norm": "Paddle has no CPU kernel",
    "pd_op.sync_batch_norm_": "Paddle computes it only on GPUs",
    "pd_op.assign_value": "it exists only in programs",
    "pd_op.depend": "Paddle's kernel works in place only",
    "pd_op.share_data_": "it exists only in programs",
    "pd_op.memcpy": "it exists only in programs",
    "pd_op.memcpy_d2h": "Paddle's CPU build leaves the result without memory",
    "pd_op.flash_attn": "it draws, and Paddle's CPU build has no kernel",
}
"""Ops whose numbers are compared with Paddle's on no sample. Ops that draw are left out."""

UNCOMPARED_TYPES: Final = {
    "pd_op.matrix_rank": "Paddle's programs promise float32",
    "pd_op.matrix_rank_tol": "Paddle's programs promise float32",
    "pd_op.matrix_rank_atol_rtol": "Paddle's programs promise float32",
    "pd_op.viterbi_decode": "Paddle's programs promise other types for every result",
    "pd_op.coalesce_tensor": "Paddle's programs promise a float32 tensor without elements",
    "pir.combine": _CONTAINER,
    "pir.split": _CONTAINER,
    "pir.slice": _CONTAINER,
    "pir.map_expr": _OWN,
    "pd_op.threefry": _OWN,
    "pir.nchwc_conv2d": _OWN,
    "pir.nchwc_max_pool2d": _OWN,
    "pir.nchwc_quantized_conv2d": _OWN,
    "pir.quantized_conv2d": _OWN,
    "pir.packed_matmul": _OWN,
    "pir.quantized_matmul": _OWN,
    "pd_op.flash_attn": "Paddle's CPU build has no kernel to choose",
    "pd_op.rms_norm": "Paddle's programs refuse every element type of the samples",
    "pd_op.sync_batch_norm_": "Paddle computes it only on GPUs",
    "pd_op.accuracy": "Paddle's programs promise other types for every result",
    "pd_op.equal_all": "Paddle's programs promise other types for every result",
    "pd_op.slogdet": "Paddle's programs promise other types for every result",
    "pd_op.bincount": "Paddle's programs promise other types for every result",
    "pd_op.merged_adam_": "Paddle's programs give lists of results neither sizes nor types",
    "pd_op.merged_momentum_": "Paddle's programs give lists of results neither sizes nor types",
}
"""Ops whose result types are compared with those of Paddle's programs on no sample."""


def intended(differences: Mapping[str, Difference], call: Call, slot: Result) -> bool:
    """True if the table says that this result of this call differs."""
    known = differences.get(call.definition.name)
    return known is not None and slot.name in (known.results or (slot.name,)) and known.when(call)


def avoided(differences: Mapping[str, Difference], call: Call) -> bool:
    """True if there is nothing to compare, or Paddle would not survive it."""
    return _lacks_master(call) or all(
        intended(differences, call, slot) or intended(UNSAFE, call, slot)
        for slot in call.definition.results
    )
