"""Defaults of Paddle's Python functions, where the op has none or another one."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from typing import Any, Final

from msgspec import Struct


class SameAs(Struct, frozen=True):
    """The default is the value of another parameter of the call."""

    name: str

    def __repr__(self) -> str:
        return self.name


_POOLING: Final = {
    "strides": SameAs("kernel_size"),
    "ceil_mode": False,
    "exclusive": True,
    "pooling_type": "max",
    "global_pooling": False,
    "adaptive": False,
    "padding_algorithm": "EXPLICIT",
}
_BATCH_NORM: Final = {
    "is_test": True,
    "momentum": 0.9,
    "epsilon": 1e-5,
    "data_format": "NCHW",
    "use_global_stats": False,
    "trainable_statistics": False,
}
_WINDOWS: Final = {"strides": [1, 1], "paddings": [0, 0, 0, 0], "dilations": [1, 1]}
_PRIOR_BOX: Final = {"aspect_ratios": [1.0], "flip": False, "clip": False}
_OPTIONAL_AXIS: Final = {"axis": None}
_FOURIER: Final = {"axes": [-1], "normalization": "backward", "forward": True, "onesided": True}

DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "pd_op.argmax": _OPTIONAL_AXIS,
    "pd_op.argmin": _OPTIONAL_AXIS,
    "pd_op.batch_norm": _BATCH_NORM,
    "pd_op.clip": {"min": float("-inf"), "max": float("inf")},
    "pd_op.conv3d_transpose": {"data_format": "NCDHW"},
    "pd_op.cummax": {"axis": Parameter.empty},
    "pd_op.cummin": {"axis": Parameter.empty},
    "pd_op.cumsum": _OPTIONAL_AXIS,
    "pd_op.deformable_conv": {
        "strides": [1, 1],
        "paddings": [0, 0],
        "dilations": [1, 1],
        "deformable_groups": 1,
        "groups": 1,
        "im2col_step": 1,
    },
    "pd_op.distribute_fpn_proposals": {"pixel_offset": False},
    "pd_op.dropout": {"mode": "upscale_in_train"},
    "pd_op.exponential_": {"lam": 1.0},
    "pd_op.eye": {"num_columns": SameAs("num_rows")},
    "pd_op.fft_c2c": _FOURIER,
    "pd_op.fft_c2r": {**_FOURIER, "forward": False},
    "pd_op.fft_r2c": _FOURIER,
    "pd_op.flatten": {"start_axis": 0, "stop_axis": -1},
    "pd_op.fold": _WINDOWS,
    "pd_op.gaussian": {"mean": 0.0, "std": 1.0, "seed": 0, "dtype": "float32"},
    "pd_op.generate_proposals": {
        "pre_nms_top_n": 6000,
        "post_nms_top_n": 1000,
        "nms_thresh": 0.5,
        "min_size": 0.1,
        "eta": 1.0,
        "pixel_offset": False,
    },
    "pd_op.hardsigmoid": {"slope": 0.1666667},
    "pd_op.huber_loss": {"delta": 1.0},
    "pd_op.label_smooth": {"epsilon": 0.1},
    "pd_op.leaky_relu": {"negative_slope": 0.01},
    "pd_op.linspace": {"dtype": "float32"},
    "pd_op.log_loss": {"epsilon": 1e-4},
    "pd_op.logcumsumexp": _OPTIONAL_AXIS,
    "pd_op.logit": {"eps": 0.0},
    "pd_op.logspace": {"dtype": "float32"},
    "pd_op.lu_solve": {"trans": "N"},
    "pd_op.median": {"keepdim": False},
    "pd_op.mish": {"lambda": 20.0},
    "pd_op.nanmedian": {"keepdim": False},
    "pd_op.norm": {"axis": -1, "epsilon": 1e-10, "is_test": False},
    "pd_op.pad": {"pad_value": 0.0},
    "pd_op.pool2d": {**_POOLING, "paddings": [0, 0], "data_format": "NCHW"},
    "pd_op.pool3d": {**_POOLING, "paddings": [0, 0, 0], "data_format": "NCDHW"},
    "pd_op.prior_box": _PRIOR_BOX,
    "pd_op.prod": {"axis": [], "keepdim": False, "reduce_all": False},
    "pd_op.randint": {"low": 0, "shape": [1]},
    "pd_op.randperm": {"dtype": "int64"},
    "pd_op.roi_align": {"aligned": True},
    "pd_op.sequence_mask": {"max_len": -1, "out_dtype": "int64"},
    "pd_op.softmax": {"axis": -1},
    "pd_op.split": {"axis": 0},
    "pd_op.split_with_num": {"axis": 0},
    "pd_op.sync_batch_norm_": _BATCH_NORM,
    "pd_op.tril_indices": {"cols": SameAs("rows"), "offset": 0, "dtype": "int64"},
    "pd_op.triu_indices": {"col": SameAs("row"), "offset": 0, "dtype": "int64"},
    "pd_op.truncated_gaussian_random": {"mean": 0.0, "std": 1.0, "a": -2.0, "b": 2.0},
    "pd_op.unfold": _WINDOWS,
    "pd_op.uniform": {"dtype": "float32", "min": 0.0, "max": 1.0},
    "pd_op.unique_consecutive": {"dtype": "int64"},
}
"""By op and parameter. ``seed`` is always 0: the generator of the program draws.

``axis=None`` stands for all elements (``flatten``). Paddle's `cummax` flattens without an axis;
the op cannot, so that its axis is required.
"""

SPREAD: Final = {"pd_op.pool2d": 2, "pd_op.pool3d": 3}
"""Ops whose sizes may be one number for all axes; the value is the number of axes."""
SIZES: Final = ("kernel_size", "strides", "paddings")

EVERYWHERE: Final[Mapping[str, Any]] = {"seed": 0}


def filled(op: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with the defaults of Paddle's Python functions."""
    count, defaults = SPREAD.get(op), DEFAULTS.get(op, {})
    # None is not given where there is a default.
    stated = {k: v for k, v in given.items() if v is not None or k not in defaults}
    own: dict[str, Any] = {**defaults, **stated}
    if defaults is _OPTIONAL_AXIS and own["axis"] is None:
        own |= {"axis": 0, "flatten": True}
    if count is not None:
        own |= {k: [own[k]] * count for k in SIZES if isinstance(own.get(k), int)}
    same = {k: v.name for k, v in own.items() if isinstance(v, SameAs)}
    kept = {k: v for k, v in own.items() if k not in same}
    return kept | {k: kept[name] for k, name in same.items() if name in kept}
