"""Element types of torch and of pirkit, and arrays over the memory of tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pirkit.runtime import dtype as dt
from pirkit.runtime.dtype import DType
from pirkit.torch.libtorch import torch

Array = np.ndarray[Any, Any]

OF_TORCH: Final[dict[Any, DType]] = {
    torch.bool: dt.bool_,
    torch.uint8: dt.uint8,
    torch.int8: dt.int8,
    torch.int16: dt.int16,
    torch.int32: dt.int32,
    torch.int64: dt.int64,
    torch.float16: dt.float16,
    torch.bfloat16: dt.bfloat16,
    torch.float32: dt.float32,
    torch.float64: dt.float64,
    torch.complex64: dt.complex64,
    torch.complex128: dt.complex128,
}
TO_TORCH: Final[dict[DType, Any]] = {ours: theirs for theirs, ours in OF_TORCH.items()}


def array_of(tensor: Any) -> Array:
    """A numpy array over the memory of a CPU tensor, without its gradient.

    Only a tensor with a lazy conjugation or negation is copied. bfloat16, which numpy does not
    know, is an array of `ml_dtypes.bfloat16`.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    dtype = tensor.dtype
    if dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dt.bfloat16.np)
    return tensor.numpy(force=True)


def tensor_of(array: Array) -> Any:
    """A tensor over the memory of an array; an array that is read-only is copied."""
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype == dt.bfloat16.np:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
