"""The campaign over the op table: a short slice of it, and what it has found."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from pirkit import ops
from pirkit.diag.errors import RuntimeFault
from pirkit.dialect.opdef import lookup
from pirkit.dialect.samples import Sample
from pirkit.runtime import dtype as dt
from tests.ops.calls import complete
from tools.campaigns.driver import SEVERE
from tools.campaigns.op_table import CHOOSY, WAYS, compared, examine
from tools.campaigns.outcomes import attempt

NAN, INF = np.nan, np.inf


def f(*values: float, shape: tuple[int, ...] | None = None, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype).reshape(shape if shape is not None else len(values))


WINDOW: Final = f(1, NAN, 3, 2, NAN, NAN, NAN, NAN, *range(8), shape=(1, 1, 4, 4))
IMAGE: Final = np.linspace(1, 2, 36, dtype=np.float32).reshape(1, 3, 3, 4)
AGREE: Final[list[tuple[str, list[Any], dict[str, Any]]]] = [
    ("softmax", [f(NAN, shape=())], {"axis": -1}),
    ("softmax", [f(INF, shape=())], {"axis": -1}),
    ("log_softmax", [f(NAN, shape=())], {"axis": -1}),
    ("log_softmax", [f(INF, shape=())], {"axis": -1}),
    ("lamb_", [f(NAN, 1, 2), f(1, 2, 3), f(0.25), *[f(1, 2, 3)] * 2, *[f(0.5)] * 2, None, None],
     {"weight_decay": 0.25}),
    ("fft_c2r", [np.ones((2, 3), np.complex64)],
     {"axes": (1,), "normalization": "backward", "forward": False, "last_dim_size": -1}),
    ("max_pool2d_with_index", [WINDOW],
     {"kernel_size": (2, 2), "strides": (2, 2), "paddings": (0, 0)}),
    ("i0", [f(88.8, -88.8, 200, INF, NAN)], {}),
    ("i1", [f(88.8, -88.8, 200, INF, NAN)], {}),
    ("mish", [f(-1.0, 0.25, 0.75, 2.0)], {"lambda": 0.5}),
    ("nanmedian", [f(3, 1, 2, 5, shape=(1, 4), dtype=dt.bfloat16.np)],
     {"axis": (1,), "keepdim": False, "mode": "avg"}),
    ("log2", [np.array([0, -0.0, complex(INF, -1), 1j, -1])], {}),
    ("flip", [f(1.0, shape=())], {"axis": (0,)}),
    ("depthwise_conv2d", [np.ones((1, 2, 5, 5), np.float32), np.ones((2, 1, 3, 3), np.float32)],
     {"strides": (2**31 - 1, 2**31 - 1), "paddings": (1, 1), "groups": 2}),
    ("bilinear", [f(1, 2, shape=(1, 2), dtype=dt.bfloat16.np)] * 2
     + [np.ones((1, 2, 2), dt.bfloat16.np), None], {}),
    ("fold", [np.ones((0, 4, 4), np.float32)],
     {"output_sizes": (3, 3), "kernel_sizes": (2, 2), "strides": (1, 1),
      "paddings": (0, 0, 0, 0), "dilations": (1, 1)}),
    ("put_along_axis", [np.ones((2, 2), bool), np.array([[1, 0]]), np.zeros((1, 2), bool)],
     {"axis": 0}),
    ("median", [np.ones((0, 3), np.int32)], {"axis": (1,), "keepdim": False, "mode": "avg"}),
    ("scale", [f(1, 3, 700, dtype=np.float16)], {"scale": 0.1, "bias": 1e-3}),
    ("leaky_relu", [f(1, -1, 2, NAN)], {"negative_slope": 1e300}),
    ("prelu", [f(1, -1, 2, NAN, shape=(1, 4)), f(INF)], {"mode": "all"}),
    ("check_finite_and_unscale_", [[f(1, INF), f(2, -2)], f(-0.0)], {}),
    ("logcumsumexp", [f(-INF, 1, 2)],
     {"axis": 0, "flatten": False, "exclusive": True, "reverse": False}),
    ("conv2d_transpose", [IMAGE, f(1, INF, *range(16), shape=(3, 1, 3, 2))], {"groups": 1}),
    ("conv2d_transpose", [IMAGE, f(*range(17), INF, shape=(3, 1, 3, 2))],
     {"groups": 1, "strides": (2, 2), "paddings": (1, 1)}),
    ("depthwise_conv2d_transpose", [IMAGE, f(1, -INF, *range(16), shape=(3, 1, 3, 2))],
     {"groups": 3}),
    ("conv3d_transpose", [IMAGE[:, :, None], f(*range(5), NAN, *range(6), shape=(3, 1, 1, 2, 2))],
     {"groups": 1}),
    ("update_loss_scaling_",
     [[f(1, 2)], np.array([False]), f(8.0), *[np.full(1, 2**31 - 1, "i4")] * 2],
     {"incr_every_n_steps": 10, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0,
      "decr_ratio": 0.5}),
    ("kldiv_loss", [np.zeros((3, 0), np.float16)] * 2, {"reduction": "mean"}),
    ("deformable_conv",
     [np.ones((2, 4, 5, 6)), np.ones((2, 12, 3, 5)), np.ones((0, 4, 3, 2)), None],
     {"strides": (1, 1), "paddings": (0, 0), "dilations": (1, 1), "deformable_groups": 1,
      "groups": 1, "im2col_step": 1}),
    ("deformable_conv",
     [np.ones((0, 4, 5, 6)), np.ones((0, 36, 3, 2)), np.ones((2, 2, 3, 3)),
      np.ones((0, 18, 3, 2))],
     {"strides": (2, 2), "paddings": (1, 1), "dilations": (1, 2), "deformable_groups": 2,
      "groups": 2, "im2col_step": 1}),
    ("accuracy", [np.ones((1, 2), "f4"), np.array([[1, 0]], "i4"), np.array([[2**32 + 1]])], {}),
    ("set_value", [np.zeros((), np.int32)],
     {"starts": (), "ends": (), "steps": (), "axes": (), "decrease_axes": (), "none_axes": (),
      "shape": (1,), "values": (1.0,)}),
    ("trace", [np.ones((4, 3, 2), bool)], {"offset": -2, "axis1": 0, "axis2": 1}),
    ("sum", [np.ones((3, 4), bool)], {"axis": (1,), "dtype": dt.bool_, "keepdim": False}),
    ("unpool3d", [np.ones((0, 1, 2, 2, 2)), np.ones((0, 1, 2, 2, 2), "i4")],
     {"ksize": (2, 2, 2), "output_size": (4, 4, 4)}),
    ("temporal_shift", [np.ones((6, 4, 1, 0))], {"seg_num": 3}),
    ("roll", [np.array(True)], {"shifts": (7,), "axis": (0,)}),
    ("masked_select", [np.array(1 + 2j), np.array(True)], {}),
    ("masked_select", [np.array(3.0), np.array(False)], {}),
    ("max_pool2d_with_index", [WINDOW],
     {"kernel_size": (2, 2), "strides": (2, 2), "paddings": (-1, 1)}),
    ("prod", [np.array([[True, False], [True, True]])],
     {"axis": (1,), "keepdim": False, "reduce_all": False}),
    ("temporal_shift", [np.ones((4, 2, 1, 0), "f4")],
     {"seg_num": 2, "shift_ratio": 0.4, "data_format": "NHWC"}),
    ("triu_indices", [], {"row": 2**31 - 1, "col": 2, "offset": -1, "dtype": dt.int32}),
    ("squeeze", [np.array(1.0)], {"axis": (0, -1)}),
    ("rms_norm", [np.ones((2, 3, 4), "f4"), np.ones(4, "f4")], {"normalized_shape": (-1,)}),
    ("atan2", [f(-0.0, 0.0), f(-1.0, -1.0)], {}),
    ("scale", [f(-0.0, 0.0, 3.0)], {"scale": 2.0}),
    ("histogram", [f(NAN, dtype=np.float64)], {"bins": 4, "min": 0.0, "max": 0.0}),
    ("triu_indices", [], {"row": 5, "col": 3, "offset": -2, "dtype": dt.int32}),
    ("tril_indices", [], {"rows": 5, "cols": 3, "offset": 1, "dtype": dt.int64}),
    ("renorm", [np.ones((2, 0))], {"p": INF, "axis": 0, "max_norm": 0.5}),
    ("cross_entropy_with_softmax", [np.ones((4, 0)), np.ones((4, 0))], {"soft_label": True}),
    ("send_u_recv", [np.ones((4, 2), "i1"), np.array([1, 0]), np.array([2, 2])],
     {"reduce_op": "MAX"}),
    ("scatter_nd_add", [np.ones(0, "i4"), np.ones((2, 0), "i8"), np.ones((2, 0), "i4")], {}),
    ("repeat_interleave_with_tensor_index", [np.ones((2, 3)), np.array([2, 1])],
     {"axis": 0, "output_size": -100}),
    ("sync_batch_norm_", [np.ones((3, 2, 4), dt.bfloat16.np),
     *[f(1, 2, dtype=dt.bfloat16.np)] * 4],
     {"is_test": True, "momentum": 0.9, "epsilon": 1e-5, "data_format": "NCHW",
      "use_global_stats": True, "trainable_statistics": False}),
    ("take_along_axis", [np.array(1.5, "f4"), np.array(0)], {"axis": 0}),
    ("conv2d", [np.arange(144, dtype="f4").reshape(1, 4, 6, 6) / 9, np.ones((6, 2, 3, 3), "f4")],
     {"strides": (1, 1), "paddings": (-1, 1, 2, 0), "padding_algorithm": "EXPLICIT",
      "dilations": (1, 1), "groups": 2, "data_format": "NCHW"}),
    ("reduce_as", [np.array([True, False]), np.ones(2, "f4")], {}),
    ("copysign", [np.ones((2, 3), bool), np.array([True, True, False])], {}),
    ("distribute_fpn_proposals", [np.full((3, 4), NAN, "f4"), np.array([3], "i4")],
     {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 224,
      "pixel_offset": False}),
]  # fmt: skip
"""Calls on which all backends give the reference's values."""

REFUSED: Final[list[tuple[str, list[Any], dict[str, Any]]]] = [
    ("diag", [np.ones((2, 3))], {"offset": -(2**31)}),
    ("strided_slice", [np.ones((4, 7))],
     {"starts": (2,), "ends": (9,), "strides": (3,), "axes": ()}),
    ("slice", [np.ones((4, 7))], {"starts": (2,), "ends": (9,), "axes": (), "decrease_axis": ()}),
    ("diagonal", [np.ones((2, 3))], {"offset": -(2**31)}),
    ("trace", [np.ones((2, 3))], {"offset": -(2**31)}),
    ("round", [f(1.5)], {"decimals": 400}),
    ("split_with_num", [f(1.0, shape=())], {"axis": 0, "num": 2}),
    ("cross_entropy_with_softmax", [f(1.0, shape=()), np.array(0)], {}),
    ("multi_dot", [[np.ones((2, 2)), np.ones((2, 2), np.float32)]], {}),
    ("bce_loss", [np.array([0, 1]), np.array([1, 0])], {}),
    ("rms_norm", [np.ones((2, 4), np.uint8)], {"normalized_shape": (4,)}),
    ("polygamma", [f()], {"n": 2**31 - 1}),
    ("log_loss", [f(0.5, dtype=np.float64), f(0.5, dtype=np.complex64)], {"epsilon": 1e-4}),
    ("layer_norm", [np.ones((2, 4), np.float32), np.ones(4, np.int8), None], {}),
    ("adam_", [f(1.0), f(1.0), np.ones(1, np.int8), f(1.0), f(1.0), None, f(0.9), f(0.9)], {}),
    ("elu", [f(1.0)], {"alpha": INF}),
    ("celu", [f(1.0)], {"alpha": -0.0}),
    ("softplus", [f(1.0)], {"beta": 0.0, "threshold": 3.0}),
    ("softshrink", [f(1.0)], {"threshold": -1.0}),
    ("hardtanh", [f(1.0)], {"t_min": 0.0, "t_max": NAN}),
    ("clip_by_norm", [f(1.0)], {"max_norm": INF}),
    ("distribute_fpn_proposals", [np.ones((3, 4), np.float32), None],
     {"min_level": 2, "max_level": 2**31 - 1, "refer_level": 4, "refer_scale": 224,
      "pixel_offset": False}),
    ("nll_loss", [np.ones((2, 3)), np.ones(2), None], {}),
    ("baddbmm", [np.ones((1, 2, 2)), *[np.ones((1, 2, 2), np.float32)] * 2], {}),
    ("send_uv", [np.ones((3, 2)), np.ones((3, 2), np.int8), np.array([0]), np.array([1])], {}),
    ("threefry", [*[np.ones((), np.int32)] * 3, np.ones(2, np.int64)], {}),
    ("bce_loss", [f(0.5), f(0.5, dtype=np.float64)], {}),
    ("merged_momentum_", [[f(1.0)] * 2, [f(1.0)] * 2, [f(1.0)] * 2, [f(0.5)], None],
     {"mu": 0.9, "regularization_method": ("l2_decay", ""), "regularization_coeff": (0.5,)}),
    ("merged_adam_", [*[[f(1.0)]] * 5, None, [f(0.9)], [f(0.9)], None], {"amsgrad": True}),
    ("lu_solve", [np.ones((2, 1)), np.array([[1.0, 2], [3, 0]]), np.array([1, 2], "i4")],
     {"trans": "T"}),
    ("sequence_mask", [np.array([2**63 - 1, 3])], {"max_len": -1, "out_dtype": dt.float32}),
    ("roi_pool", [np.ones((2, 3, 6, 7)), np.ones((0, 4)), np.array([2**31 - 1, 2], "i4")],
     {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0}),
    ("repeat_interleave_with_tensor_index", [np.ones((2, 0)), np.array([2**63 - 1, 3])],
     {"axis": 0, "output_size": -1}),
    ("affine_grid", [np.ones((2, 2, 3), np.uint8)],
     {"output_shape": (2, 2, 3, 2), "align_corners": False}),
    ("threefry", [np.ones((), np.int16)] * 4, {}),
    ("bicubic_interp", [np.ones((1, 1, 2, 2), np.complex128), None, None, None],
     {"interp_method": "bicubic", "out_h": 3, "out_w": 3}),
    ("scatter_nd_add", [np.ones((3, 2), np.uint8), np.array([[0]]), np.ones((1, 2))], {}),
    ("index_add", [np.ones((3, 2), "f4"), np.array([0]), np.ones((1, 2))], {"axis": 0}),
    ("put_along_axis", [np.ones((3, 2), "f4"), np.array([[0]]), np.ones((1, 1))], {"axis": 0}),
    ("maxout", [np.ones((1, 4, 1, 1), np.complex64)], {"groups": 2}),
    ("cross", [np.ones((2, 3), bool)] * 2, {}),
    ("matrix_rank", [np.ones((2, 2), dt.bfloat16.np)],
     {"tol": 1.5, "use_default_tol": True, "hermitian": True}),
    ("nearest_interp", [np.ones((1, 2, 3, 5, 4)), None, [np.ones(1, "i4")] * 2, None],
     {"data_format": "NCHW", "interp_method": "nearest"}),
    ("accuracy", [np.ones((1, 2), "f4"), np.array([[True, False]]), np.array([[2]])], {}),
    ("squeeze", [np.array(1.0)], {"axis": (2**31 - 1,)}),
    ("update_loss_scaling_", [[f(1.0)], np.array([True]), f(1.0), np.ones(1, "i4"),
     np.ones((1, 1), "i4")],
     {"stop_update": False, "incr_every_n_steps": 10, "decr_every_n_nan_or_inf": 2,
      "incr_ratio": 2.0, "decr_ratio": 0.5}),
    ("lu_unpack", [np.eye(3), np.array([1, 0, 3], "i4")], {}),
    ("set_value_with_tensor", [np.ones((0, 4)), np.ones((0, 4))],
     {"starts": (1,), "ends": (2,), "steps": (1,), "axes": (0,), "decrease_axes": (0,),
      "none_axes": (1,)}),
    ("set_value", [np.ones((3, 0))],
     {"starts": (3,), "ends": (0,), "steps": (-2,), "axes": (1,), "decrease_axes": (),
      "none_axes": (), "shape": (2,), "values": (0.0, 1.0)}),
    ("set_value", [np.ones((3, 4))],
     {"starts": (0,), "ends": (1,), "steps": (1,), "axes": (0,), "decrease_axes": (),
      "none_axes": (), "shape": (-1,), "values": (1.0,)}),
    ("bincount", [np.array([0, 1]), np.ones(2, np.complex128)], {"minlength": 0}),
    ("deformable_conv", [np.ones((1, 1, 3, 3)), np.zeros((1, 2, 3, 3)), np.ones((1, 1, 1, 1)),
     None], {"strides": (1, 1), "paddings": (0, 0), "dilations": (), "deformable_groups": 1,
             "groups": 1, "im2col_step": 1}),
]  # fmt: skip
"""Calls that all backends refuse, with a code."""


def outcomes(name: str, args: list[Any], attrs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    call = complete(lookup(f"pd_op.{name}"), Sample(tuple(args), attrs))
    return call, {way: attempt(lambda run=run: run(call)) for way, run in WAYS.items()}


@pytest.mark.parametrize(("name", "args", "attrs"), AGREE, ids=[c[0] for c in AGREE])
def test_backends_agree(name: str, args: list[Any], attrs: dict[str, Any]) -> None:
    call, found = outcomes(name, args, attrs)
    want = found.pop("reference")
    assert want[0] == "values"
    for way, one in found.items():
        if way not in CHOOSY or one[0] != "refused":
            assert compared(call, one, want) is None, way


@pytest.mark.parametrize(("name", "args", "attrs"), REFUSED, ids=[c[0] for c in REFUSED])
def test_backends_refuse(name: str, args: list[Any], attrs: dict[str, Any]) -> None:
    _, found = outcomes(name, args, attrs)
    assert {way: kind for way, (kind, _) in found.items()} == dict.fromkeys(WAYS, "refused")


def test_a_slice_of_the_campaign() -> None:
    found = [f for number in range(0, 600, 20) for f in examine(1, number) if f.kind in SEVERE]
    assert not found


def test_a_count_of_the_greatest_number_is_refused() -> None:
    """numpy adds 1 to it, which wraps around, and writes beyond its memory."""
    with pytest.raises(RuntimeFault, match="too large"):
        ops.bincount(np.array([0, 2**63 - 1]), None, 0)
