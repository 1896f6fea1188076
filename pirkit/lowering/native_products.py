"""Small products of matrices as native steps of a plan, with the row that is added behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from pirkit.lowering.codegen.small_products import DEEPEST, WORDS, native_small_product
from pirkit.runtime import dtype as dt
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.launch import Piece, Work
from pirkit.runtime.native.segment import NativeStep
from pirkit.runtime.native.target import host

Array = np.ndarray[Any, Any]

MOST: Final = 1 << 18
"""Multiplications from which a BLAS shares a product among threads."""
_STEP_NS: Final = 1.5
"""What a tile of four rows, or a row, takes for each element of the depth."""
_PACKED_NS: Final = 6
"""What it takes to put the elements of a line of a tile side by side."""
_CALL_NS: Final = 1000
_VIEWS_NS: Final = 700
_MATRIX_NS: Final = 100
_PER_NS: Final = 55
"""What numpy takes for a call, more for a factor that is turned, for each matrix of a batch; and
multiplications of float32 that a BLAS does in a ns. All of this is measured, on one thread."""
_MATRICES: Final = 4096
"""Matrices of a batch for which a list of places is kept."""
_X, _Y = 0, 1


def is_small(x: TensorMeta, y: TensorMeta, out: TensorMeta, attrs: Mapping[str, Any]) -> bool:
    """Whether a product is such a step: those that numpy does in less time are left to it."""
    if min(x.rank, y.rank) < 2 or out.dtype not in (dt.float32, dt.float64):
        return False
    turned = bool(attrs["transpose_x"]), bool(attrs["transpose_y"])
    depth = x.shape[-2 if turned[0] else -1]
    count, (rows, columns) = prod(out.shape[:-2]), out.shape[-2:]
    fits = x.dtype == y.dtype == out.dtype and depth <= DEEPEST and count <= _MATRICES
    if not fits or not 0 < out.numel * depth <= MOST:
        return False
    size = out.dtype.itemsize
    lines = count * -(-columns * size * 8 // host().vector_bits) * depth
    ours = lines * ((rows // 4 + rows % 4) * _STEP_NS + turned[1] * _PACKED_NS)
    work = out.numel * depth * size / 4 / _PER_NS
    return ours <= _CALL_NS + any(turned) * _VIEWS_NS + count * _MATRIX_NS + work


def bind_product(b: Binding) -> NativeStep:
    """What runs a small product."""
    return SmallProduct(b.input(), b.input(1), len(b.inputs) > 2, b.attrs)


class SmallProduct(NativeStep):
    """``x y``, or ``x y + bias``; factors may have any strides."""

    strided = frozenset({_X, _Y})

    def __init__(
        self, x: TensorMeta, y: TensorMeta, biased: bool, attrs: Mapping[str, Any]
    ) -> None:
        self.results = attrs["results"]
        self.factors = (x, y)
        self.turned = (bool(attrs["transpose_x"]), bool(attrs["transpose_y"]))
        self.biased = biased
        self.inputs = 3 if biased else 2
        self.outputs = {self.inputs: 0}
        self.function = native_small_product(self.results[0].dtype)

    def piece(self, stay: Mapping[int, Array]) -> Piece:
        out = self.results[0]
        size = out.dtype.itemsize
        x, y = (
            _strides(stay.get(k), meta, turned)
            for k, meta, turned in zip((_X, _Y), self.factors, self.turned, strict=True)
        )
        batch, (rows, columns) = out.shape[:-2], out.shape[-2:]
        depth = self.factors[0].shape[-2 if self.turned[0] else -1]
        places = [
            _places(batch, meta.shape[:-2], strides[:-2])
            for meta, strides in zip(self.factors, (x, y), strict=True)
        ]
        places.append(np.arange(prod(batch), dtype=np.int64) * rows * columns * size)
        sizes = {
            "count": prod(batch), "rows": rows, "columns": columns, "depth": depth,
            "x_row": x[-2], "x_depth": x[-1], "y_depth": y[-2], "y_column": y[-1],
            "out_row": columns * size, "biased": int(self.biased),
        }  # fmt: skip
        words = np.concatenate([[sizes[name] for name in WORDS], np.stack(places, 1).ravel()])
        out_at = self.inputs
        last = self.inputs + 1
        operands = (0, 1, out_at, 2 if self.biased else out_at, last)
        return Piece((Work(self.function, operands),), {last: words.astype(np.int64)})

    def error(self, mark: int) -> Exception:
        raise IndexError(mark)


def _strides(array: Array | None, meta: TensorMeta, turned: bool) -> tuple[int, ...]:
    """Bytes from one element to the next along each axis, the last two exchanged if turned."""
    size = meta.dtype.itemsize
    dense = tuple([prod(meta.shape[k + 1 :]) * size for k in range(meta.rank)])
    strides = dense if array is None else array.strides
    return (*strides[:-2], strides[-1], strides[-2]) if turned else strides


def _places(batch: Sequence[int], shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Where the matrices of a factor begin, for each point of the batch."""
    found = np.zeros(tuple(batch), np.int64)
    first = len(batch) - len(shape)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True), first):
        if extent > 1:
            steps = np.arange(batch[axis], dtype=np.int64) * stride
            found += steps.reshape((-1,) + (1,) * (len(batch) - axis - 1))
    return found.ravel()
