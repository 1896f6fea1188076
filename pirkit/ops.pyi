# Made from the op table: `python tools/gen_stubs.py`.

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pirkit.frontend.eager import EagerOp
from pirkit.runtime.place import Place
from pirkit.runtime.tensor.dense import DenseTensor as Tensor
from pirkit.runtime.tensor.meta_cache import DTypeLike

TensorLike: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic[Any] | builtins.complex

def op(name: str) -> EagerOp: ...
def abs(x: TensorLike) -> Tensor: ...
def abs_(x: TensorLike) -> Tensor: ...
def abs_double_grad(x: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def abs_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def abs_triple_grad(x: TensorLike, grad_out_grad_grad: TensorLike) -> Any: ...
def accuracy(
    x: TensorLike,
    indices: TensorLike,
    label: TensorLike,
) -> tuple[Tensor, Tensor, Tensor]: ...
def acos(x: TensorLike) -> Tensor: ...
def acos_(x: TensorLike) -> Tensor: ...
def acos_double_grad(x: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def acos_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def acos_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def acosh(x: TensorLike) -> Tensor: ...
def acosh_(x: TensorLike) -> Tensor: ...
def acosh_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def acosh_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def adadelta_(
    param: TensorLike,
    grad: TensorLike,
    avg_squared_grad: TensorLike,
    avg_squared_update: TensorLike,
    learning_rate: TensorLike,
    master_param: TensorLike | None = ...,
    rho: float = ...,
    epsilon: float = ...,
    multi_precision: bool = ...,
) -> Any: ...
def adagrad_(
    param: TensorLike,
    grad: TensorLike,
    moment: TensorLike,
    learning_rate: TensorLike,
    master_param: TensorLike | None = ...,
    epsilon: float = ...,
    multi_precision: bool = ...,
) -> Any: ...
def adam_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    moment1: TensorLike,
    moment2: TensorLike,
    moment2_max: TensorLike | None = ...,
    *,
    beta1_pow: TensorLike,
    beta2_pow: TensorLike,
    master_param: TensorLike | None = ...,
    skip_update: TensorLike | None = ...,
    beta1: TensorLike = ...,
    beta2: TensorLike = ...,
    epsilon: TensorLike = ...,
    lazy_mode: bool = ...,
    min_row_size_to_use_multithread: int = ...,
    multi_precision: bool = ...,
    use_global_beta_pow: bool = ...,
    amsgrad: bool = ...,
) -> Any: ...
def adamax_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    moment: TensorLike,
    inf_norm: TensorLike,
    beta1_pow: TensorLike,
    master_param: TensorLike | None = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    multi_precision: bool = ...,
) -> Any: ...
def adamw_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    moment1: TensorLike,
    moment2: TensorLike,
    moment2_max: TensorLike | None = ...,
    *,
    beta1_pow: TensorLike,
    beta2_pow: TensorLike,
    master_param: TensorLike | None = ...,
    skip_update: TensorLike | None = ...,
    beta1: TensorLike = ...,
    beta2: TensorLike = ...,
    epsilon: TensorLike = ...,
    lr_ratio: float = ...,
    coeff: float = ...,
    with_decay: bool = ...,
    lazy_mode: bool = ...,
    min_row_size_to_use_multithread: int = ...,
    multi_precision: bool = ...,
    use_global_beta_pow: bool = ...,
    amsgrad: bool = ...,
) -> Any: ...
def add(x: TensorLike, y: TensorLike) -> Tensor: ...
def add_(x: TensorLike, y: TensorLike) -> Tensor: ...
def add_double_grad(
    y: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    axis: int = ...,
) -> Any: ...
def add_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int = ...) -> Any: ...
def add_grad_(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int = ...) -> Any: ...
def add_n(inputs: Sequence[TensorLike]) -> Tensor: ...
def add_triple_grad(
    grad_grad_x: TensorLike,
    grad_grad_y: TensorLike,
    grad_grad_out_grad: TensorLike,
    axis: int = ...,
) -> Any: ...
def addmm(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    beta: float = ...,
    alpha: float = ...,
) -> Tensor: ...
def addmm_(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    beta: float = ...,
    alpha: float = ...,
) -> Tensor: ...
def addmm_grad(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    out_grad: TensorLike,
    alpha: float,
    beta: float,
) -> Any: ...
def affine_grid(
    input: TensorLike,
    output_shape: Sequence[Any] | TensorLike = ...,
    align_corners: bool = ...,
) -> Tensor: ...
def affine_grid_grad(
    input: TensorLike,
    output_grad: TensorLike,
    output_shape: Sequence[Any] | TensorLike,
    align_corners: bool = ...,
) -> Any: ...
def all(x: TensorLike, axis: Sequence[int] | int = ..., keepdim: bool = ...) -> Tensor: ...
def allclose(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike = ...,
    atol: TensorLike = ...,
    equal_nan: bool = ...,
) -> Tensor: ...
def amax(x: TensorLike, axis: Sequence[int] | int = ..., keepdim: bool = ...) -> Tensor: ...
def amax_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Any: ...
def amin(x: TensorLike, axis: Sequence[int] | int = ..., keepdim: bool = ...) -> Tensor: ...
def amin_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Any: ...
def angle(x: TensorLike) -> Tensor: ...
def angle_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def any(x: TensorLike, axis: Sequence[int] | int = ..., keepdim: bool = ...) -> Tensor: ...
def arange(
    start: TensorLike,
    end: TensorLike,
    step: TensorLike,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def argmax(
    x: TensorLike,
    axis: int | TensorLike | None = ...,
    keepdims: bool = ...,
    flatten: bool = ...,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def argmin(
    x: TensorLike,
    axis: int | TensorLike | None = ...,
    keepdims: bool = ...,
    flatten: bool = ...,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def argsort(
    x: TensorLike,
    axis: int = ...,
    descending: bool = ...,
    stable: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def argsort_grad(
    indices: TensorLike,
    x: TensorLike,
    out_grad: TensorLike,
    axis: int,
    descending: bool,
    stable: bool,
) -> Any: ...
def array_length(x: TensorLike) -> Tensor: ...
def array_pop(input: TensorLike, index: int = ...) -> tuple[Tensor, Tensor]: ...
def array_read(array: TensorLike, i: TensorLike) -> Tensor: ...
def array_to_tensor(x: TensorLike, axis: int, use_stack: bool = ...) -> tuple[Tensor, Tensor]: ...
def array_write_(array: TensorLike, x: TensorLike, i: TensorLike) -> Tensor: ...
def as_complex(x: TensorLike) -> Tensor: ...
def as_complex_grad(out_grad: TensorLike) -> Any: ...
def as_real(x: TensorLike) -> Tensor: ...
def as_real_grad(out_grad: TensorLike) -> Any: ...
def as_strided_grad(
    input: TensorLike,
    out_grad: TensorLike,
    dims: Sequence[int] | int = ...,
    stride: Sequence[int] | int = ...,
    offset: int = ...,
) -> Any: ...
def asgd_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    d: TensorLike,
    y: TensorLike,
    n: TensorLike,
    master_param: TensorLike | None = ...,
    multi_precision: bool = ...,
) -> Any: ...
def asin(x: TensorLike) -> Tensor: ...
def asin_(x: TensorLike) -> Tensor: ...
def asin_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def asin_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def asinh(x: TensorLike) -> Tensor: ...
def asinh_(x: TensorLike) -> Tensor: ...
def asinh_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def asinh_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def assign(x: TensorLike) -> Tensor: ...
def assign_(x: TensorLike) -> Tensor: ...
def assign_grad(out_grad: TensorLike) -> Any: ...
def assign_out_(x: TensorLike, output: TensorLike) -> Tensor: ...
def assign_value(
    shape: Sequence[int] | int,
    dtype: DTypeLike | None,
    values: Sequence[TensorLike] | TensorLike,
    place: Place = ...,
) -> Tensor: ...
def assign_value_(
    output: TensorLike,
    shape: Sequence[int] | int,
    dtype: DTypeLike | None,
    values: Sequence[TensorLike] | TensorLike,
    place: Place = ...,
) -> Tensor: ...
def atan(x: TensorLike) -> Tensor: ...
def atan2(x: TensorLike, y: TensorLike) -> Tensor: ...
def atan2_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def atan_(x: TensorLike) -> Tensor: ...
def atan_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def atan_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def atanh(x: TensorLike) -> Tensor: ...
def atanh_(x: TensorLike) -> Tensor: ...
def atanh_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def atanh_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def baddbmm(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    beta: float = ...,
    alpha: float = ...,
) -> Tensor: ...
def baddbmm_(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    beta: float = ...,
    alpha: float = ...,
) -> Tensor: ...
def baddbmm_grad(
    input: TensorLike,
    x: TensorLike,
    y: TensorLike,
    out_grad: TensorLike,
    alpha: float,
    beta: float,
) -> Any: ...
def batch_norm(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    is_test: bool = ...,
    momentum: float = ...,
    epsilon: float = ...,
    data_format: str = ...,
    use_global_stats: bool = ...,
    trainable_statistics: bool = ...,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]: ...
def batch_norm_(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    is_test: bool = ...,
    momentum: float = ...,
    epsilon: float = ...,
    data_format: str = ...,
    use_global_stats: bool = ...,
    trainable_statistics: bool = ...,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]: ...
def batch_norm_double_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    out_mean: TensorLike | None = ...,
    out_variance: TensorLike | None = ...,
    *,
    saved_mean: TensorLike,
    saved_variance: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_scale_grad: TensorLike | None = ...,
    grad_bias_grad: TensorLike | None = ...,
    momentum: float,
    epsilon: float,
    data_format: str,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> Any: ...
def batch_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    mean_out: TensorLike | None = ...,
    variance_out: TensorLike | None = ...,
    *,
    saved_mean: TensorLike,
    saved_variance: TensorLike,
    reserve_space: TensorLike | None = ...,
    out_grad: TensorLike,
    momentum: float,
    epsilon: float,
    data_format: str,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> Any: ...
def bce_loss(input: TensorLike, label: TensorLike) -> Tensor: ...
def bce_loss_(input: TensorLike, label: TensorLike) -> Tensor: ...
def bce_loss_grad(input: TensorLike, label: TensorLike, out_grad: TensorLike) -> Any: ...
def bce_loss_grad_(input: TensorLike, label: TensorLike, out_grad: TensorLike) -> Any: ...
def bernoulli(x: TensorLike) -> Tensor: ...
def bicubic_interp(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def bicubic_interp_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def bilinear(
    x: TensorLike,
    y: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = ...,
) -> Tensor: ...
def bilinear_grad(
    x: TensorLike,
    y: TensorLike,
    weight: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def bilinear_interp(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def bilinear_interp_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def bincount(
    x: TensorLike,
    weights: TensorLike | None = ...,
    minlength: int | TensorLike = ...,
) -> Tensor: ...
def binomial(count: TensorLike, prob: TensorLike) -> Tensor: ...
def bitwise_and(x: TensorLike, y: TensorLike) -> Tensor: ...
def bitwise_and_(x: TensorLike, y: TensorLike) -> Tensor: ...
def bitwise_left_shift(x: TensorLike, y: TensorLike, is_arithmetic: bool = ...) -> Tensor: ...
def bitwise_left_shift_(x: TensorLike, y: TensorLike, is_arithmetic: bool = ...) -> Tensor: ...
def bitwise_not(x: TensorLike) -> Tensor: ...
def bitwise_not_(x: TensorLike) -> Tensor: ...
def bitwise_or(x: TensorLike, y: TensorLike) -> Tensor: ...
def bitwise_or_(x: TensorLike, y: TensorLike) -> Tensor: ...
def bitwise_right_shift(x: TensorLike, y: TensorLike, is_arithmetic: bool = ...) -> Tensor: ...
def bitwise_right_shift_(x: TensorLike, y: TensorLike, is_arithmetic: bool = ...) -> Tensor: ...
def bitwise_xor(x: TensorLike, y: TensorLike) -> Tensor: ...
def bitwise_xor_(x: TensorLike, y: TensorLike) -> Tensor: ...
def bmm(x: TensorLike, y: TensorLike) -> Tensor: ...
def bmm_double_grad(
    x: TensorLike,
    y: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
) -> Any: ...
def bmm_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def box_coder(
    prior_box: TensorLike,
    prior_box_var: TensorLike | None = ...,
    *,
    target_box: TensorLike,
    code_type: str = ...,
    box_normalized: bool = ...,
    axis: int = ...,
    variance: Sequence[float] | float = ...,
) -> Tensor: ...
def broadcast_tensors(input: Sequence[TensorLike]) -> list[Tensor]: ...
def broadcast_tensors_grad(input: Sequence[TensorLike], out_grad: Sequence[TensorLike]) -> Any: ...
def cast(x: TensorLike, dtype: DTypeLike | None) -> Tensor: ...
def cast_(x: TensorLike, dtype: DTypeLike | None) -> Tensor: ...
def cast_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def ceil(x: TensorLike) -> Tensor: ...
def ceil_(x: TensorLike) -> Tensor: ...
def ceil_grad(out_grad: TensorLike) -> Any: ...
def ceil_grad_(out_grad: TensorLike) -> Any: ...
def celu(x: TensorLike, alpha: float = ...) -> Tensor: ...
def celu_double_grad(
    x: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike,
    alpha: float,
) -> Any: ...
def celu_grad(x: TensorLike, out_grad: TensorLike, alpha: float) -> Any: ...
def celu_grad_(x: TensorLike, out_grad: TensorLike, alpha: float) -> Any: ...
def channel_shuffle(x: TensorLike, groups: int, data_format: str = ...) -> Tensor: ...
def channel_shuffle_grad(out_grad: TensorLike, groups: int, data_format: str = ...) -> Any: ...
def check_finite_and_unscale_(
    x: Sequence[TensorLike],
    scale: TensorLike,
) -> tuple[list[Tensor], Tensor]: ...
def cholesky(x: TensorLike, upper: bool = ...) -> Tensor: ...
def cholesky_grad(out: TensorLike, out_grad: TensorLike, upper: bool) -> Any: ...
def cholesky_solve(x: TensorLike, y: TensorLike, upper: bool = ...) -> Tensor: ...
def cholesky_solve_grad(
    x: TensorLike,
    y: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    upper: bool,
) -> Any: ...
def clip(x: TensorLike, min: TensorLike = ..., max: TensorLike = ...) -> Tensor: ...
def clip_(x: TensorLike, min: TensorLike = ..., max: TensorLike = ...) -> Tensor: ...
def clip_by_norm(x: TensorLike, max_norm: float) -> Tensor: ...
def clip_double_grad(
    x: TensorLike,
    grad_x_grad: TensorLike,
    min: TensorLike = ...,
    max: TensorLike = ...,
) -> Any: ...
def clip_grad(
    x: TensorLike,
    out_grad: TensorLike,
    min: TensorLike = ...,
    max: TensorLike = ...,
) -> Any: ...
def clip_grad_(
    x: TensorLike,
    out_grad: TensorLike,
    min: TensorLike = ...,
    max: TensorLike = ...,
) -> Any: ...
def coalesce_tensor(
    input: Sequence[TensorLike],
    dtype: DTypeLike | None,
    copy_data: bool = ...,
    set_constant: bool = ...,
    persist_output: bool = ...,
    constant: float = ...,
    use_align: bool = ...,
    align_size: int = ...,
    size_of_dtype: int = ...,
    concated_shapes: Sequence[int] | int = ...,
    concated_ranks: Sequence[int] | int = ...,
) -> tuple[list[Tensor], Tensor]: ...
def complex(real: TensorLike, imag: TensorLike) -> Tensor: ...
def complex_grad(real: TensorLike, imag: TensorLike, out_grad: TensorLike) -> Any: ...
def concat(x: Sequence[TensorLike], axis: int | TensorLike = ...) -> Tensor: ...
def concat_grad(
    x: Sequence[TensorLike],
    out_grad: TensorLike,
    axis: int | TensorLike = ...,
) -> Any: ...
def conj(x: TensorLike) -> Tensor: ...
def conj_grad(out_grad: TensorLike) -> Any: ...
def conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    dilations: Sequence[int] | int = ...,
    groups: int = ...,
    data_format: str = ...,
) -> Tensor: ...
def conv2d_grad(
    input: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    dilations: Sequence[int] | int,
    groups: int,
    data_format: str,
) -> Any: ...
def conv2d_grad_grad(
    input: TensorLike,
    filter: TensorLike,
    grad_out: TensorLike,
    grad_input_grad: TensorLike | None = ...,
    grad_filter_grad: TensorLike | None = ...,
    *,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    dilations: Sequence[int] | int,
    groups: int,
    data_format: str,
) -> Any: ...
def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_size: Sequence[Any] | TensorLike = ...,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    groups: int = ...,
    dilations: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def conv2d_transpose_double_grad(
    x: TensorLike,
    filter: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike,
    grad_filter_grad: TensorLike,
    output_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    output_padding: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def conv2d_transpose_grad(
    x: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    output_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    output_padding: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def conv3d(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    groups: int = ...,
    dilations: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def conv3d_double_grad(
    input: TensorLike,
    filter: TensorLike,
    grad_out: TensorLike,
    grad_input_grad: TensorLike | None = ...,
    grad_filter_grad: TensorLike | None = ...,
    *,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def conv3d_grad(
    input: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def conv3d_transpose(
    x: TensorLike,
    filter: TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    output_size: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    groups: int = ...,
    dilations: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def conv3d_transpose_grad(
    x: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    output_padding: Sequence[int] | int,
    output_size: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def copysign(x: TensorLike, y: TensorLike) -> Tensor: ...
def copysign_(x: TensorLike, y: TensorLike) -> Tensor: ...
def copysign_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def copysign_grad_(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def cos(x: TensorLike) -> Tensor: ...
def cos_(x: TensorLike) -> Tensor: ...
def cos_double_grad(
    x: TensorLike,
    grad_out: TensorLike | None = ...,
    *,
    grad_x_grad: TensorLike,
) -> Any: ...
def cos_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def cos_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def cos_triple_grad(
    x: TensorLike,
    grad_out_forward: TensorLike | None = ...,
    grad_x_grad_forward: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_out_grad_grad: TensorLike | None = ...,
) -> Any: ...
def cosh(x: TensorLike) -> Tensor: ...
def cosh_(x: TensorLike) -> Tensor: ...
def cosh_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def cosh_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def create_array(dtype: DTypeLike | None = ...) -> Tensor: ...
def crop(
    x: TensorLike,
    shape: Sequence[Any] | TensorLike = ...,
    offsets: Sequence[Any] | TensorLike = ...,
) -> Tensor: ...
def crop_grad(x: TensorLike, out_grad: TensorLike, offsets: Sequence[Any] | TensorLike) -> Any: ...
def cross(x: TensorLike, y: TensorLike, axis: int = ...) -> Tensor: ...
def cross_entropy_with_softmax(
    input: TensorLike,
    label: TensorLike,
    soft_label: bool = ...,
    use_softmax: bool = ...,
    numeric_stable_mode: bool = ...,
    ignore_index: int = ...,
    axis: int = ...,
) -> tuple[Tensor, Tensor]: ...
def cross_entropy_with_softmax_(
    input: TensorLike,
    label: TensorLike,
    soft_label: bool = ...,
    use_softmax: bool = ...,
    numeric_stable_mode: bool = ...,
    ignore_index: int = ...,
    axis: int = ...,
) -> tuple[Tensor, Tensor]: ...
def cross_entropy_with_softmax_grad(
    label: TensorLike,
    softmax: TensorLike,
    loss_grad: TensorLike,
    soft_label: bool,
    use_softmax: bool,
    numeric_stable_mode: bool,
    ignore_index: int,
    axis: int,
) -> Any: ...
def cross_entropy_with_softmax_grad_(
    label: TensorLike,
    softmax: TensorLike,
    loss_grad: TensorLike,
    soft_label: bool,
    use_softmax: bool,
    numeric_stable_mode: bool,
    ignore_index: int,
    axis: int,
) -> Any: ...
def cross_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int) -> Any: ...
def cummax(x: TensorLike, axis: int, dtype: DTypeLike | None = ...) -> tuple[Tensor, Tensor]: ...
def cummax_grad(
    x: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    axis: int,
    dtype: DTypeLike | None,
) -> Any: ...
def cummin(x: TensorLike, axis: int, dtype: DTypeLike | None = ...) -> tuple[Tensor, Tensor]: ...
def cummin_grad(
    x: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    axis: int,
    dtype: DTypeLike | None,
) -> Any: ...
def cumprod(x: TensorLike, dim: int, exclusive: bool = ..., reverse: bool = ...) -> Tensor: ...
def cumprod_(x: TensorLike, dim: int, exclusive: bool = ..., reverse: bool = ...) -> Tensor: ...
def cumprod_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    dim: int,
    exclusive: bool,
    reverse: bool,
) -> Any: ...
def cumsum(
    x: TensorLike,
    axis: int | TensorLike | None = ...,
    flatten: bool = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
) -> Tensor: ...
def cumsum_(
    x: TensorLike,
    axis: int | TensorLike | None = ...,
    flatten: bool = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
) -> Tensor: ...
def cumsum_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: int | TensorLike,
    flatten: bool,
    exclusive: bool,
    reverse: bool,
) -> Any: ...
def data(
    name: str,
    shape: Sequence[Any] | TensorLike,
    dtype: DTypeLike | None,
    place: Place = ...,
) -> Tensor: ...
def deformable_conv(
    x: TensorLike,
    offset: TensorLike,
    filter: TensorLike,
    mask: TensorLike | None = ...,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    dilations: Sequence[int] | int = ...,
    deformable_groups: int = ...,
    groups: int = ...,
    im2col_step: int = ...,
) -> Tensor: ...
def deformable_conv_grad(
    x: TensorLike,
    offset: TensorLike,
    filter: TensorLike,
    mask: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    dilations: Sequence[int] | int,
    deformable_groups: int,
    groups: int,
    im2col_step: int,
) -> Any: ...
def depend(x: TensorLike, dep: Sequence[TensorLike]) -> Tensor: ...
def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    groups: int = ...,
    dilations: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def depthwise_conv2d_double_grad(
    input: TensorLike,
    filter: TensorLike,
    grad_out: TensorLike,
    grad_input_grad: TensorLike | None = ...,
    grad_filter_grad: TensorLike | None = ...,
    *,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def depthwise_conv2d_grad(
    input: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def depthwise_conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    output_size: Sequence[Any] | TensorLike = ...,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    output_padding: Sequence[int] | int = ...,
    padding_algorithm: str = ...,
    groups: int = ...,
    dilations: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def depthwise_conv2d_transpose_grad(
    x: TensorLike,
    filter: TensorLike,
    out_grad: TensorLike,
    output_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    output_padding: Sequence[int] | int,
    padding_algorithm: str,
    groups: int,
    dilations: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def det(x: TensorLike) -> Tensor: ...
def det_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def diag(x: TensorLike, offset: int = ..., padding_value: float = ...) -> Tensor: ...
def diag_embed(
    input: TensorLike,
    offset: int = ...,
    dim1: int = ...,
    dim2: int = ...,
) -> Tensor: ...
def diag_grad(x: TensorLike, out_grad: TensorLike, offset: int) -> Any: ...
def diagonal(x: TensorLike, offset: int = ..., axis1: int = ..., axis2: int = ...) -> Tensor: ...
def diagonal_grad(
    x: TensorLike,
    out_grad: TensorLike,
    offset: int = ...,
    axis1: int = ...,
    axis2: int = ...,
) -> Any: ...
def digamma(x: TensorLike) -> Tensor: ...
def digamma_(x: TensorLike) -> Tensor: ...
def digamma_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def dirichlet(alpha: TensorLike) -> Tensor: ...
def dist(x: TensorLike, y: TensorLike, p: float = ...) -> Tensor: ...
def dist_grad(
    x: TensorLike,
    y: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    p: float,
) -> Any: ...
def distribute_fpn_proposals(
    fpn_rois: TensorLike,
    rois_num: TensorLike | None = ...,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = ...,
) -> tuple[list[Tensor], list[Tensor], Tensor]: ...
def divide(x: TensorLike, y: TensorLike) -> Tensor: ...
def divide_(x: TensorLike, y: TensorLike) -> Tensor: ...
def divide_double_grad(
    y: TensorLike,
    out: TensorLike,
    grad_out: TensorLike,
    grad_x: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    axis: int = ...,
) -> Any: ...
def divide_grad(
    x: TensorLike,
    y: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: int = ...,
) -> Any: ...
def dot(x: TensorLike, y: TensorLike) -> Tensor: ...
def dot_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def dropout(
    x: TensorLike,
    seed_tensor: TensorLike | None = ...,
    p: TensorLike = ...,
    is_test: bool = ...,
    mode: str = ...,
    seed: int = ...,
    fix_seed: bool = ...,
) -> Tensor: ...
def dropout_(
    x: TensorLike,
    seed_tensor: TensorLike | None = ...,
    p: TensorLike = ...,
    is_test: bool = ...,
    mode: str = ...,
    seed: int = ...,
    fix_seed: bool = ...,
) -> Tensor: ...
def dropout_grad(
    mask: TensorLike,
    out_grad: TensorLike,
    p: TensorLike,
    is_test: bool,
    mode: str,
) -> Any: ...
def eig(x: TensorLike) -> tuple[Tensor, Tensor]: ...
def eig_grad(
    out_w: TensorLike,
    out_v: TensorLike,
    out_w_grad: TensorLike | None = ...,
    out_v_grad: TensorLike | None = ...,
) -> Any: ...
def eigh(x: TensorLike, UPLO: str = ...) -> tuple[Tensor, Tensor]: ...
def eigh_grad(
    out_w: TensorLike,
    out_v: TensorLike,
    out_w_grad: TensorLike,
    out_v_grad: TensorLike,
) -> Any: ...
def eigvals(x: TensorLike) -> Tensor: ...
def eigvalsh(x: TensorLike, uplo: str = ..., is_test: bool = ...) -> Tensor: ...
def eigvalsh_grad(
    eigenvectors: TensorLike,
    eigenvalues_grad: TensorLike,
    uplo: str,
    is_test: bool,
) -> Any: ...
def einsum(x: Sequence[TensorLike], equation: str) -> Tensor: ...
def einsum_grad(
    x_shape: Sequence[TensorLike],
    inner_cache: Sequence[TensorLike],
    out_grad: TensorLike,
    equation: str,
) -> Any: ...
def elementwise_pow(x: TensorLike, y: TensorLike) -> Tensor: ...
def elementwise_pow_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def elu(x: TensorLike, alpha: float = ...) -> Tensor: ...
def elu_(x: TensorLike, alpha: float = ...) -> Tensor: ...
def elu_double_grad(
    x: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike,
    alpha: float,
) -> Any: ...
def elu_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike, alpha: float) -> Any: ...
def elu_grad_(x: TensorLike, out: TensorLike, out_grad: TensorLike, alpha: float) -> Any: ...
def embedding(
    x: TensorLike,
    weight: TensorLike,
    padding_idx: int = ...,
    sparse: bool = ...,
) -> Tensor: ...
def embedding_grad(
    x: TensorLike,
    weight: TensorLike,
    out_grad: TensorLike,
    padding_idx: int = ...,
) -> Any: ...
def embedding_with_scaled_gradient(
    x: TensorLike,
    weight: TensorLike,
    padding_idx: int = ...,
) -> Tensor: ...
def embedding_with_scaled_gradient_grad(
    x: TensorLike,
    weight: TensorLike,
    out_grad: TensorLike,
    padding_idx: int = ...,
) -> Any: ...
def empty(
    shape: Sequence[Any] | TensorLike,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def empty_like(x: TensorLike, dtype: DTypeLike | None = ..., place: Place = ...) -> Tensor: ...
def equal(x: TensorLike, y: TensorLike) -> Tensor: ...
def equal_(x: TensorLike, y: TensorLike) -> Tensor: ...
def equal_all(x: TensorLike, y: TensorLike) -> Tensor: ...
def erf(x: TensorLike) -> Tensor: ...
def erf_(x: TensorLike) -> Tensor: ...
def erf_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def erfinv(x: TensorLike) -> Tensor: ...
def erfinv_(x: TensorLike) -> Tensor: ...
def erfinv_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def exp(x: TensorLike) -> Tensor: ...
def exp_(x: TensorLike) -> Tensor: ...
def exp_double_grad(out: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def exp_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def exp_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def expand(x: TensorLike, shape: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def expand_as(
    x: TensorLike,
    y: TensorLike | None = ...,
    target_shape: Sequence[int] | int = ...,
) -> Tensor: ...
def expand_as_grad(
    x: TensorLike,
    out_grad: TensorLike,
    target_shape: Sequence[int] | int,
) -> Any: ...
def expand_grad(x: TensorLike, out_grad: TensorLike, shape: Sequence[Any] | TensorLike) -> Any: ...
def expm1(x: TensorLike) -> Tensor: ...
def expm1_(x: TensorLike) -> Tensor: ...
def expm1_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def expm1_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def exponential_(x: TensorLike, lam: float = ...) -> Tensor: ...
def eye(
    num_rows: int | TensorLike,
    num_columns: int | TensorLike = ...,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def fake_channel_wise_quantize_dequantize_abs_max(
    x: TensorLike,
    bit_length: int = ...,
    round_type: int = ...,
    quant_axis: int = ...,
) -> tuple[Tensor, Tensor]: ...
def fake_channel_wise_quantize_dequantize_abs_max_grad(
    out_grad: TensorLike,
    bit_length: int = ...,
    round_type: int = ...,
    quant_axis: int = ...,
) -> Any: ...
def fake_quantize_dequantize_abs_max(
    x: TensorLike,
    bit_length: int = ...,
    round_type: int = ...,
) -> tuple[Tensor, Tensor]: ...
def fake_quantize_dequantize_abs_max_grad(
    out_grad: TensorLike,
    bit_length: int = ...,
    round_type: int = ...,
) -> Any: ...
def fake_quantize_dequantize_moving_average_abs_max(
    x: TensorLike,
    in_scale: TensorLike,
    in_accum: TensorLike | None = ...,
    in_state: TensorLike | None = ...,
    moving_rate: float = ...,
    bit_length: int = ...,
    is_test: bool = ...,
    round_type: int = ...,
) -> Any: ...
def fake_quantize_dequantize_moving_average_abs_max_(
    x: TensorLike,
    in_scale: TensorLike,
    in_accum: TensorLike | None = ...,
    in_state: TensorLike | None = ...,
    moving_rate: float = ...,
    bit_length: int = ...,
    is_test: bool = ...,
    round_type: int = ...,
) -> Any: ...
def fake_quantize_dequantize_moving_average_abs_max_grad(
    out_grad: TensorLike,
    moving_rate: float = ...,
    bit_length: int = ...,
    is_test: bool = ...,
    round_type: int = ...,
) -> Any: ...
def feed(name: str, col: int) -> Tensor: ...
def fetch(x: TensorLike, name: str, col: int) -> Tensor: ...
def fft_c2c(
    x: TensorLike,
    axes: Sequence[int] | int = ...,
    normalization: str = ...,
    forward: bool = ...,
) -> Tensor: ...
def fft_c2c_grad(
    out_grad: TensorLike,
    axes: Sequence[int] | int,
    normalization: str,
    forward: bool,
) -> Any: ...
def fft_c2r(
    x: TensorLike,
    axes: Sequence[int] | int = ...,
    normalization: str = ...,
    forward: bool = ...,
    last_dim_size: int = ...,
) -> Tensor: ...
def fft_c2r_grad(
    out_grad: TensorLike,
    axes: Sequence[int] | int,
    normalization: str,
    forward: bool,
    last_dim_size: int,
) -> Any: ...
def fft_r2c(
    x: TensorLike,
    axes: Sequence[int] | int = ...,
    normalization: str = ...,
    forward: bool = ...,
    onesided: bool = ...,
) -> Tensor: ...
def fft_r2c_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axes: Sequence[int] | int,
    normalization: str,
    forward: bool,
    onesided: bool,
) -> Any: ...
def fill_diagonal(
    x: TensorLike,
    value: float = ...,
    offset: int = ...,
    wrap: bool = ...,
) -> Tensor: ...
def fill_diagonal_(
    x: TensorLike,
    value: float = ...,
    offset: int = ...,
    wrap: bool = ...,
) -> Tensor: ...
def fill_diagonal_grad(out_grad: TensorLike, value: float, offset: int, wrap: bool) -> Any: ...
def fill_diagonal_tensor(
    x: TensorLike,
    y: TensorLike,
    offset: int = ...,
    dim1: int = ...,
    dim2: int = ...,
) -> Tensor: ...
def fill_diagonal_tensor_(
    x: TensorLike,
    y: TensorLike,
    offset: int = ...,
    dim1: int = ...,
    dim2: int = ...,
) -> Tensor: ...
def fill_diagonal_tensor_grad(out_grad: TensorLike, offset: int, dim1: int, dim2: int) -> Any: ...
def fill_diagonal_tensor_grad_(out_grad: TensorLike, offset: int, dim1: int, dim2: int) -> Any: ...
def fill_grad(out_grad: TensorLike, value: TensorLike) -> Any: ...
def fill_grad_(out_grad: TensorLike, value: TensorLike) -> Any: ...
def flash_attn(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    fixed_seed_offset: TensorLike | None = ...,
    attn_mask: TensorLike | None = ...,
    dropout: float = ...,
    causal: bool = ...,
    return_softmax: bool = ...,
    is_test: bool = ...,
    rng_name: str = ...,
) -> Tensor: ...
def flash_attn_grad(
    q: TensorLike,
    k: TensorLike,
    v: TensorLike,
    out: TensorLike,
    softmax_lse: TensorLike,
    seed_offset: TensorLike,
    attn_mask: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    dropout: float = ...,
    causal: bool = ...,
) -> Any: ...
def flatten(x: TensorLike, start_axis: int = ..., stop_axis: int = ...) -> Tensor: ...
def flatten_(x: TensorLike, start_axis: int = ..., stop_axis: int = ...) -> Tensor: ...
def flatten_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def flatten_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def flip(x: TensorLike, axis: Sequence[int] | int) -> Tensor: ...
def flip_grad(out_grad: TensorLike, axis: Sequence[int] | int) -> Any: ...
def floor(x: TensorLike) -> Tensor: ...
def floor_(x: TensorLike) -> Tensor: ...
def floor_divide(x: TensorLike, y: TensorLike) -> Tensor: ...
def floor_divide_(x: TensorLike, y: TensorLike) -> Tensor: ...
def floor_grad(out_grad: TensorLike) -> Any: ...
def floor_grad_(out_grad: TensorLike) -> Any: ...
def fmax(x: TensorLike, y: TensorLike) -> Tensor: ...
def fmax_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def fmin(x: TensorLike, y: TensorLike) -> Tensor: ...
def fmin_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def fold(
    x: TensorLike,
    output_sizes: Sequence[int] | int,
    kernel_sizes: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    dilations: Sequence[int] | int = ...,
) -> Tensor: ...
def fold_grad(
    x: TensorLike,
    out_grad: TensorLike,
    output_sizes: Sequence[int] | int,
    kernel_sizes: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    dilations: Sequence[int] | int,
) -> Any: ...
def fractional_max_pool2d(
    x: TensorLike,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int = ...,
    random_u: float = ...,
    return_mask: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def fractional_max_pool2d_grad(
    x: TensorLike,
    mask: TensorLike,
    out_grad: TensorLike,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int,
    random_u: float,
    return_mask: bool,
) -> Any: ...
def fractional_max_pool3d(
    x: TensorLike,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int = ...,
    random_u: float = ...,
    return_mask: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def fractional_max_pool3d_grad(
    x: TensorLike,
    mask: TensorLike,
    out_grad: TensorLike,
    output_size: Sequence[int] | int,
    kernel_size: Sequence[int] | int,
    random_u: float,
    return_mask: bool,
) -> Any: ...
def frame(x: TensorLike, frame_length: int, hop_length: int, axis: int = ...) -> Tensor: ...
def frame_grad(
    x: TensorLike,
    out_grad: TensorLike,
    frame_length: int,
    hop_length: int,
    axis: int,
) -> Any: ...
def frobenius_norm(
    x: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keep_dim: bool,
    reduce_all: bool,
) -> Tensor: ...
def frobenius_norm_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keep_dim: bool,
    reduce_all: bool,
) -> Any: ...
def full(
    shape: Sequence[Any] | TensorLike,
    value: float,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def full_(
    output: TensorLike,
    shape: Sequence[Any] | TensorLike,
    value: float,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def full_batch_size_like(
    input: TensorLike,
    shape: Sequence[int] | int,
    dtype: DTypeLike | None,
    value: float,
    input_dim_idx: int,
    output_dim_idx: int,
    place: Place = ...,
) -> Tensor: ...
def full_int_array(
    value: Sequence[int] | int,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def full_like(
    x: TensorLike,
    value: TensorLike,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def full_with_tensor(
    value: TensorLike,
    shape: Sequence[Any] | TensorLike,
    dtype: DTypeLike | None = ...,
) -> Tensor: ...
def fused_softmax_mask(x: TensorLike, mask: TensorLike) -> Tensor: ...
def fused_softmax_mask_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def gammaincc(x: TensorLike, y: TensorLike) -> Tensor: ...
def gammaincc_(x: TensorLike, y: TensorLike) -> Tensor: ...
def gammaincc_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def gammaln(x: TensorLike) -> Tensor: ...
def gammaln_(x: TensorLike) -> Tensor: ...
def gammaln_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def gather(x: TensorLike, index: TensorLike, axis: int | TensorLike = ...) -> Tensor: ...
def gather_grad(
    x: TensorLike,
    index: TensorLike,
    out_grad: TensorLike,
    axis: int | TensorLike = ...,
) -> Any: ...
def gather_nd(x: TensorLike, index: TensorLike) -> Tensor: ...
def gather_nd_grad(x: TensorLike, index: TensorLike, out_grad: TensorLike) -> Any: ...
def gather_tree(ids: TensorLike, parents: TensorLike) -> Tensor: ...
def gaussian(
    shape: Sequence[Any] | TensorLike,
    mean: float = ...,
    std: float = ...,
    seed: int = ...,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def gelu(x: TensorLike, approximate: bool = ...) -> Tensor: ...
def gelu_grad(x: TensorLike, out_grad: TensorLike, approximate: bool) -> Any: ...
def generate_proposals(
    scores: TensorLike,
    bbox_deltas: TensorLike,
    im_shape: TensorLike,
    anchors: TensorLike,
    variances: TensorLike,
    pre_nms_top_n: int = ...,
    post_nms_top_n: int = ...,
    nms_thresh: float = ...,
    min_size: float = ...,
    eta: float = ...,
    pixel_offset: bool = ...,
) -> tuple[Tensor, Tensor, Tensor]: ...
def greater_equal(x: TensorLike, y: TensorLike) -> Tensor: ...
def greater_equal_(x: TensorLike, y: TensorLike) -> Tensor: ...
def greater_than(x: TensorLike, y: TensorLike) -> Tensor: ...
def greater_than_(x: TensorLike, y: TensorLike) -> Tensor: ...
def grid_sample(
    x: TensorLike,
    grid: TensorLike,
    mode: str = ...,
    padding_mode: str = ...,
    align_corners: bool = ...,
) -> Tensor: ...
def grid_sample_grad(
    x: TensorLike,
    grid: TensorLike,
    out_grad: TensorLike,
    mode: str,
    padding_mode: str,
    align_corners: bool,
) -> Any: ...
def group_norm(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    epsilon: float = ...,
    groups: int = ...,
    data_format: str = ...,
) -> Tensor: ...
def group_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    *,
    y: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    y_grad: TensorLike,
    epsilon: float,
    groups: int,
    data_format: str,
) -> Any: ...
def group_norm_grad_(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    *,
    y: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    y_grad: TensorLike,
    epsilon: float,
    groups: int,
    data_format: str,
) -> Any: ...
def gumbel_softmax(
    x: TensorLike,
    temperature: float = ...,
    hard: bool = ...,
    axis: int = ...,
) -> Tensor: ...
def gumbel_softmax_grad(out: TensorLike, out_grad: TensorLike, axis: int) -> Any: ...
def hardshrink(x: TensorLike, threshold: float = ...) -> Tensor: ...
def hardshrink_grad(x: TensorLike, out_grad: TensorLike, threshold: float) -> Any: ...
def hardshrink_grad_(x: TensorLike, out_grad: TensorLike, threshold: float) -> Any: ...
def hardsigmoid(x: TensorLike, slope: float = ..., offset: float = ...) -> Tensor: ...
def hardsigmoid_grad(out: TensorLike, out_grad: TensorLike, slope: float, offset: float) -> Any: ...
def hardsigmoid_grad_(
    out: TensorLike,
    out_grad: TensorLike,
    slope: float,
    offset: float,
) -> Any: ...
def hardswish(x: TensorLike) -> Tensor: ...
def hardswish_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def hardswish_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def hardtanh(x: TensorLike, t_min: float = ..., t_max: float = ...) -> Tensor: ...
def hardtanh_(x: TensorLike, t_min: float = ..., t_max: float = ...) -> Tensor: ...
def hardtanh_grad(x: TensorLike, out_grad: TensorLike, t_min: float, t_max: float) -> Any: ...
def hardtanh_grad_(x: TensorLike, out_grad: TensorLike, t_min: float, t_max: float) -> Any: ...
def heaviside(x: TensorLike, y: TensorLike) -> Tensor: ...
def heaviside_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def histogram(
    input: TensorLike,
    weight: TensorLike | None = ...,
    bins: int = ...,
    min: float = ...,
    max: float = ...,
    density: bool = ...,
) -> Tensor: ...
def hsigmoid_loss(
    x: TensorLike,
    label: TensorLike,
    w: TensorLike,
    bias: TensorLike | None = ...,
    path: TensorLike | None = ...,
    code: TensorLike | None = ...,
    *,
    num_classes: int,
    is_sparse: bool,
) -> Tensor: ...
def huber_loss(input: TensorLike, label: TensorLike, delta: float = ...) -> Tensor: ...
def huber_loss_grad(residual: TensorLike, out_grad: TensorLike, delta: float) -> Any: ...
def i0(x: TensorLike) -> Tensor: ...
def i0_(x: TensorLike) -> Tensor: ...
def i0_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def i0e(x: TensorLike) -> Tensor: ...
def i0e_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def i1(x: TensorLike) -> Tensor: ...
def i1_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def i1e(x: TensorLike) -> Tensor: ...
def i1e_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def identity_loss(x: TensorLike, reduction: int = ...) -> Tensor: ...
def identity_loss_(x: TensorLike, reduction: int = ...) -> Tensor: ...
def identity_loss_grad(x: TensorLike, out_grad: TensorLike, reduction: int) -> Any: ...
def identity_loss_grad_(x: TensorLike, out_grad: TensorLike, reduction: int) -> Any: ...
def imag(x: TensorLike) -> Tensor: ...
def imag_grad(out_grad: TensorLike) -> Any: ...
def increment(x: TensorLike, value: float = ...) -> Tensor: ...
def increment_(x: TensorLike, value: float = ...) -> Tensor: ...
def index_add(
    x: TensorLike,
    index: TensorLike,
    add_value: TensorLike,
    axis: int = ...,
) -> Tensor: ...
def index_add_(
    x: TensorLike,
    index: TensorLike,
    add_value: TensorLike,
    axis: int = ...,
) -> Tensor: ...
def index_add_grad(
    index: TensorLike,
    add_value: TensorLike,
    out_grad: TensorLike,
    axis: int,
) -> Any: ...
def index_add_grad_(
    index: TensorLike,
    add_value: TensorLike,
    out_grad: TensorLike,
    axis: int,
) -> Any: ...
def index_put(
    x: TensorLike,
    indices: Sequence[TensorLike],
    value: TensorLike,
    accumulate: bool = ...,
) -> Tensor: ...
def index_put_(
    x: TensorLike,
    indices: Sequence[TensorLike],
    value: TensorLike,
    accumulate: bool = ...,
) -> Tensor: ...
def index_put_grad(
    x: TensorLike,
    indices: Sequence[TensorLike],
    value: TensorLike,
    out_grad: TensorLike,
    accumulate: bool = ...,
) -> Any: ...
def index_sample(x: TensorLike, index: TensorLike) -> Tensor: ...
def index_sample_grad(x: TensorLike, index: TensorLike, out_grad: TensorLike) -> Any: ...
def index_select(x: TensorLike, index: TensorLike, axis: int = ...) -> Tensor: ...
def index_select_grad(x: TensorLike, index: TensorLike, out_grad: TensorLike, axis: int) -> Any: ...
def instance_norm(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    epsilon: float = ...,
) -> Tensor: ...
def instance_norm_double_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    *,
    saved_mean: TensorLike,
    saved_variance: TensorLike,
    grad_y: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_scale_grad: TensorLike | None = ...,
    grad_bias_grad: TensorLike | None = ...,
    epsilon: float,
) -> Any: ...
def instance_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    *,
    saved_mean: TensorLike,
    saved_variance: TensorLike,
    y_grad: TensorLike,
    epsilon: float = ...,
) -> Any: ...
def interp_antialias(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def interp_antialias_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def inverse(x: TensorLike) -> Tensor: ...
def inverse_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def is_empty(x: TensorLike) -> Tensor: ...
def isclose(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike = ...,
    atol: TensorLike = ...,
    equal_nan: bool = ...,
) -> Tensor: ...
def isfinite(x: TensorLike) -> Tensor: ...
def isinf(x: TensorLike) -> Tensor: ...
def isnan(x: TensorLike) -> Tensor: ...
def kldiv_loss(
    x: TensorLike,
    label: TensorLike,
    reduction: str = ...,
    log_target: bool = ...,
) -> Tensor: ...
def kldiv_loss_grad(
    x: TensorLike,
    label: TensorLike,
    out_grad: TensorLike,
    reduction: str,
    log_target: bool,
) -> Any: ...
def kron(x: TensorLike, y: TensorLike) -> Tensor: ...
def kron_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def kthvalue(
    x: TensorLike,
    k: int = ...,
    axis: int = ...,
    keepdim: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def kthvalue_grad(
    x: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    k: int,
    axis: int,
    keepdim: bool,
) -> Any: ...
def label_smooth(
    label: TensorLike,
    prior_dist: TensorLike | None = ...,
    epsilon: float = ...,
) -> Tensor: ...
def label_smooth_grad(out_grad: TensorLike, epsilon: float) -> Any: ...
def lamb_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    moment1: TensorLike,
    moment2: TensorLike,
    beta1_pow: TensorLike,
    beta2_pow: TensorLike,
    master_param: TensorLike | None = ...,
    skip_update: TensorLike | None = ...,
    *,
    weight_decay: float,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    always_adapt: bool = ...,
    multi_precision: bool = ...,
) -> Any: ...
def layer_norm(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    epsilon: float = ...,
    begin_norm_axis: int = ...,
) -> Tensor: ...
def layer_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    *,
    mean: TensorLike,
    variance: TensorLike,
    out_grad: TensorLike,
    epsilon: float = ...,
    begin_norm_axis: int = ...,
) -> Any: ...
def leaky_relu(x: TensorLike, negative_slope: float = ...) -> Tensor: ...
def leaky_relu_(x: TensorLike, negative_slope: float = ...) -> Tensor: ...
def leaky_relu_double_grad(
    x: TensorLike,
    grad_x_grad: TensorLike,
    negative_slope: float,
) -> Any: ...
def leaky_relu_grad(x: TensorLike, out_grad: TensorLike, negative_slope: float) -> Any: ...
def leaky_relu_grad_(x: TensorLike, out_grad: TensorLike, negative_slope: float) -> Any: ...
def lerp(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor: ...
def lerp_(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor: ...
def lerp_grad(
    x: TensorLike,
    y: TensorLike,
    weight: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def less_equal(x: TensorLike, y: TensorLike) -> Tensor: ...
def less_equal_(x: TensorLike, y: TensorLike) -> Tensor: ...
def less_than(x: TensorLike, y: TensorLike) -> Tensor: ...
def less_than_(x: TensorLike, y: TensorLike) -> Tensor: ...
def lgamma(x: TensorLike) -> Tensor: ...
def lgamma_(x: TensorLike) -> Tensor: ...
def lgamma_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def linear_interp(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def linear_interp_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def linear_v2(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike,
    transpose_weight: bool = ...,
) -> Tensor: ...
def linear_v2_grad(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike,
    out_grad: TensorLike,
    transpose_weight: bool = ...,
) -> Any: ...
def linspace(
    start: TensorLike,
    stop: TensorLike,
    number: int | TensorLike,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def log(x: TensorLike) -> Tensor: ...
def log10(x: TensorLike) -> Tensor: ...
def log10_(x: TensorLike) -> Tensor: ...
def log10_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log10_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log1p(x: TensorLike) -> Tensor: ...
def log1p_(x: TensorLike) -> Tensor: ...
def log1p_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log1p_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log2(x: TensorLike) -> Tensor: ...
def log2_(x: TensorLike) -> Tensor: ...
def log2_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log2_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log_(x: TensorLike) -> Tensor: ...
def log_double_grad(x: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def log_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def log_loss(input: TensorLike, label: TensorLike, epsilon: float = ...) -> Tensor: ...
def log_loss_grad(
    input: TensorLike,
    label: TensorLike,
    out_grad: TensorLike,
    epsilon: float,
) -> Any: ...
def log_softmax(x: TensorLike, axis: int = ...) -> Tensor: ...
def log_softmax_grad(out: TensorLike, out_grad: TensorLike, axis: int) -> Any: ...
def logcumsumexp(
    x: TensorLike,
    axis: int | None = ...,
    flatten: bool = ...,
    exclusive: bool = ...,
    reverse: bool = ...,
) -> Tensor: ...
def logcumsumexp_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: int,
    flatten: bool,
    exclusive: bool,
    reverse: bool,
) -> Any: ...
def logical_and(x: TensorLike, y: TensorLike) -> Tensor: ...
def logical_and_(x: TensorLike, y: TensorLike) -> Tensor: ...
def logical_not(x: TensorLike) -> Tensor: ...
def logical_not_(x: TensorLike) -> Tensor: ...
def logical_or(x: TensorLike, y: TensorLike) -> Tensor: ...
def logical_or_(x: TensorLike, y: TensorLike) -> Tensor: ...
def logical_xor(x: TensorLike, y: TensorLike) -> Tensor: ...
def logical_xor_(x: TensorLike, y: TensorLike) -> Tensor: ...
def logit(x: TensorLike, eps: float = ...) -> Tensor: ...
def logit_(x: TensorLike, eps: float = ...) -> Tensor: ...
def logit_grad(x: TensorLike, out_grad: TensorLike, eps: float) -> Any: ...
def logsigmoid(x: TensorLike) -> Tensor: ...
def logsigmoid_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def logsigmoid_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def logspace(
    start: TensorLike,
    stop: TensorLike,
    num: int | TensorLike,
    base: TensorLike,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def logsumexp(
    x: TensorLike,
    axis: Sequence[int] | int = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Tensor: ...
def logsumexp_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int,
    keepdim: bool,
    reduce_all: bool,
) -> Any: ...
def lp_pool2d(
    x: TensorLike,
    kernel_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
    exclusive: bool = ...,
    data_format: str = ...,
    pooling_type: str = ...,
    global_pooling: bool = ...,
    adaptive: bool = ...,
    padding_algorithm: str = ...,
    norm_type: float = ...,
) -> Tensor: ...
def lp_pool2d_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    kernel_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
    norm_type: float,
) -> Any: ...
def lstsq(
    x: TensorLike,
    y: TensorLike,
    rcond: TensorLike = ...,
    driver: str = ...,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def lu(x: TensorLike, pivot: bool = ...) -> tuple[Tensor, Tensor, Tensor]: ...
def lu_(x: TensorLike, pivot: bool = ...) -> tuple[Tensor, Tensor, Tensor]: ...
def lu_grad(
    x: TensorLike,
    out: TensorLike,
    pivots: TensorLike,
    out_grad: TensorLike,
    pivot: bool,
) -> Any: ...
def lu_solve(b: TensorLike, lu: TensorLike, pivots: TensorLike, trans: str = ...) -> Tensor: ...
def lu_solve_grad(
    b: TensorLike,
    lu: TensorLike,
    pivots: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    trans: str,
) -> Any: ...
def lu_unpack(
    x: TensorLike,
    y: TensorLike,
    unpack_ludata: bool = ...,
    unpack_pivots: bool = ...,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lu_unpack_grad(
    x: TensorLike,
    y: TensorLike,
    l: TensorLike,
    u: TensorLike,
    pmat: TensorLike,
    l_grad: TensorLike | None = ...,
    u_grad: TensorLike | None = ...,
    *,
    unpack_ludata: bool,
    unpack_pivots: bool,
) -> Any: ...
def margin_cross_entropy_grad(
    logits: TensorLike,
    label: TensorLike,
    softmax: TensorLike,
    loss_grad: TensorLike,
    return_softmax: bool,
    ring_id: int,
    rank: int,
    nranks: int,
    margin1: float,
    margin2: float,
    margin3: float,
    scale: float,
) -> Any: ...
def margin_cross_entropy_grad_(
    logits: TensorLike,
    label: TensorLike,
    softmax: TensorLike,
    loss_grad: TensorLike,
    return_softmax: bool,
    ring_id: int,
    rank: int,
    nranks: int,
    margin1: float,
    margin2: float,
    margin3: float,
    scale: float,
) -> Any: ...
def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor: ...
def masked_fill_(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor: ...
def masked_fill_grad(
    x: TensorLike,
    mask: TensorLike,
    value: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def masked_fill_grad_(
    x: TensorLike,
    mask: TensorLike,
    value: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def masked_select(x: TensorLike, mask: TensorLike) -> Tensor: ...
def masked_select_grad(x: TensorLike, mask: TensorLike, out_grad: TensorLike) -> Any: ...
def matmul(
    x: TensorLike,
    y: TensorLike,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
) -> Tensor: ...
def matmul_double_grad(
    x: TensorLike,
    y: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
) -> Any: ...
def matmul_grad(
    x: TensorLike,
    y: TensorLike,
    out_grad: TensorLike,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
) -> Any: ...
def matmul_triple_grad(
    x: TensorLike,
    y: TensorLike,
    grad_out: TensorLike,
    grad_grad_x: TensorLike | None = ...,
    grad_grad_y: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    grad_grad_out_grad: TensorLike | None = ...,
    transpose_x: bool = ...,
    transpose_y: bool = ...,
) -> Any: ...
def matrix_nms(
    bboxes: TensorLike,
    scores: TensorLike,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    post_threshold: float = ...,
    use_gaussian: bool = ...,
    gaussian_sigma: float = ...,
    background_label: int = ...,
    normalized: bool = ...,
) -> tuple[Tensor, Tensor, Tensor]: ...
def matrix_power(x: TensorLike, n: int) -> Tensor: ...
def matrix_power_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike, n: int) -> Any: ...
def matrix_rank(
    x: TensorLike,
    tol: float,
    use_default_tol: bool = ...,
    hermitian: bool = ...,
) -> Tensor: ...
def matrix_rank_atol_rtol(
    x: TensorLike,
    atol: TensorLike,
    rtol: TensorLike | None = ...,
    hermitian: bool = ...,
) -> Tensor: ...
def matrix_rank_tol(
    x: TensorLike,
    atol_tensor: TensorLike,
    use_default_tol: bool = ...,
    hermitian: bool = ...,
) -> Tensor: ...
def max(x: TensorLike, axis: Sequence[Any] | TensorLike = ..., keepdim: bool = ...) -> Tensor: ...
def max_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Any: ...
def max_pool2d_with_index(
    x: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    global_pooling: bool = ...,
    adaptive: bool = ...,
    ceil_mode: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d_with_index_grad(
    x: TensorLike,
    mask: TensorLike,
    out_grad: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool = ...,
) -> Any: ...
def max_pool3d_with_index(
    x: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    global_pooling: bool = ...,
    adaptive: bool = ...,
    ceil_mode: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def max_pool3d_with_index_grad(
    x: TensorLike,
    mask: TensorLike,
    out_grad: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool = ...,
) -> Any: ...
def maximum(x: TensorLike, y: TensorLike) -> Tensor: ...
def maximum_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def maxout(x: TensorLike, groups: int, axis: int = ...) -> Tensor: ...
def maxout_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    groups: int,
    axis: int,
) -> Any: ...
def mean(x: TensorLike, axis: Sequence[Any] | TensorLike = ..., keepdim: bool = ...) -> Tensor: ...
def mean_all(x: TensorLike) -> Tensor: ...
def mean_all_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def mean_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Any: ...
def median(
    x: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    mode: str = ...,
) -> Tensor: ...
def median_grad(
    x: TensorLike,
    out: TensorLike,
    medians: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keepdim: bool,
    mode: str,
) -> Any: ...
def memcpy(x: TensorLike, dst_place_type: int) -> Tensor: ...
def memcpy_d2h(x: TensorLike, dst_place_type: int) -> Tensor: ...
def memcpy_h2d(x: TensorLike, dst_place_type: int) -> Tensor: ...
def merged_adam_(
    param: Sequence[TensorLike],
    grad: Sequence[TensorLike],
    learning_rate: Sequence[TensorLike],
    moment1: Sequence[TensorLike],
    moment2: Sequence[TensorLike],
    moment2_max: Sequence[TensorLike] | None = ...,
    *,
    beta1_pow: Sequence[TensorLike],
    beta2_pow: Sequence[TensorLike],
    master_param: Sequence[TensorLike] | None = ...,
    beta1: TensorLike = ...,
    beta2: TensorLike = ...,
    epsilon: TensorLike = ...,
    multi_precision: bool = ...,
    use_global_beta_pow: bool = ...,
    amsgrad: bool = ...,
) -> Any: ...
def merged_momentum_(
    param: Sequence[TensorLike],
    grad: Sequence[TensorLike],
    velocity: Sequence[TensorLike],
    learning_rate: Sequence[TensorLike],
    master_param: Sequence[TensorLike] | None = ...,
    *,
    mu: float,
    use_nesterov: bool = ...,
    regularization_method: Sequence[str] | str = ...,
    regularization_coeff: Sequence[float] | float = ...,
    multi_precision: bool = ...,
    rescale_grad: float = ...,
) -> Any: ...
def meshgrid(inputs: Sequence[TensorLike]) -> list[Tensor]: ...
def meshgrid_grad(inputs: Sequence[TensorLike], out_grad: Sequence[TensorLike]) -> Any: ...
def min(x: TensorLike, axis: Sequence[Any] | TensorLike = ..., keepdim: bool = ...) -> Tensor: ...
def min_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Any: ...
def minimum(x: TensorLike, y: TensorLike) -> Tensor: ...
def minimum_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def mish(x: TensorLike, **keywords: Any) -> Tensor: ...
def mish_grad(x: TensorLike, out_grad: TensorLike, **keywords: Any) -> Any: ...
def mish_grad_(x: TensorLike, out_grad: TensorLike, **keywords: Any) -> Any: ...
def mode(x: TensorLike, axis: int = ..., keepdim: bool = ...) -> tuple[Tensor, Tensor]: ...
def mode_grad(
    x: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    axis: int,
    keepdim: bool,
) -> Any: ...
def momentum_(
    param: TensorLike,
    grad: TensorLike,
    velocity: TensorLike,
    learning_rate: TensorLike,
    master_param: TensorLike | None = ...,
    *,
    mu: float,
    use_nesterov: bool = ...,
    regularization_method: str = ...,
    regularization_coeff: float = ...,
    multi_precision: bool = ...,
    rescale_grad: float = ...,
) -> Any: ...
def multi_dot(x: Sequence[TensorLike]) -> Tensor: ...
def multi_dot_grad(x: Sequence[TensorLike], out_grad: TensorLike) -> Any: ...
def multiclass_nms3(
    bboxes: TensorLike,
    scores: TensorLike,
    rois_num: TensorLike | None = ...,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = ...,
    normalized: bool = ...,
    nms_eta: float = ...,
    background_label: int = ...,
) -> tuple[Tensor, Tensor, Tensor]: ...
def multinomial(
    x: TensorLike,
    num_samples: int | TensorLike = ...,
    replacement: bool = ...,
) -> Tensor: ...
def multiplex(inputs: Sequence[TensorLike], index: TensorLike) -> Tensor: ...
def multiplex_grad(
    inputs: Sequence[TensorLike],
    index: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def multiply(x: TensorLike, y: TensorLike) -> Tensor: ...
def multiply_(x: TensorLike, y: TensorLike) -> Tensor: ...
def multiply_double_grad(
    x: TensorLike,
    y: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    axis: int = ...,
) -> Any: ...
def multiply_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int = ...) -> Any: ...
def multiply_triple_grad(
    x: TensorLike,
    y: TensorLike,
    fwd_grad_out: TensorLike,
    fwd_grad_grad_x: TensorLike | None = ...,
    fwd_grad_grad_y: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    grad_grad_out_grad: TensorLike | None = ...,
    axis: int = ...,
) -> Any: ...
def mv(x: TensorLike, vec: TensorLike) -> Tensor: ...
def mv_grad(x: TensorLike, vec: TensorLike, out_grad: TensorLike) -> Any: ...
def nadam_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    momentum_decay_pow: TensorLike,
    beta2_pow: TensorLike,
    mu_product: TensorLike,
    moment1: TensorLike,
    moment2: TensorLike,
    master_param: TensorLike | None = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    momentum_decay: float = ...,
    multi_precision: bool = ...,
) -> Any: ...
def nanmedian(
    x: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    mode: str = ...,
) -> Tensor: ...
def nanmedian_grad(
    x: TensorLike,
    out: TensorLike,
    medians: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keepdim: bool,
    mode: str,
) -> Any: ...
def nansum(
    x: TensorLike,
    axis: Sequence[int] | int = ...,
    dtype: DTypeLike | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
def nansum_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int,
    keepdim: bool,
    reduce_all: bool = ...,
) -> Any: ...
def nearest_interp(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def nearest_interp_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def nextafter(x: TensorLike, y: TensorLike) -> Tensor: ...
def nll_loss(
    input: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = ...,
    ignore_index: int = ...,
    reduction: str = ...,
) -> tuple[Tensor, Tensor]: ...
def nll_loss_grad(
    input: TensorLike,
    label: TensorLike,
    weight: TensorLike | None = ...,
    *,
    total_weight: TensorLike,
    out_grad: TensorLike,
    ignore_index: int,
    reduction: str,
) -> Any: ...
def nms(x: TensorLike, threshold: float = ...) -> Tensor: ...
def nonzero(condition: TensorLike) -> Tensor: ...
def norm(x: TensorLike, axis: int = ..., epsilon: float = ..., is_test: bool = ...) -> Tensor: ...
def norm_grad(
    x: TensorLike,
    norm: TensorLike,
    out_grad: TensorLike,
    axis: int,
    epsilon: float,
    is_test: bool,
) -> Any: ...
def not_equal(x: TensorLike, y: TensorLike) -> Tensor: ...
def not_equal_(x: TensorLike, y: TensorLike) -> Tensor: ...
def numel(x: TensorLike) -> Tensor: ...
def one_hot(x: TensorLike, num_classes: int | TensorLike) -> Tensor: ...
def overlap_add(x: TensorLike, hop_length: int, axis: int = ...) -> Tensor: ...
def overlap_add_grad(x: TensorLike, out_grad: TensorLike, hop_length: int, axis: int) -> Any: ...
def p_norm(
    x: TensorLike,
    porder: float = ...,
    axis: int = ...,
    epsilon: float = ...,
    keepdim: bool = ...,
    asvector: bool = ...,
) -> Tensor: ...
def p_norm_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    porder: float,
    axis: int,
    epsilon: float,
    keepdim: bool,
    asvector: bool,
) -> Any: ...
def pad(x: TensorLike, pad_value: TensorLike = ..., *, paddings: Sequence[int] | int) -> Tensor: ...
def pad3d(
    x: TensorLike,
    paddings: Sequence[Any] | TensorLike,
    mode: str = ...,
    pad_value: float = ...,
    data_format: str = ...,
) -> Tensor: ...
def pad3d_double_grad(
    grad_x_grad: TensorLike,
    paddings: Sequence[Any] | TensorLike,
    mode: str,
    pad_value: float,
    data_format: str,
) -> Any: ...
def pad3d_grad(
    x: TensorLike,
    out_grad: TensorLike,
    paddings: Sequence[Any] | TensorLike,
    mode: str,
    pad_value: float,
    data_format: str,
) -> Any: ...
def pad_double_grad(
    grad_x_grad: TensorLike,
    pad_value: TensorLike,
    paddings: Sequence[int] | int,
) -> Any: ...
def pad_grad(
    x: TensorLike,
    out_grad: TensorLike,
    pad_value: TensorLike,
    paddings: Sequence[int] | int,
) -> Any: ...
def pixel_shuffle(x: TensorLike, upscale_factor: int = ..., data_format: str = ...) -> Tensor: ...
def pixel_shuffle_grad(out_grad: TensorLike, upscale_factor: int, data_format: str) -> Any: ...
def pixel_unshuffle(
    x: TensorLike,
    downscale_factor: int = ...,
    data_format: str = ...,
) -> Tensor: ...
def pixel_unshuffle_grad(out_grad: TensorLike, downscale_factor: int, data_format: str) -> Any: ...
def poisson(x: TensorLike) -> Tensor: ...
def poisson_grad(out_grad: TensorLike) -> Any: ...
def polygamma(x: TensorLike, n: int) -> Tensor: ...
def polygamma_(x: TensorLike, n: int) -> Tensor: ...
def polygamma_grad(x: TensorLike, out_grad: TensorLike, n: int) -> Any: ...
def pool2d(
    x: TensorLike,
    kernel_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
    exclusive: bool = ...,
    data_format: str = ...,
    pooling_type: str = ...,
    global_pooling: bool = ...,
    adaptive: bool = ...,
    padding_algorithm: str = ...,
) -> Tensor: ...
def pool2d_double_grad(
    x: TensorLike,
    grad_x_grad: TensorLike,
    kernel_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
) -> Any: ...
def pool2d_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    kernel_size: Sequence[Any] | TensorLike,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
) -> Any: ...
def pool3d(
    x: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    ceil_mode: bool = ...,
    exclusive: bool = ...,
    data_format: str = ...,
    pooling_type: str = ...,
    global_pooling: bool = ...,
    adaptive: bool = ...,
    padding_algorithm: str = ...,
) -> Tensor: ...
def pool3d_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    kernel_size: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    padding_algorithm: str,
) -> Any: ...
def pow(x: TensorLike, y: float = ...) -> Tensor: ...
def pow_(x: TensorLike, y: float = ...) -> Tensor: ...
def pow_double_grad(
    x: TensorLike,
    grad_out: TensorLike | None = ...,
    *,
    grad_x_grad: TensorLike,
    y: float,
) -> Any: ...
def pow_grad(x: TensorLike, out_grad: TensorLike, y: float = ...) -> Any: ...
def pow_grad_(x: TensorLike, out_grad: TensorLike, y: float = ...) -> Any: ...
def pow_triple_grad(
    x: TensorLike,
    grad_out: TensorLike,
    grad_grad_x: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_grad_out_grad: TensorLike | None = ...,
    *,
    y: float,
) -> Any: ...
def prelu(x: TensorLike, alpha: TensorLike, data_format: str = ..., mode: str = ...) -> Tensor: ...
def prelu_grad(
    x: TensorLike,
    alpha: TensorLike,
    out_grad: TensorLike,
    data_format: str,
    mode: str,
) -> Any: ...
def print(**keywords: Any) -> Tensor: ...
def prior_box(
    input: TensorLike,
    image: TensorLike,
    min_sizes: Sequence[float] | float,
    max_sizes: Sequence[float] | float = ...,
    aspect_ratios: Sequence[float] | float = ...,
    variances: Sequence[float] | float = ...,
    flip: bool = ...,
    clip: bool = ...,
    step_w: float = ...,
    step_h: float = ...,
    offset: float = ...,
    min_max_aspect_ratios_order: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def prod(
    x: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    keepdim: bool = ...,
    reduce_all: bool = ...,
) -> Tensor: ...
def prod_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keepdim: bool,
    reduce_all: bool,
) -> Any: ...
def psroi_pool(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    pooled_height: int = ...,
    pooled_width: int = ...,
    output_channels: int = ...,
    spatial_scale: float = ...,
) -> Tensor: ...
def psroi_pool_grad(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    pooled_height: int,
    pooled_width: int,
    output_channels: int,
    spatial_scale: float,
) -> Any: ...
def put_along_axis(
    arr: TensorLike,
    indices: TensorLike,
    values: TensorLike,
    axis: int,
    reduce: str = ...,
    include_self: bool = ...,
) -> Tensor: ...
def put_along_axis_(
    arr: TensorLike,
    indices: TensorLike,
    values: TensorLike,
    axis: int,
    reduce: str = ...,
    include_self: bool = ...,
) -> Tensor: ...
def put_along_axis_grad(
    arr: TensorLike,
    indices: TensorLike,
    values: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: int,
    reduce: str,
    include_self: bool,
) -> Any: ...
def pylayer(*inputs: TensorLike, backward_function_id: int = ...) -> Any: ...
def qr(x: TensorLike, mode: str = ...) -> Any: ...
def qr_grad(
    x: TensorLike,
    q: TensorLike,
    r: TensorLike,
    q_grad: TensorLike,
    r_grad: TensorLike,
    mode: str,
) -> Any: ...
def radam_(
    param: TensorLike,
    grad: TensorLike,
    learning_rate: TensorLike,
    beta1_pow: TensorLike,
    beta2_pow: TensorLike,
    rho: TensorLike,
    moment1: TensorLike,
    moment2: TensorLike,
    master_param: TensorLike | None = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    multi_precision: bool = ...,
) -> Any: ...
def randint(
    shape: Sequence[Any] | TensorLike = ...,
    low: int = ...,
    *,
    high: int,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def randperm(n: int, dtype: DTypeLike | None = ..., place: Place = ...) -> Tensor: ...
def real(x: TensorLike) -> Tensor: ...
def real_grad(out_grad: TensorLike) -> Any: ...
def reciprocal(x: TensorLike) -> Tensor: ...
def reciprocal_(x: TensorLike) -> Tensor: ...
def reciprocal_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def reciprocal_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def reduce_as(x: TensorLike, target: TensorLike) -> Tensor: ...
def reduce_as_grad(x: TensorLike, target: TensorLike, out_grad: TensorLike) -> Any: ...
def relu(x: TensorLike) -> Tensor: ...
def relu6(x: TensorLike) -> Tensor: ...
def relu6_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def relu6_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def relu_(x: TensorLike) -> Tensor: ...
def relu_double_grad(out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def relu_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def relu_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def remainder(x: TensorLike, y: TensorLike) -> Tensor: ...
def remainder_(x: TensorLike, y: TensorLike) -> Tensor: ...
def remainder_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike) -> Any: ...
def renorm(x: TensorLike, p: float, axis: int, max_norm: float) -> Tensor: ...
def renorm_(x: TensorLike, p: float, axis: int, max_norm: float) -> Tensor: ...
def renorm_grad(
    x: TensorLike,
    out_grad: TensorLike,
    p: float,
    axis: int,
    max_norm: float,
) -> Any: ...
def repeat_interleave(x: TensorLike, repeats: int, axis: int, output_size: int = ...) -> Tensor: ...
def repeat_interleave_grad(
    x: TensorLike,
    out_grad: TensorLike,
    repeats: int,
    axis: int,
    output_size: int = ...,
) -> Any: ...
def repeat_interleave_with_tensor_index(
    x: TensorLike,
    repeats: TensorLike,
    axis: int,
    output_size: int = ...,
) -> Tensor: ...
def repeat_interleave_with_tensor_index_grad(
    x: TensorLike,
    repeats: TensorLike,
    out_grad: TensorLike,
    axis: int,
    output_size: int = ...,
) -> Any: ...
def reshape(x: TensorLike, shape: Sequence[Any] | TensorLike) -> Tensor: ...
def reshape_(x: TensorLike, shape: Sequence[Any] | TensorLike) -> Tensor: ...
def reshape_double_grad(grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def reshape_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def reshape_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def reverse_grad(out_grad: TensorLike, axis: Sequence[Any] | TensorLike) -> Any: ...
def rms_norm(
    x: TensorLike,
    scale: TensorLike | None = ...,
    normalized_shape: Sequence[int] | int = ...,
    epsilon: float = ...,
) -> Tensor: ...
def rms_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    *,
    invvar: TensorLike,
    y_grad: TensorLike,
    normalized_shape: Sequence[int] | int = ...,
    epsilon: float = ...,
) -> Any: ...
def rmsprop_(
    param: TensorLike,
    mean_square: TensorLike,
    grad: TensorLike,
    moment: TensorLike,
    learning_rate: TensorLike,
    mean_grad: TensorLike | None = ...,
    master_param: TensorLike | None = ...,
    epsilon: float = ...,
    decay: float = ...,
    momentum: float = ...,
    centered: bool = ...,
    multi_precision: bool = ...,
) -> Any: ...
def rnn(
    x: TensorLike,
    pre_state: Sequence[TensorLike],
    weight_list: Sequence[TensorLike],
    sequence_length: TensorLike | None = ...,
    *,
    dropout_state_in: TensorLike,
    dropout_prob: float = ...,
    is_bidirec: bool = ...,
    input_size: int = ...,
    hidden_size: int = ...,
    num_layers: int = ...,
    mode: str = ...,
    seed: int = ...,
    is_test: bool = ...,
) -> tuple[Tensor, list[Tensor]]: ...
def rnn_grad(
    x: TensorLike,
    pre_state: Sequence[TensorLike],
    weight_list: Sequence[TensorLike],
    sequence_length: TensorLike | None = ...,
    *,
    out: TensorLike,
    dropout_state_out: TensorLike,
    reserve: TensorLike,
    out_grad: TensorLike,
    state_grad: Sequence[TensorLike],
    dropout_prob: float,
    is_bidirec: bool,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    mode: str,
    seed: int = ...,
    is_test: bool,
) -> Any: ...
def roi_align(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    pooled_height: int = ...,
    pooled_width: int = ...,
    spatial_scale: float = ...,
    sampling_ratio: int = ...,
    aligned: bool = ...,
) -> Tensor: ...
def roi_align_grad(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Any: ...
def roi_pool(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    pooled_height: int = ...,
    pooled_width: int = ...,
    spatial_scale: float = ...,
) -> Tensor: ...
def roi_pool_grad(
    x: TensorLike,
    boxes: TensorLike,
    boxes_num: TensorLike | None = ...,
    *,
    arg_max: TensorLike,
    out_grad: TensorLike,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> Any: ...
def roll(
    x: TensorLike,
    shifts: Sequence[Any] | TensorLike = ...,
    axis: Sequence[int] | int = ...,
) -> Tensor: ...
def roll_grad(
    x: TensorLike,
    out_grad: TensorLike,
    shifts: Sequence[Any] | TensorLike,
    axis: Sequence[int] | int,
) -> Any: ...
def round(x: TensorLike, decimals: int = ...) -> Tensor: ...
def round_(x: TensorLike, decimals: int = ...) -> Tensor: ...
def round_grad(out_grad: TensorLike) -> Any: ...
def round_grad_(out_grad: TensorLike) -> Any: ...
def rprop_(
    param: TensorLike,
    grad: TensorLike,
    prev: TensorLike,
    learning_rate: TensorLike,
    master_param: TensorLike | None = ...,
    *,
    learning_rate_range: TensorLike,
    etas: TensorLike,
    multi_precision: bool = ...,
) -> Any: ...
def rrelu(x: TensorLike, lower: float = ..., upper: float = ..., is_test: bool = ...) -> Tensor: ...
def rrelu_grad(x: TensorLike, noise: TensorLike, out_grad: TensorLike) -> Any: ...
def rsqrt(x: TensorLike) -> Tensor: ...
def rsqrt_(x: TensorLike) -> Tensor: ...
def rsqrt_double_grad(out: TensorLike, grad_x: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def rsqrt_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def rsqrt_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def scale(
    x: TensorLike,
    scale: TensorLike = ...,
    bias: float = ...,
    bias_after_scale: bool = ...,
) -> Tensor: ...
def scale_(
    x: TensorLike,
    scale: TensorLike = ...,
    bias: float = ...,
    bias_after_scale: bool = ...,
) -> Tensor: ...
def scale_grad(out_grad: TensorLike, scale: TensorLike = ...) -> Any: ...
def scatter(
    x: TensorLike,
    index: TensorLike,
    updates: TensorLike,
    overwrite: bool = ...,
) -> Tensor: ...
def scatter_(
    x: TensorLike,
    index: TensorLike,
    updates: TensorLike,
    overwrite: bool = ...,
) -> Tensor: ...
def scatter_grad(
    index: TensorLike,
    updates: TensorLike,
    out_grad: TensorLike,
    overwrite: bool,
) -> Any: ...
def scatter_nd_add(x: TensorLike, index: TensorLike, updates: TensorLike) -> Tensor: ...
def scatter_nd_add_grad(index: TensorLike, updates: TensorLike, out_grad: TensorLike) -> Any: ...
def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    out_int32: bool = ...,
    right: bool = ...,
) -> Tensor: ...
def segment_pool(x: TensorLike, segment_ids: TensorLike, pooltype: str = ...) -> Tensor: ...
def segment_pool_grad(
    x: TensorLike,
    segment_ids: TensorLike,
    out: TensorLike,
    summed_ids: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    pooltype: str,
) -> Any: ...
def selu(x: TensorLike, scale: float = ..., alpha: float = ...) -> Tensor: ...
def selu_grad(out: TensorLike, out_grad: TensorLike, scale: float, alpha: float) -> Any: ...
def send_u_recv(
    x: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    out_size: Sequence[Any] | TensorLike = ...,
    reduce_op: str = ...,
) -> Tensor: ...
def send_u_recv_grad(
    x: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    out: TensorLike | None = ...,
    dst_count: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    reduce_op: str = ...,
) -> Any: ...
def send_ue_recv(
    x: TensorLike,
    y: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    out_size: Sequence[Any] | TensorLike = ...,
    message_op: str = ...,
    reduce_op: str = ...,
) -> Tensor: ...
def send_ue_recv_grad(
    x: TensorLike,
    y: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    out: TensorLike | None = ...,
    dst_count: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    message_op: str = ...,
    reduce_op: str = ...,
) -> Any: ...
def send_uv(
    x: TensorLike,
    y: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    message_op: str = ...,
) -> Tensor: ...
def send_uv_grad(
    x: TensorLike,
    y: TensorLike,
    src_index: TensorLike,
    dst_index: TensorLike,
    out_grad: TensorLike,
    message_op: str = ...,
) -> Any: ...
def sequence_mask(
    x: TensorLike,
    max_len: int | TensorLike = ...,
    out_dtype: DTypeLike | None = ...,
) -> Tensor: ...
def set_value(
    x: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    steps: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    decrease_axes: Sequence[int] | int,
    none_axes: Sequence[int] | int,
    shape: Sequence[int] | int,
    values: Sequence[TensorLike] | TensorLike,
) -> Tensor: ...
def set_value_(
    x: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    steps: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    decrease_axes: Sequence[int] | int,
    none_axes: Sequence[int] | int,
    shape: Sequence[int] | int,
    values: Sequence[TensorLike] | TensorLike,
) -> Tensor: ...
def set_value_grad(out_grad: TensorLike) -> Any: ...
def set_value_with_tensor(
    x: TensorLike,
    values: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    steps: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    decrease_axes: Sequence[int] | int,
    none_axes: Sequence[int] | int,
) -> Tensor: ...
def set_value_with_tensor_(
    x: TensorLike,
    values: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    steps: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    decrease_axes: Sequence[int] | int,
    none_axes: Sequence[int] | int,
) -> Tensor: ...
def set_value_with_tensor_grad(
    values: TensorLike,
    out_grad: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    steps: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    decrease_axes: Sequence[int] | int,
    none_axes: Sequence[int] | int,
) -> Any: ...
def sgd_(
    param: TensorLike,
    learning_rate: TensorLike,
    grad: TensorLike,
    master_param: TensorLike | None = ...,
    multi_precision: bool = ...,
) -> Any: ...
def shape(input: TensorLike) -> Tensor: ...
def shape64(input: TensorLike) -> Tensor: ...
def shard_index(
    input: TensorLike,
    index_num: int,
    nshards: int,
    shard_id: int,
    ignore_value: int = ...,
) -> Tensor: ...
def share_data(x: TensorLike) -> Tensor: ...
def share_data_(x: TensorLike) -> Tensor: ...
def sigmoid(x: TensorLike) -> Tensor: ...
def sigmoid_(x: TensorLike) -> Tensor: ...
def sigmoid_cross_entropy_with_logits(
    x: TensorLike,
    label: TensorLike,
    pos_weight: TensorLike | None = ...,
    normalize: bool = ...,
    ignore_index: int = ...,
) -> Tensor: ...
def sigmoid_cross_entropy_with_logits_(
    x: TensorLike,
    label: TensorLike,
    pos_weight: TensorLike | None = ...,
    normalize: bool = ...,
    ignore_index: int = ...,
) -> Tensor: ...
def sigmoid_cross_entropy_with_logits_grad(
    x: TensorLike,
    label: TensorLike,
    pos_weight: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    normalize: bool,
    ignore_index: int,
) -> Any: ...
def sigmoid_cross_entropy_with_logits_grad_(
    x: TensorLike,
    label: TensorLike,
    pos_weight: TensorLike | None = ...,
    *,
    out_grad: TensorLike,
    normalize: bool,
    ignore_index: int,
) -> Any: ...
def sigmoid_double_grad(out: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def sigmoid_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def sigmoid_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def sigmoid_triple_grad(
    out: TensorLike,
    fwd_grad_out: TensorLike,
    grad_grad_x: TensorLike,
    grad_out_grad: TensorLike,
    grad_grad_out_grad: TensorLike | None = ...,
) -> Any: ...
def sign(x: TensorLike) -> Tensor: ...
def sign_grad(out_grad: TensorLike) -> Any: ...
def silu(x: TensorLike) -> Tensor: ...
def silu_(x: TensorLike) -> Tensor: ...
def silu_double_grad(
    x: TensorLike,
    out: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike,
) -> Any: ...
def silu_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def silu_grad_(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def sin(x: TensorLike) -> Tensor: ...
def sin_(x: TensorLike) -> Tensor: ...
def sin_double_grad(
    x: TensorLike,
    grad_out: TensorLike | None = ...,
    *,
    grad_x_grad: TensorLike,
) -> Any: ...
def sin_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def sin_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def sin_triple_grad(
    x: TensorLike,
    grad_out_forward: TensorLike | None = ...,
    grad_x_grad_forward: TensorLike | None = ...,
    grad_x_grad: TensorLike | None = ...,
    grad_out_grad_grad: TensorLike | None = ...,
) -> Any: ...
def sinh(x: TensorLike) -> Tensor: ...
def sinh_(x: TensorLike) -> Tensor: ...
def sinh_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def sinh_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def slice(
    input: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    infer_flags: Sequence[int] | int = ...,
    decrease_axis: Sequence[int] | int = ...,
) -> Tensor: ...
def slice_array_dense(input: TensorLike, starts: TensorLike) -> Tensor: ...
def slice_grad(
    input: TensorLike,
    out_grad: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
    infer_flags: Sequence[int] | int,
    decrease_axis: Sequence[int] | int,
) -> Any: ...
def slogdet(x: TensorLike) -> Tensor: ...
def slogdet_grad(x: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def slogdet_v2(x: TensorLike) -> tuple[Tensor, Tensor]: ...
def slogdet_v2_grad(
    x: TensorLike,
    sign: TensorLike,
    logdet: TensorLike,
    sign_grad: TensorLike,
    logdet_grad: TensorLike,
) -> Any: ...
def softmax(x: TensorLike, axis: int = ...) -> Tensor: ...
def softmax_(x: TensorLike, axis: int = ...) -> Tensor: ...
def softmax_grad(out: TensorLike, out_grad: TensorLike, axis: int) -> Any: ...
def softplus(x: TensorLike, beta: float = ..., threshold: float = ...) -> Tensor: ...
def softplus_double_grad(
    x: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike,
    beta: float,
    threshold: float,
) -> Any: ...
def softplus_grad(x: TensorLike, out_grad: TensorLike, beta: float, threshold: float) -> Any: ...
def softplus_grad_(x: TensorLike, out_grad: TensorLike, beta: float, threshold: float) -> Any: ...
def softshrink(x: TensorLike, threshold: float = ...) -> Tensor: ...
def softshrink_grad(x: TensorLike, out_grad: TensorLike, threshold: float) -> Any: ...
def softshrink_grad_(x: TensorLike, out_grad: TensorLike, threshold: float) -> Any: ...
def softsign(x: TensorLike) -> Tensor: ...
def softsign_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def softsign_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def solve(x: TensorLike, y: TensorLike) -> Tensor: ...
def solve_grad(x: TensorLike, y: TensorLike, out: TensorLike, out_grad: TensorLike) -> Any: ...
def spectral_norm(
    weight: TensorLike,
    u: TensorLike,
    v: TensorLike,
    dim: int = ...,
    power_iters: int = ...,
    eps: float = ...,
) -> Tensor: ...
def split(
    x: TensorLike,
    sections: Sequence[Any] | TensorLike,
    axis: int | TensorLike = ...,
) -> list[Tensor]: ...
def split_with_num(x: TensorLike, axis: int | TensorLike = ..., *, num: int) -> list[Tensor]: ...
def split_with_num_grad(out_grad: Sequence[TensorLike], axis: int | TensorLike = ...) -> Any: ...
def sqrt(x: TensorLike) -> Tensor: ...
def sqrt_(x: TensorLike) -> Tensor: ...
def sqrt_double_grad(out: TensorLike, grad_x: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def sqrt_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def sqrt_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def square(x: TensorLike) -> Tensor: ...
def square_(x: TensorLike) -> Tensor: ...
def square_double_grad(x: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def square_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def square_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def squared_l2_norm(x: TensorLike) -> Tensor: ...
def squared_l2_norm_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def squeeze(x: TensorLike, axis: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def squeeze_(x: TensorLike, axis: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def squeeze_grad(x: TensorLike, out_grad: TensorLike, axis: Sequence[Any] | TensorLike) -> Any: ...
def squeeze_grad_(x: TensorLike, out_grad: TensorLike, axis: Sequence[Any] | TensorLike) -> Any: ...
def stack(x: Sequence[TensorLike], axis: int = ...) -> Tensor: ...
def stack_grad(x: Sequence[TensorLike], out_grad: TensorLike, axis: int) -> Any: ...
def standard_gamma(x: TensorLike) -> Tensor: ...
def stanh(x: TensorLike, scale_a: float = ..., scale_b: float = ...) -> Tensor: ...
def stanh_grad(x: TensorLike, out_grad: TensorLike, scale_a: float, scale_b: float) -> Any: ...
def std(
    x: TensorLike,
    axis: Sequence[int] | int = ...,
    keepdim: bool = ...,
    unbiased: bool = ...,
    correction: float = ...,
) -> Tensor: ...
def std_grad(
    x: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int,
    keepdim: bool,
    unbiased: bool,
    correction: float,
) -> Any: ...
def strided_slice(
    x: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    strides: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
) -> Tensor: ...
def strided_slice_grad(
    x: TensorLike,
    out_grad: TensorLike,
    starts: Sequence[Any] | TensorLike,
    ends: Sequence[Any] | TensorLike,
    strides: Sequence[Any] | TensorLike,
    axes: Sequence[int] | int,
) -> Any: ...
def subtract(x: TensorLike, y: TensorLike) -> Tensor: ...
def subtract_(x: TensorLike, y: TensorLike) -> Tensor: ...
def subtract_double_grad(
    y: TensorLike,
    grad_out: TensorLike,
    grad_x_grad: TensorLike | None = ...,
    grad_y_grad: TensorLike | None = ...,
    axis: int = ...,
) -> Any: ...
def subtract_grad(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int = ...) -> Any: ...
def subtract_grad_(x: TensorLike, y: TensorLike, out_grad: TensorLike, axis: int = ...) -> Any: ...
def sum(
    x: TensorLike,
    axis: Sequence[Any] | TensorLike = ...,
    dtype: DTypeLike | None = ...,
    keepdim: bool = ...,
) -> Tensor: ...
def sum_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
    keepdim: bool,
    reduce_all: bool = ...,
) -> Any: ...
def svd(x: TensorLike, full_matrices: bool = ...) -> tuple[Tensor, Tensor, Tensor]: ...
def svd_grad(
    x: TensorLike,
    u: TensorLike,
    vh: TensorLike,
    s: TensorLike,
    u_grad: TensorLike | None = ...,
    vh_grad: TensorLike | None = ...,
    s_grad: TensorLike | None = ...,
    *,
    full_matrices: bool,
) -> Any: ...
def svdvals(x: TensorLike) -> Tensor: ...
def svdvals_grad(x: TensorLike, s_grad: TensorLike) -> Any: ...
def swiglu(x: TensorLike, y: TensorLike | None = ...) -> Tensor: ...
def swiglu_grad(x: TensorLike, y: TensorLike | None = ..., *, out_grad: TensorLike) -> Any: ...
def swish(x: TensorLike) -> Tensor: ...
def swish_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def swish_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def sync_batch_norm_(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    scale: TensorLike,
    bias: TensorLike,
    is_test: bool = ...,
    momentum: float = ...,
    epsilon: float = ...,
    data_format: str = ...,
    use_global_stats: bool = ...,
    trainable_statistics: bool = ...,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]: ...
def sync_batch_norm_grad(
    x: TensorLike,
    scale: TensorLike | None = ...,
    bias: TensorLike | None = ...,
    *,
    saved_mean: TensorLike,
    saved_variance: TensorLike,
    reserve_space: TensorLike | None = ...,
    out_grad: TensorLike,
    momentum: float,
    epsilon: float,
    data_format: str,
    is_test: bool,
    use_global_stats: bool,
    trainable_statistics: bool,
) -> Any: ...
def take_along_axis(arr: TensorLike, indices: TensorLike, axis: int) -> Tensor: ...
def take_along_axis_grad(
    arr: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    axis: int,
) -> Any: ...
def tan(x: TensorLike) -> Tensor: ...
def tan_(x: TensorLike) -> Tensor: ...
def tan_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def tan_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def tanh(x: TensorLike) -> Tensor: ...
def tanh_(x: TensorLike) -> Tensor: ...
def tanh_double_grad(out: TensorLike, grad_out: TensorLike, grad_x_grad: TensorLike) -> Any: ...
def tanh_grad(out: TensorLike, out_grad: TensorLike) -> Any: ...
def tanh_grad_(out: TensorLike, out_grad: TensorLike) -> Any: ...
def tanh_shrink(x: TensorLike) -> Tensor: ...
def tanh_shrink_grad(x: TensorLike, out_grad: TensorLike) -> Any: ...
def tanh_shrink_grad_(x: TensorLike, out_grad: TensorLike) -> Any: ...
def tanh_triple_grad(
    out: TensorLike,
    grad_out_forward: TensorLike,
    grad_x_grad_forward: TensorLike,
    grad_out_new_grad: TensorLike | None = ...,
    grad_out_grad_grad: TensorLike | None = ...,
) -> Any: ...
def temporal_shift(
    x: TensorLike,
    seg_num: int,
    shift_ratio: float = ...,
    data_format: str = ...,
) -> Tensor: ...
def temporal_shift_grad(
    out_grad: TensorLike,
    seg_num: int,
    shift_ratio: float,
    data_format: str,
) -> Any: ...
def tensor_to_array(
    x: TensorLike,
    out_grad: TensorLike,
    axis: int,
    use_stack: bool = ...,
) -> Tensor: ...
def threefry(
    key0: TensorLike,
    key1: TensorLike,
    x: TensorLike,
    y: TensorLike,
    word: int = ...,
) -> Tensor: ...
def thresholded_relu(x: TensorLike, threshold: float = ..., value: float = ...) -> Tensor: ...
def thresholded_relu_(x: TensorLike, threshold: float = ..., value: float = ...) -> Tensor: ...
def thresholded_relu_grad(
    x: TensorLike,
    out_grad: TensorLike,
    threshold: float,
    value: float,
) -> Any: ...
def thresholded_relu_grad_(
    x: TensorLike,
    out_grad: TensorLike,
    threshold: float,
    value: float,
) -> Any: ...
def tile(x: TensorLike, repeat_times: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def tile_grad(
    x: TensorLike,
    out_grad: TensorLike,
    repeat_times: Sequence[Any] | TensorLike,
) -> Any: ...
def topk(
    x: TensorLike,
    k: int | TensorLike = ...,
    axis: int = ...,
    largest: bool = ...,
    sorted: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def topk_grad(
    x: TensorLike,
    indices: TensorLike,
    out_grad: TensorLike,
    k: int | TensorLike,
    axis: int,
    largest: bool,
    sorted: bool,
) -> Any: ...
def trace(x: TensorLike, offset: int = ..., axis1: int = ..., axis2: int = ...) -> Tensor: ...
def trace_grad(x: TensorLike, out_grad: TensorLike, offset: int, axis1: int, axis2: int) -> Any: ...
def transpose(x: TensorLike, perm: Sequence[int] | int) -> Tensor: ...
def transpose_(x: TensorLike, perm: Sequence[int] | int) -> Tensor: ...
def transpose_double_grad(grad_x_grad: TensorLike, perm: Sequence[int] | int) -> Any: ...
def transpose_grad(out_grad: TensorLike, perm: Sequence[int] | int) -> Any: ...
def triangular_solve(
    x: TensorLike,
    y: TensorLike,
    upper: bool = ...,
    transpose: bool = ...,
    unitriangular: bool = ...,
) -> Tensor: ...
def triangular_solve_grad(
    x: TensorLike,
    y: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Any: ...
def tril(x: TensorLike, diagonal: int = ...) -> Tensor: ...
def tril_(x: TensorLike, diagonal: int = ...) -> Tensor: ...
def tril_grad(out_grad: TensorLike, diagonal: int) -> Any: ...
def tril_indices(
    rows: int,
    cols: int = ...,
    offset: int = ...,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def trilinear_interp(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    data_format: str = ...,
    out_d: int = ...,
    out_h: int = ...,
    out_w: int = ...,
    scale: Sequence[float] | float = ...,
    interp_method: str = ...,
    align_corners: bool = ...,
    align_mode: int = ...,
) -> Tensor: ...
def trilinear_interp_grad(
    x: TensorLike,
    out_size: TensorLike | None = ...,
    size_tensor: Sequence[TensorLike] | None = ...,
    scale_tensor: TensorLike | None = ...,
    *,
    output_grad: TensorLike,
    data_format: str,
    out_d: int,
    out_h: int,
    out_w: int,
    scale: Sequence[float] | float,
    interp_method: str,
    align_corners: bool,
    align_mode: int,
) -> Any: ...
def triu(x: TensorLike, diagonal: int = ...) -> Tensor: ...
def triu_(x: TensorLike, diagonal: int = ...) -> Tensor: ...
def triu_grad(out_grad: TensorLike, diagonal: int) -> Any: ...
def triu_indices(
    row: int,
    col: int = ...,
    offset: int = ...,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def trunc(input: TensorLike) -> Tensor: ...
def trunc_(input: TensorLike) -> Tensor: ...
def trunc_divide(x: TensorLike, y: TensorLike) -> Tensor: ...
def trunc_divide_(x: TensorLike, y: TensorLike) -> Tensor: ...
def trunc_grad(out_grad: TensorLike) -> Any: ...
def truncated_gaussian_random(
    shape: Sequence[int] | int,
    mean: float = ...,
    std: float = ...,
    seed: int = ...,
    a: float = ...,
    b: float = ...,
    dtype: DTypeLike | None = ...,
    place: Place = ...,
) -> Tensor: ...
def unbind(input: TensorLike, axis: int = ...) -> list[Tensor]: ...
def unbind_grad(out_grad: Sequence[TensorLike], axis: int) -> Any: ...
def unfold(
    x: TensorLike,
    kernel_sizes: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    dilations: Sequence[int] | int = ...,
) -> Tensor: ...
def unfold_grad(
    x: TensorLike,
    out_grad: TensorLike,
    kernel_sizes: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    dilations: Sequence[int] | int,
) -> Any: ...
def uniform(
    shape: Sequence[Any] | TensorLike,
    min: TensorLike = ...,
    max: TensorLike = ...,
    dtype: DTypeLike | None = ...,
    seed: int = ...,
    place: Place = ...,
) -> Tensor: ...
def unique(
    x: TensorLike,
    return_index: bool = ...,
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: Sequence[int] | int = ...,
    dtype: DTypeLike | None = ...,
    is_sorted: bool = ...,
) -> Any: ...
def unique_consecutive(
    x: TensorLike,
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: Sequence[int] | int = ...,
    dtype: DTypeLike | None = ...,
) -> Any: ...
def unpool(
    x: TensorLike,
    indices: TensorLike,
    output_size: Sequence[Any] | TensorLike,
    ksize: Sequence[int] | int,
    strides: Sequence[int] | int,
    padding: Sequence[int] | int,
    data_format: str,
) -> Tensor: ...
def unpool3d(
    x: TensorLike,
    indices: TensorLike,
    ksize: Sequence[int] | int,
    strides: Sequence[int] | int = ...,
    paddings: Sequence[int] | int = ...,
    output_size: Sequence[int] | int = ...,
    data_format: str = ...,
) -> Tensor: ...
def unpool3d_grad(
    x: TensorLike,
    indices: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    ksize: Sequence[int] | int,
    strides: Sequence[int] | int,
    paddings: Sequence[int] | int,
    output_size: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def unpool_grad(
    x: TensorLike,
    indices: TensorLike,
    out: TensorLike,
    out_grad: TensorLike,
    output_size: Sequence[Any] | TensorLike,
    ksize: Sequence[int] | int,
    strides: Sequence[int] | int,
    padding: Sequence[int] | int,
    data_format: str,
) -> Any: ...
def unsqueeze(x: TensorLike, axis: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def unsqueeze_(x: TensorLike, axis: Sequence[Any] | TensorLike = ...) -> Tensor: ...
def unsqueeze_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
) -> Any: ...
def unsqueeze_grad_(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[Any] | TensorLike,
) -> Any: ...
def unstack(x: TensorLike, axis: int = ..., num: int = ...) -> list[Tensor]: ...
def unstack_grad(out_grad: Sequence[TensorLike], axis: int) -> Any: ...
def update_loss_scaling_(
    x: Sequence[TensorLike],
    found_infinite: TensorLike,
    prev_loss_scaling: TensorLike,
    in_good_steps: TensorLike,
    in_bad_steps: TensorLike,
    stop_update: TensorLike = ...,
    *,
    incr_every_n_steps: int,
    decr_every_n_nan_or_inf: int,
    incr_ratio: float,
    decr_ratio: float,
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]: ...
def var(
    x: TensorLike,
    axis: Sequence[int] | int = ...,
    keepdim: bool = ...,
    unbiased: bool = ...,
    correction: float = ...,
) -> Tensor: ...
def var_grad(
    x: TensorLike,
    out_grad: TensorLike,
    axis: Sequence[int] | int,
    keepdim: bool,
    unbiased: bool,
    correction: float,
) -> Any: ...
def view_shape_grad(
    input: TensorLike,
    out_grad: TensorLike,
    dims: Sequence[int] | int = ...,
) -> Any: ...
def viterbi_decode(
    potentials: TensorLike,
    transition_params: TensorLike,
    lengths: TensorLike,
    include_bos_eos_tag: bool = ...,
) -> tuple[Tensor, Tensor]: ...
def warpctc(
    logits: TensorLike,
    label: TensorLike,
    logits_length: TensorLike | None = ...,
    labels_length: TensorLike | None = ...,
    blank: int = ...,
    norm_by_times: bool = ...,
) -> Tensor: ...
def warpctc_grad(
    logits: TensorLike,
    logits_length: TensorLike | None = ...,
    *,
    warpctcgrad: TensorLike,
    loss_grad: TensorLike,
    blank: int,
    norm_by_times: bool,
) -> Any: ...
def warprnnt(
    input: TensorLike,
    label: TensorLike,
    input_lengths: TensorLike,
    label_lengths: TensorLike,
    blank: int = ...,
    fastemit_lambda: float = ...,
) -> Tensor: ...
def warprnnt_grad(
    input: TensorLike,
    input_lengths: TensorLike,
    warprnntgrad: TensorLike,
    loss_grad: TensorLike,
    blank: int = ...,
    fastemit_lambda: float = ...,
) -> Any: ...
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor: ...
def where_(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor: ...
def where_grad(
    condition: TensorLike,
    x: TensorLike,
    y: TensorLike,
    out_grad: TensorLike,
) -> Any: ...
def yolo_box(
    x: TensorLike,
    img_size: TensorLike,
    anchors: Sequence[int] | int = ...,
    class_num: int = ...,
    conf_thresh: float = ...,
    downsample_ratio: int = ...,
    clip_bbox: bool = ...,
    scale_x_y: float = ...,
    iou_aware: bool = ...,
    iou_aware_factor: float = ...,
) -> tuple[Tensor, Tensor]: ...
def yolo_loss(
    x: TensorLike,
    gt_box: TensorLike,
    gt_label: TensorLike,
    gt_score: TensorLike | None = ...,
    anchors: Sequence[int] | int = ...,
    anchor_mask: Sequence[int] | int = ...,
    class_num: int = ...,
    ignore_thresh: float = ...,
    downsample_ratio: int = ...,
    use_label_smooth: bool = ...,
    scale_x_y: float = ...,
) -> Tensor: ...
def yolo_loss_grad(
    x: TensorLike,
    gt_box: TensorLike,
    gt_label: TensorLike,
    gt_score: TensorLike | None = ...,
    *,
    objectness_mask: TensorLike,
    gt_match_mask: TensorLike,
    loss_grad: TensorLike,
    anchors: Sequence[int] | int = ...,
    anchor_mask: Sequence[int] | int = ...,
    class_num: int = ...,
    ignore_thresh: float = ...,
    downsample_ratio: int = ...,
    use_label_smooth: bool = ...,
    scale_x_y: float = ...,
) -> Any: ...
