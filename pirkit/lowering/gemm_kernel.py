"""Small matmuls as native steps of a plan, with an optional bias row in the epilogue.

A call of numpy costs about a microsecond; for a small matmul the call is most of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.lowering.codegen.matmul.small_gemm import (
    ARGUMENT_WORDS,
    MAX_DEPTH,
    native_small_gemm,
    variant_of,
)
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.machine_costs import (
    BLAS_CALL_NS,
    BLAS_FMAS_PER_NS,
    BLAS_MATRIX_NS,
    BLAS_VIEW_NS,
    SMALL_GEMM_PACK_NS,
    SMALL_GEMM_STEP_NS,
)
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

MAX_SIZE: Final = 1 << 18
"""Largest number of multiplications; above it a BLAS uses several threads."""
_MAX_MATRICES: Final = 4096
"""Largest batch: the step stores an offset for each of its matrices."""
_X, _Y = 0, 1


def is_small(x: TensorMeta, y: TensorMeta, out: TensorMeta, attrs: Mapping[str, Any]) -> bool:
    """Whether a matmul becomes such a step; false if the cost model expects numpy to be faster."""
    if min(x.rank, y.rank) < 2 or out.dtype not in (dt.float32, dt.float64):
        return False
    transposed = bool(attrs["transpose_x"]), bool(attrs["transpose_y"])
    depth = x.shape[-2 if transposed[0] else -1]
    count, (rows, columns) = prod(out.shape[:-2]), out.shape[-2:]
    fits = x.dtype == y.dtype == out.dtype and depth <= MAX_DEPTH and count <= _MAX_MATRICES
    if not fits or not 0 < out.numel * depth <= MAX_SIZE:
        return False
    size = out.dtype.itemsize
    # a model of the native time: tiles of four rows, or single ones, over vectors of columns
    lines = count * -(-columns * size * 8 // host().vector_bits) * depth
    tiles = -(-rows // 4) if rows >= 4 else rows
    own_ns = lines * (tiles * SMALL_GEMM_STEP_NS + transposed[1] * SMALL_GEMM_PACK_NS)
    work = out.numel * depth * size / 4 / BLAS_FMAS_PER_NS
    calls_ns = BLAS_CALL_NS + any(transposed) * BLAS_VIEW_NS + count * BLAS_MATRIX_NS
    return own_ns <= calls_ns + work


def bind_small_gemm(b: Binding) -> NativeStep:
    """Bind a small matmul."""
    return SmallGemm(b.input(), b.input(1), len(b.inputs) > 2, b.attrs)


class SmallGemm(NativeStep):
    """``x y`` or ``x y + bias``, batched; operands may have any strides, in bytes."""

    strided = frozenset({_X, _Y})

    def __init__(
        self, x: TensorMeta, y: TensorMeta, has_bias: bool, attrs: Mapping[str, Any]
    ) -> None:
        self.results = attrs["results"]
        self.factor_metas = (x, y)
        self.transposed = (bool(attrs["transpose_x"]), bool(attrs["transpose_y"]))
        self.has_bias = has_bias
        self.inputs = 3 if has_bias else 2
        self.outputs = {self.inputs: 0}
        self.function = self._function(_exchanged(_strides(None, y), self.transposed[_Y]))

    def _function(self, y: Sequence[int]) -> NativeFunction:
        """The function for the strides of y."""
        out = self.results[0]
        return native_small_gemm(out.dtype, variant_of(out.dtype, out.shape[-1], y[-1]))

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        out, metas = self.results[0], self.factor_metas
        size = out.dtype.itemsize
        strides = [_strides(pinned.get(k), metas[k]) for k in (_X, _Y)]
        x, y = (_exchanged(s, t) for s, t in zip(strides, self.transposed, strict=True))
        self.function = self._function(y)
        batch, (rows, columns) = out.shape[:-2], out.shape[-2:]
        places = [
            _matrix_offsets(batch, meta.shape[:-2], own[:-2])
            for meta, own in zip(metas, strides, strict=True)
        ]
        # Matrices of the result are contiguous.
        places.append(np.arange(prod(batch), dtype=np.int64) * rows * columns * size)
        offsets = np.stack(places, 1).ravel()
        reach = {
            "x": _reach(metas[_X], strides[_X]), "y": _reach(metas[_Y], strides[_Y]),
            "out": (0, out.numel * size), "bias": (0, columns * size),
            "words": (0, 8 * (len(ARGUMENT_WORDS) + len(offsets))),
        }  # fmt: skip
        sizes = {
            "count": prod(batch), "rows": rows, "columns": columns,
            "depth": metas[_X].shape[-2 if self.transposed[_X] else -1],
            "x_row": x[-2], "x_depth": x[-1], "y_depth": y[-2], "y_column": y[-1],
            "out_row": columns * size, "biased": int(self.has_bias),
            **{f"{name}_first": first for name, (first, _) in reach.items()},
            **{f"{name}_bytes": nbytes for name, (_, nbytes) in reach.items()},
        }  # fmt: skip
        words = np.concatenate([[sizes[name] for name in ARGUMENT_WORDS], offsets])
        out_at, words_at, bias_at = self.inputs, self.inputs + 1, self.inputs + 2
        own: dict[int, Array] = {words_at: words.astype(np.int64)}
        if not self.has_bias:
            own[bias_at] = np.full(columns, -0.0, out.dtype.np)
        operands = (0, 1, out_at, 2 if self.has_bias else bias_at, words_at)
        return LaunchPart((LaunchFunction(self.function, operands),), own)

    def error(self, flag: int) -> Exception:
        raise IndexError(flag)


def _strides(array: Array | None, meta: TensorMeta) -> tuple[int, ...]:
    """Strides in bytes."""
    dense = tuple([prod(meta.shape[k + 1 :]) * meta.dtype.itemsize for k in range(meta.rank)])
    return dense if array is None else array.strides


def _exchanged(strides: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    """The strides of a transposed operand as those of the matrix that it stands for."""
    return (*strides[:-2], strides[-1], strides[-2]) if transposed else strides


def _reach(meta: TensorMeta, strides: Sequence[int]) -> tuple[int, int]:
    """The first byte of an operand, below 0 if a stride is, and how many bytes it spans."""
    ends = [(extent - 1) * stride for extent, stride in zip(meta.shape, strides, strict=True)]
    if meta.numel == 0:
        return 0, 0
    return sum(e for e in ends if e < 0), sum(map(abs, ends)) + meta.dtype.itemsize


def _matrix_offsets(batch: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> Array:
    """The byte offset of each matrix of an operand, over the broadcast batch."""
    found = np.zeros(tuple(batch), np.int64)
    first = len(batch) - len(shape)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True), first):
        if extent > 1:
            steps = np.arange(batch[axis], dtype=np.int64) * stride
            found += steps.reshape((-1,) + (1,) * (len(batch) - axis - 1))
    return found.ravel()
