"""Large matmuls as native steps of a plan: a blocked GEMM on the thread pool, without BLAS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from pirkit.lowering.codegen.matmul.gemm import native_gemm
from pirkit.lowering.codegen.matmul.matmul_sizes import Gemm, MatrixBatch
from pirkit.lowering.sequence_step import step_of
from pirkit.lowering.whole_program.matmul import matmul_of, panel_product
from pirkit.lowering.whole_program.op_graph import NotNativeError
from pirkit.runtime.binding import Binding
from pirkit.runtime.meta import TensorMeta
from pirkit.runtime.native.function import NativeFunction
from pirkit.runtime.native.launch import LaunchFunction, LaunchPart
from pirkit.runtime.native.segment import NativeStep

Array = np.ndarray[Any, Any]
_MIN_MULTIPLICATIONS: Final = 1 << 15
"""A smaller matmul that runs alone is not worth the compilation of a function for its sizes."""


def bind_matmul(b: Binding) -> NativeStep | None:
    """Bind a large matmul; None for one that numpy runs."""
    transposed = bool(b.attrs.get("transpose_x")), bool(b.attrs.get("transpose_y"))
    metas = b.input(), b.input(1), b.output()
    if not metas[0].dtype == metas[1].dtype == metas[2].dtype:
        return None
    try:
        product = matmul_of(*metas, transposed)
    except NotNativeError:
        return None
    if isinstance(product, Gemm) and product.multiplications > _MIN_MULTIPLICATIONS:
        return LargeMatmul(metas, product, transposed)
    return None


def bind_panels(b: Binding) -> NativeStep | None:
    """Bind a matmul with weights in panels; None for one that has no native form here."""
    metas = [m if isinstance(m, TensorMeta) else None for m in b.inputs]
    try:
        found, operands = panel_product(metas, b.output())
    except NotNativeError:
        return None
    function = native_gemm(found) if isinstance(found, Gemm) else found
    return step_of(function, operands, len(metas), (b.output(),))


class LargeMatmul(NativeStep):
    """``x y``; operands may be transposed or strided views, specialized when they are pinned."""

    def __init__(
        self,
        metas: tuple[TensorMeta, TensorMeta, TensorMeta],
        product: Gemm,
        transposed: tuple[bool, bool],
    ) -> None:
        self.inputs, self.outputs, self.results = 2, {2: 0}, metas[2:]
        self.metas, self.product, self.transposed = metas, product, transposed
        self.function = native_gemm(product)

    def accepts(self, operand: int, array: Any) -> bool:
        """True also for views with unit stride along a row or a column: packing reads these."""
        return super().accepts(operand, array) or (
            operand < self.inputs
            and type(array) is np.ndarray
            and array.flags.aligned
            and self._matrices(operand, array) is not None
        )

    def launch_part(self, pinned: Mapping[int, Array]) -> LaunchPart:
        found = {k: self._matrices(k, array) for k, array in pinned.items() if k < self.inputs}
        a, b = (found.get(k) or own for k, own in enumerate((self.product.a, self.product.b)))
        return LaunchPart((LaunchFunction(self._function(a, b), (0, 1, 2)),))

    def error(self, flag: int) -> Exception:
        raise IndexError(flag)

    def _function(self, a: MatrixBatch, b: MatrixBatch) -> NativeFunction:
        if (a, b) == (self.product.a, self.product.b):
            return self.function
        return native_gemm(replace(self.product, a=a, b=b))

    def _matrices(self, operand: int, array: Array) -> MatrixBatch | None:
        """The layout of an operand as a batch of matrices; None if it must be copied."""
        dense = (self.product.a, self.product.b)[operand]
        if array.flags.c_contiguous:
            return dense
        strides = _folded(array, len(self.product.batch), operand == 0)
        size = array.itemsize
        if strides is None or min(array.strides) < 0 or size not in array.strides[-2:]:
            return None
        pair = strides[-2:][::-1] if self.transposed[operand] else strides[-2:]
        extent = sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + size
        return MatrixBatch(tuple(strides[:-2]), (pair[0], pair[1]), extent)


def _folded(array: Array, batch: int, is_left: bool) -> Sequence[int] | None:
    """Strides along the batch and within a matrix. Leading axes of a left operand without a batch
    are collapsed into rows; None if their strides do not allow that.
    """
    lead = array.ndim - 2
    if is_left and lead > batch:
        rows = array.shape[:-1]
        steps = array.strides[:-1]
        follows = all(steps[k] == rows[k + 1] * steps[k + 1] for k in range(lead))
        return array.strides[-2:] if follows else None
    own = [
        0 if n == 1 else s for n, s in zip(array.shape[:lead], array.strides[:lead], strict=True)
    ]
    return [*[0] * (batch - lead), *own, *array.strides[-2:]]
